/** The numbers that clients of both functions can run into. Spec section 8; those without a mark there are our own. */

/** Body of every route that has no larger limit of its own. */
export const BODY_BYTES_MAX = 64 * 1024;
/** A reason, an agent's key in the sync log, an actor or action to filter by. */
export const LABEL_LENGTH_MAX = 256;
/** Entries of one page of the audit ledger. Spec 8. */
export const AUDIT_LIMIT_MAX = 1_000;
export const AUDIT_LIMIT_DEFAULT = 200;
/** Entries checked or exported in one call to the database. */
export const AUDIT_PIECE = 5_000;

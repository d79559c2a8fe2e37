/** What can go wrong, as classes to catch and codes to branch on. */

/** A block that exists twice under one number. */
export interface BlockConflict {
  sequence_number: number;
  existing_block_hash: string;
  attempted_block_hash: string;
}

/** What is known of a failure. */
export interface Failure {
  /** HTTP status; absent when the service did not answer or was not asked. */
  status?: number;
  /** Quote it when asking about a failure. */
  requestId?: string;
  /** Further fields of the service's answer. */
  details?: Readonly<Record<string, unknown>>;
  /** How long the service asks to wait. */
  retryAfterMs?: number;
  cause?: unknown;
}

/** Every error of this library. `code` is the service's wire code, or one of the library's own. */
export class AgentStateError extends Error {
  readonly status: number | undefined;
  readonly requestId: string | undefined;
  readonly details: Readonly<Record<string, unknown>>;
  readonly retryAfterMs: number | undefined;

  constructor(readonly code: string, message = code, failure: Failure = {}) {
    super(message, failure.cause === undefined ? {} : { cause: failure.cause });
    this.name = new.target.name;
    this.status = failure.status;
    this.requestId = failure.requestId;
    this.details = failure.details ?? {};
    this.retryAfterMs = failure.retryAfterMs;
  }
}

/** 400: the request is not as it must be. */
export class BadRequestError extends AgentStateError {}
/** 401: the token is unknown, revoked or expired. */
export class AuthError extends AgentStateError {}
/** 402, and 403 `trial_quota_exceeded`: credit or quota is used up. */
export class QuotaError extends AgentStateError {}
/** 403: the caller may not do this. */
export class ForbiddenError extends AgentStateError {}
/** 404: there is no such thing, or nothing yet. */
export class NotFoundError extends AgentStateError {}
/** 409: somebody else has written meanwhile. */
export class ConflictError extends AgentStateError {}
/** 413, or found before sending: more than the service takes. */
export class TooLargeError extends AgentStateError {}
/** 429, still after all tries. */
export class RateLimitError extends AgentStateError {}
/** 5xx, still after all tries. */
export class UnavailableError extends AgentStateError {}
/** No answer, still after all tries: `network_error`, `timeout`, `invalid_answer`. */
export class NetworkError extends AgentStateError {}

/** 409 `split_brain_detected`: another device has written other blocks under the same numbers. */
export class SplitBrainError extends ConflictError {
  /** Where the logs differ. */
  get conflicts(): BlockConflict[] {
    return (this.details.conflicts ?? []) as BlockConflict[];
  }
}

/**
 * What came back is not what was stored. Codes: `size_mismatch`, `decryption_failed`, `payload_hash_mismatch`,
 * `lineage_broken`, `block_hash_mismatch`, `root_mismatch`, `answer_mismatch`, `outbox_damaged`, `audit_broken`.
 */
export class IntegrityError extends AgentStateError {}

/** The service shows less than, or something else than, what this client has seen before: `rolled_back`. */
export class RollbackError extends IntegrityError {
  constructor(message: string, details: Record<string, unknown> = {}) {
    super("rolled_back", message, { details });
  }
}

/** Another process or tab holds the store: `store_in_use`. */
export class StoreInUseError extends AgentStateError {
  constructor(where: string) {
    super("store_in_use", `${where} is in use by another process`);
  }
}

const BY_STATUS: Record<number, new (code: string, message?: string, failure?: Failure) => AgentStateError> =
  {
    401: AuthError,
    402: QuotaError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    413: TooLargeError,
    429: RateLimitError,
  };

/** The error that an answer of the service stands for. */
export function toError(code: string, failure: Failure & { status: number }): AgentStateError {
  const message = `${code} (${failure.status}${failure.requestId ? `, request ${failure.requestId}` : ""})`;
  if (code === "split_brain_detected") return new SplitBrainError(code, message, failure);
  if (code === "trial_quota_exceeded") return new QuotaError(code, message, failure);
  const Class = BY_STATUS[failure.status] ?? (failure.status >= 500 ? UnavailableError : BadRequestError);
  return new Class(code, message, failure);
}

/** Whether the same request may succeed later: nothing was refused, only not done. */
export function isTransient(error: unknown): boolean {
  return error instanceof UnavailableError || error instanceof NetworkError ||
    error instanceof RateLimitError;
}

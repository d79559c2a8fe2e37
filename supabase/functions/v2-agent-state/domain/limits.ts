/** Every number that a client can run into. Spec section 8; those without a mark there are our own. */

export * from "../../_shared/domain/limits.ts";

/** Ciphertext of one snapshot. */
export const SNAPSHOT_BYTES_MAX = 262_144;
/** One decoded chunk of the replication log. */
export const CHUNK_BYTES_MAX = 262_144;
/** Chunks in one POST /replicate. */
export const REPLICATE_CHUNKS_MAX = 1_000;
/** Body of POST /replicate: about six megabytes of ciphertext. */
export const REPLICATE_BODY_BYTES_MAX = 8 * 1024 * 1024;
/** Body of POST /snapshot: the largest ciphertext in base64, with room for the other fields. */
export const SNAPSHOT_BODY_BYTES_MAX = 512 * 1024;
/** A client-chosen agent identifier, in UTF-16 units. */
export const AGENT_ID_LENGTH_MAX = 512;
/** A `parent_snapshot`: the storage path of an agent with the longest identifier, and then some. */
export const PARENT_LENGTH_MAX = 1_024;
/** Entries in one answer of GET /replay. */
export const REPLAY_CHUNKS_MAX = 1_000;
/** Ciphertext fetched at a time while answering GET /replay or GET /envelopes: what bounds their memory. */
export const READ_PAGE_BYTES = 1024 * 1024;
export const LINEAGE_LIMIT_MAX = 500;
export const LINEAGE_LIMIT_DEFAULT = 100;
export const ENVELOPES_LIMIT_MAX = 500;
export const ENVELOPES_LIMIT_DEFAULT = 100;
/** `project_name` and `project_desc` of the settings, in characters. */
export const PROJECT_NAME_LENGTH_MAX = 128;
export const PROJECT_DESC_LENGTH_MAX = 2_000;
/** The salt that a client stretches its passphrase with. */
export const KDF_SALT_BYTES = 32;
/** One block of a team's memory. Spec 8. */
export const MEMORY_BYTES_MAX = 262_144;
/** Entries in one answer of GET /teams/:id/memories. */
export const MEMORIES_LIMIT_MAX = 1_000;
/** Body of POST /teams/:id/rotate: wrapped keys for every member. */
export const ROTATE_BODY_BYTES_MAX = 4 * 1024 * 1024;
/** Members that one rotation may name. */
export const ROTATE_GRANTS_MAX = 1_000;
/** A webhook's URL, in UTF-16 units. */
export const URL_LENGTH_MAX = 2_048;
/** Deliveries of one POST /webhooks/dispatch. */
export const WEBHOOK_DISPATCH_MAX = 500;
/** An event of the payment provider. */
export const BILLING_EVENT_BYTES_MAX = 1024 * 1024;
/** A product's id at the payment provider. */
export const PRODUCT_ID_LENGTH_MAX = 128;
/** Seats that can be asked for at once; how many there may be, the payment provider says. */
export const SEATS_MAX = 100_000;
/** Body of SCIM requests: a whole group of ten thousand members. */
export const SCIM_BODY_BYTES_MAX = 2 * 1024 * 1024;
/** Resources of one page of a SCIM search, and of one that does not say. */
export const SCIM_COUNT_MAX = 200;
export const SCIM_COUNT_DEFAULT = 100;
/** Metadata of an identity provider, as text in UTF-8. */
export const METADATA_BYTES_MAX = 256 * 1024;
/** Body of PUT /sso/:teamId/config: metadata, escaped as JSON, with room for the other fields. */
export const SSO_BODY_BYTES_MAX = 768 * 1024;
/** Domains of one identity provider, claims of its mapping, groups with roles. */
export const SSO_DOMAINS_MAX = 50;
export const SSO_CLAIMS_MAX = 50;
export const SSO_GROUPS_MAX = 200;

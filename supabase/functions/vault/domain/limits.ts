/** Every number of the vault interface that a client can run into; how many of each there may be, SQL says. */

export * from "../../_shared/domain/limits.ts";

/** Ciphertext of one asset. */
export const ASSET_BYTES_MAX = 262_144;
/** Body of POST …/asset: the largest ciphertext in base64, and a wrapped key for every heir. */
export const ASSET_BODY_BYTES_MAX = 1024 * 1024;
/** Body of POST …/release/rearm: a wrapped share for everybody. */
export const REARM_BODY_BYTES_MAX = 512 * 1024;
/** Heirs that a vault may name, so wrapped keys of one asset too. */
export const HEIRS_MAX = 20;
/** Requests that carry a token, for each network. */
export const TOKEN_TRIES = { name: "vault", max: 600, windowSeconds: 3_600 } as const;
/** An address of a wallet: opaque. */
export const WALLET_LENGTH_MAX = 128;
/** Why a guardian claims that it is time. */
export const REASON_LENGTH_MAX = 1_000;
export const INTERVAL_DAYS_MAX = 365;
export const GRACE_DAYS_MAX = 90;
export const WINDOW_HOURS_MIN = 24;
export const WINDOW_HOURS_MAX = 2_160;
export const QUORUM_MIN = 2;
export const QUORUM_MAX = 9;
/** What a vault's epoch can be counted to: an `int` of Postgres. */
export const KEY_EPOCH_MAX = 2_147_483_647;
/** Vaults that one run of the job looks at. */
export const DISPATCH_MAX = 500;

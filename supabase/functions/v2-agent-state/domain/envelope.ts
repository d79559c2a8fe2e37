/** Splits a packed block (IV, then ciphertext and tag) for GET /envelopes. Spec 2.5; pure. */

/** AES-GCM's initialisation vector. */
const IV_BYTES = 12;

/** The IV and the rest. A block shorter than an IV is all IV: the server does not judge what it stores. */
export function splitPackedBlock(block: Uint8Array): { iv: Uint8Array; ciphertext: Uint8Array } {
  return { iv: block.subarray(0, IV_BYTES), ciphertext: block.subarray(IV_BYTES) };
}

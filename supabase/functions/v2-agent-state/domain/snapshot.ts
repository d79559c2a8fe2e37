/** The names of snapshots: the one that clients see, and the one that the bucket sees. Spec 4.1; pure. */

const AGENT_CHARACTERS_IN_OBJECT_NAME_MAX = 100;

/** The `storage_path` of a snapshot: `{agent_id}/seq-{n}-{first 12 of the payload hash}.bin`. */
export function storagePath(agentId: string, sequence: number, payloadHash: string): string {
  return `${agentId}/${fileName(sequence, payloadHash)}`;
}

/**
 * The name of one attempt's object. It begins with the attempt's random UUID, so it is never used twice and cannot
 * be guessed; the rest is there for people who look into the bucket. Bytes of the agent's identifier other than
 * letters, digits, `_` and `-` are written `=XX`, so nothing that a client chose can bend a path.
 */
export function objectName(
  attemptId: string,
  agentId: string,
  sequence: number,
  payloadHash: string,
): string {
  const escaped = Array.from(
    new TextEncoder().encode(agentId),
    (byte) => /[0-9A-Za-z_-]/.test(String.fromCharCode(byte)) ? String.fromCharCode(byte) : escapeByte(byte),
  );
  let agent = "";
  for (const piece of escaped) {
    if (agent.length + piece.length > AGENT_CHARACTERS_IN_OBJECT_NAME_MAX) break;
    agent += piece;
  }
  return `${attemptId}/${agent}/${fileName(sequence, payloadHash)}`;
}

function fileName(sequence: number, payloadHash: string): string {
  return `seq-${sequence}-${payloadHash.slice(0, 12)}.bin`;
}

function escapeByte(byte: number): string {
  return `=${byte.toString(16).toUpperCase().padStart(2, "0")}`;
}

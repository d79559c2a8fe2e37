/**
 * The audit ledger's chain, as anybody can recheck it from an export. The same encoding is in docs/audit.md.
 *
 * The client carries this very file and `audit_format.ts`, into browsers too, so they import nothing of Node's.
 */

import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex, hexToBytes, utf8ToBytes } from "@noble/hashes/utils.js";
import { AUDIT_FORMAT, type AuditHead, GENESIS_HASH } from "./audit_format.ts";

export * from "./audit_format.ts";

/** All that an entry's metadata may hold. */
export type AuditValue = string | number | boolean | null;

/** One entry as the API shows it. */
export interface AuditEntry {
  id: string;
  seq: number;
  actor: string;
  action: string;
  resource_type: string;
  resource_id: string;
  metadata: Record<string, AuditValue>;
  prev_hash: string;
  entry_hash: string;
  created_at: string;
}

/** An export, of a team or of a vault. One without `from` and `to` holds the whole ledger. */
export interface AuditExport extends AuditHead {
  format: string;
  team_id: string;
  /** Stands in the place of `team_id` in a vault's export, there and in the encoding. */
  vault_id?: string;
  from?: string;
  to?: string;
  entries: AuditEntry[];
}

/** What a check found. */
export interface ChainVerdict {
  valid: boolean;
  /** Entries that were found good. */
  checked: number;
  /** False for a period: that nothing is missing before or after it is not shown. */
  whole: boolean;
  /** The first place that is not what it must be; absent when the export as a whole cannot be used. */
  brokenSeq?: number;
  reason?: string;
}

type Broken = Pick<ChainVerdict, "brokenSeq" | "reason">;

const REWRITTEN = "the earlier head has another hash for it: the ledger was rewritten";
const ENTRY_SHAPE: Record<keyof AuditEntry, (value: unknown) => boolean> = {
  id: isUuid,
  seq: isSequence,
  actor: isText,
  action: isText,
  resource_type: isText,
  resource_id: isText,
  metadata: isMetadata,
  prev_hash: isHash,
  entry_hash: isHash,
  created_at: isTime,
};
const HEAD_SHAPE = {
  format: (value: unknown) => value === AUDIT_FORMAT,
  from: isTime,
  to: isTime,
  head_seq: (value: unknown) => value === -1 || isSequence(value),
  head_hash: isHash,
  entries: Array.isArray,
};
const TEAM_SHAPE = { ...HEAD_SHAPE, team_id: isUuid };
const VAULT_SHAPE = { ...HEAD_SHAPE, vault_id: isUuid };
const OPTIONAL = ["from", "to"];

/** The hash that an entry must have, as 64 hex digits. Its own `entry_hash` plays no part. */
export function hashAuditEntry(teamId: string, entry: Omit<AuditEntry, "entry_hash">): string {
  return bytesToHex(sha256(encodeAuditEntry(teamId, entry)));
}

/** The bytes that an entry's hash is of. */
export function encodeAuditEntry(teamId: string, entry: Omit<AuditEntry, "entry_hash">): Uint8Array {
  // Put together as hex: two digits a byte, so that texts of digits are in the order of the bytes.
  const pairs = Object.entries(entry.metadata)
    .map(([key, value]) => ({
      order: toHex(key),
      field: encodeField(key) + encodeField(spellValue(value)),
    }))
    .sort((a, b) => a.order < b.order ? -1 : 1);
  return hexToBytes([
    ...[AUDIT_FORMAT, teamId, String(entry.seq), entry.id, entry.actor, entry.action].map(encodeField),
    ...[entry.resource_type, entry.resource_id, entry.created_at].map(encodeField),
    ...pairs.map(({ field }) => field),
    entry.prev_hash,
  ].join(""));
}

/**
 * Checks an export: that it has the shape of one, that its entries are numbered without a gap, that each has the
 * hash that it must have and carries the one before it, and that a whole ledger starts at the beginning and ends at
 * its head. With `earlier`, also that what the ledger was then is how it begins now.
 *
 * Trusts nothing about `exported`: it may be any value.
 */
export function verifyChain(exported: unknown, earlier?: AuditHead): ChainVerdict {
  const isVault = isObject(exported) && Object.hasOwn(exported, "vault_id");
  const fault = findFault(exported, isVault ? VAULT_SHAPE : TEAM_SHAPE);
  if (fault !== undefined) {
    return unusable(`this is not an export of an audit ledger: ${fault}`);
  }
  const chain = exported as AuditExport;
  const whole = chain.from === undefined && chain.to === undefined;
  // Times never go back along a chain, so what has no `from` starts where the chain starts.
  const first = chain.from === undefined ? 0 : readSequence(chain.entries[0]);
  for (const [checked, entry] of chain.entries.entries()) {
    const seq = first + checked;
    const reason = judgeEntry(chain, entry, seq, chain.entries[checked - 1]) ??
      judgeEarlier(entry, earlier);
    if (reason !== undefined) {
      return { valid: false, checked, whole, brokenSeq: seq, reason };
    }
  }
  const verdict = { valid: true, checked: chain.entries.length, whole };
  const broken = judgeEnd(chain, first + chain.entries.length - 1) ??
    (earlier === undefined ? undefined : judgeReach(chain, earlier, first));
  return broken === undefined ? verdict : { ...verdict, ...broken, valid: false };
}

/** Says what is wrong with one entry, or nothing. */
function judgeEntry(
  chain: AuditExport,
  entry: AuditEntry,
  seq: number,
  before: AuditEntry | undefined,
): string | undefined {
  const fault = findFault(entry, ENTRY_SHAPE);
  if (fault !== undefined) return fault;
  if (entry.seq !== seq) {
    return `an entry with the number ${entry.seq} is in its place`;
  }
  if (seq > chain.head_seq) {
    return `the head is entry ${chain.head_seq}, and this one comes after it`;
  }
  const previous = seq === 0 ? GENESIS_HASH : before?.entry_hash ?? entry.prev_hash;
  if (entry.prev_hash !== previous) {
    return "its prev_hash is not the hash of the entry before it";
  }
  if (entry.entry_hash !== hashAuditEntry(chain.vault_id ?? chain.team_id, entry)) {
    return "its entry_hash is not the hash of it";
  }
  if (entry.created_at < (chain.from ?? "") || (chain.to !== undefined && entry.created_at > chain.to)) {
    return "it is not of the period of this export";
  }
  return undefined;
}

function judgeEarlier(entry: AuditEntry, earlier: AuditHead | undefined): string | undefined {
  const differs = entry.seq === earlier?.head_seq &&
    entry.entry_hash !== earlier.head_hash;
  return differs ? "the earlier head has another hash for it: the ledger was rewritten" : undefined;
}

/** Whether the entries reach the head, if they must, and are it where they do. */
function judgeEnd(chain: AuditExport, last: number): Broken | undefined {
  const { head_seq, head_hash, entries, from, to } = chain;
  if (head_seq === -1 && head_hash !== GENESIS_HASH) {
    return {
      brokenSeq: 0,
      reason: "the head says that it is missing, yet has its hash",
    };
  }
  if (entries.length > 0 && last === head_seq) {
    return entries.at(-1)!.entry_hash === head_hash
      ? undefined
      : { brokenSeq: last, reason: "its hash is not that of the head" };
  }
  // Times never go back, so what has no `to` ends where the chain ends; after some time there may be nothing.
  const mustReach = to === undefined &&
    (entries.length > 0 || from === undefined);
  return mustReach && last < head_seq
    ? {
      brokenSeq: last + 1,
      reason: `it is missing: the head is entry ${head_seq}`,
    }
    : undefined;
}

/** Whether the earlier head is of this chain, as far as the walk over the entries has not shown it. */
function judgeReach(chain: AuditExport, earlier: AuditHead, first: number): Broken | undefined {
  const seq = earlier.head_seq;
  if (seq > chain.head_seq) {
    return {
      brokenSeq: chain.head_seq + 1,
      reason: `it is missing: the ledger reached entry ${seq} before`,
    };
  }
  if (seq >= first && seq < first + chain.entries.length) return undefined;
  const known = seq === -1
    ? GENESIS_HASH
    : seq === chain.head_seq
    ? chain.head_hash
    : seq === first - 1
    ? chain.entries[0]?.prev_hash
    : undefined;
  if (known === undefined) {
    return { reason: `entry ${seq}, the earlier head, is not in this export` };
  }
  return known === earlier.head_hash ? undefined : { brokenSeq: Math.max(seq, 0), reason: REWRITTEN };
}

function unusable(reason: string): ChainVerdict {
  return { valid: false, checked: 0, whole: false, reason };
}

/** Names the first field that is missing, too much, or not what it must be. */
function findFault(value: unknown, shape: Record<string, (value: unknown) => boolean>): string | undefined {
  if (!isObject(value)) return "it is not an object";
  const surplus = Object.keys(value).find((field) => !Object.hasOwn(shape, field));
  if (surplus !== undefined) {
    return `it has a field ${JSON.stringify(surplus.slice(0, 40))}`;
  }
  const wrong = Object.keys(shape).find((field) =>
    Object.hasOwn(value, field) ? !shape[field]!(value[field]) : !OPTIONAL.includes(field)
  );
  return wrong === undefined ? undefined : `its ${wrong} is not as it must be`;
}

/** The number of the first entry of a period; 0 when it has none, which is found fault with later. */
function readSequence(entry: unknown): number {
  return isObject(entry) && isSequence(entry.seq) ? entry.seq as number : 0;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isSequence(value: unknown): boolean {
  return Number.isSafeInteger(value) && (value as number) >= 0 &&
    !Object.is(value, -0);
}

/** Lone surrogates have no UTF-8: they would hash like another text. */
function isText(value: unknown): boolean {
  return typeof value === "string" && value.isWellFormed();
}

function isUuid(value: unknown): boolean {
  return typeof value === "string" &&
    /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(value);
}

function isHash(value: unknown): boolean {
  return typeof value === "string" && /^[0-9a-f]{64}$/.test(value);
}

function isTime(value: unknown): boolean {
  if (typeof value !== "string" || !/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/.test(value)) return false;
  const milliseconds = Date.parse(value);
  return !Number.isNaN(milliseconds) &&
    new Date(milliseconds).toISOString() === value;
}

/** Flat; a number that two programs could read differently cannot be checked. */
function isMetadata(value: unknown): boolean {
  return isObject(value) &&
    Object.entries(value).every(([key, each]) =>
      isText(key) &&
      (each === null || typeof each === "boolean" || isText(each) ||
        (Number.isSafeInteger(each) && !Object.is(each, -0)))
    );
}

function spellValue(value: AuditValue): string {
  if (value === null) return "z";
  return (typeof value === "string" ? "s" : typeof value === "number" ? "n" : "b") + String(value);
}

/** A text with its length in bytes before it, in hex. */
function encodeField(text: string): string {
  const hex = toHex(text);
  return (hex.length / 2).toString(16).padStart(16, "0") + hex;
}

function toHex(text: string): string {
  return bytesToHex(utf8ToBytes(text));
}

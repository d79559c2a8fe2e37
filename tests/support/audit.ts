/** Ledgers for tests: chains that are made without the service, and every way to tamper with an export. */

import {
  AUDIT_FORMAT,
  type AuditEntry,
  type AuditExport,
  type AuditValue,
  GENESIS_HASH,
  hashAuditEntry,
} from "../../supabase/functions/_shared/domain/audit_chain.ts";

/** What an entry says; the rest of it follows from its place. */
export type EntryText = Pick<
  AuditEntry,
  "actor" | "action" | "resource_type" | "resource_id" | "metadata"
>;

/** An export that somebody has laid hands on, and what they did. */
export interface Tampering {
  name: string;
  exported: unknown;
}

/** Makes a good export of the whole ledger of a team. */
export function makeChain(
  texts: readonly EntryText[],
  teamId: string = crypto.randomUUID(),
): AuditExport {
  const entries: AuditEntry[] = [];
  let prev_hash = GENESIS_HASH;
  for (const [seq, text] of texts.entries()) {
    const created_at = new Date(Date.UTC(2026, 10, 20) + seq * 1_000)
      .toISOString();
    const entry = {
      ...text,
      id: crypto.randomUUID(),
      seq,
      created_at,
      prev_hash,
    };
    prev_hash = hashAuditEntry(teamId, entry);
    entries.push({ ...entry, entry_hash: prev_hash });
  }
  return {
    format: AUDIT_FORMAT,
    team_id: teamId,
    head_seq: entries.length - 1,
    head_hash: prev_hash,
    entries,
  };
}

/** The stretch of an export that a period holds, as the service would export it. */
export function cutPeriod(
  whole: AuditExport,
  from: string | undefined,
  to: string | undefined,
): AuditExport {
  const entries = whole.entries.filter(({ created_at }) =>
    created_at >= (from ?? "") && created_at <= (to ?? "9")
  );
  return {
    ...whole,
    ...(from ? { from } : {}),
    ...(to ? { to } : {}),
    entries,
  };
}

/** Gives every entry from `start` on the hashes that would be right, but leaves the head. */
export function rehash(exported: AuditExport, start: number): AuditExport {
  const entries = exported.entries.map((entry) => ({ ...entry }));
  for (const [i, entry] of entries.entries()) {
    if (i < start) continue;
    entry.prev_hash = entries[i - 1]?.entry_hash ?? GENESIS_HASH;
    entry.entry_hash = hashAuditEntry(exported.team_id, entry);
  }
  return { ...exported, entries };
}

/** Every single change to a whole export of at least three entries; `other` is another team's, as long. */
export function* tamperExport(
  good: AuditExport,
  other: AuditExport,
): Generator<Tampering> {
  for (const i of good.entries.keys()) {
    for (const [what, entry] of tamperEntry(good.entries[i]!)) {
      const entries: unknown[] = good.entries.with(i, entry as AuditEntry);
      yield { name: `entry ${i}: ${what}`, exported: { ...good, entries } };
    }
    const forged = { ...good.entries[i]!, actor: "mallory" };
    const rehashed = rehash(
      { ...good, entries: good.entries.with(i, forged) },
      i,
    );
    yield {
      name: `entry ${i}: rewritten, and all hashes from it on`,
      exported: rehashed,
    };
  }
  yield* reorder(good, other);
  yield* tamperFrame(good, other);
}

/** Changes to one entry. */
function* tamperEntry(entry: AuditEntry): Generator<[string, unknown]> {
  for (
    const field of [
      "actor",
      "action",
      "resource_type",
      "resource_id",
      "id",
      "created_at",
    ] as const
  ) {
    yield [`${field} longer`, { ...entry, [field]: entry[field] + "x" }];
    yield [`${field} shorter`, {
      ...entry,
      [field]: entry[field].slice(0, -1),
    }];
  }
  // What one field loses the next one gains: the text put together is the same.
  yield ["a boundary moved", {
    ...entry,
    action: entry.action + entry.resource_type[0],
    resource_type: entry.resource_type.slice(1),
  }];
  for (const step of [-1, 1]) {
    const created_at = new Date(Date.parse(entry.created_at) + step)
      .toISOString();
    yield [`created_at moved by ${step} ms`, { ...entry, created_at }];
    yield [`renumbered by ${step}`, { ...entry, seq: entry.seq + step }];
  }
  for (const field of ["prev_hash", "entry_hash"] as const) {
    for (let i = 0; i < 32; i++) {
      yield [`${field} byte ${i}`, {
        ...entry,
        [field]: flip(entry[field], i),
      }];
    }
    yield [`${field} in upper case`, {
      ...entry,
      [field]: "A" + entry[field].slice(1),
    }];
  }
  yield ["seq as text", { ...entry, seq: String(entry.seq) }];
  yield ["id of another entry", { ...entry, id: crypto.randomUUID() }];
  for (const [what, metadata] of tamperMetadata(entry.metadata)) {
    yield [what, { ...entry, metadata }];
  }
  for (const field of Object.keys(entry)) {
    const { [field as keyof AuditEntry]: _, ...rest } = entry;
    yield [`without ${field}`, rest];
    yield [`${field} null`, { ...entry, [field]: null }];
  }
  yield ["a field more", { ...entry, note: "trust me" }];
  yield [
    "a __proto__ of its own",
    JSON.parse(JSON.stringify(entry).slice(0, -1) + ',"__proto__":{}}'),
  ];
}

function* tamperMetadata(
  metadata: Record<string, AuditValue>,
): Generator<[string, unknown]> {
  yield ["metadata with a key more", { ...metadata, more: 1 }];
  yield ["metadata as text", JSON.stringify(metadata)];
  yield ["metadata nested", { ...metadata, deep: { a: 1 } }];
  yield ["metadata with a fraction", { ...metadata, part: 0.5 }];
  for (const [key, value] of Object.entries(metadata)) {
    const { [key]: _, ...rest } = metadata;
    yield [`metadata without ${key}`, rest];
    yield [`metadata ${key} renamed`, { ...rest, [`${key}x`]: value }];
    // 1 → "1", "x" → 1, true → "true", null → "null"; then, whatever it was, null or false.
    yield [`metadata ${key} of another type`, {
      ...metadata,
      [key]: typeof value === "string" ? 1 : String(value),
    }];
    yield [`metadata ${key} empty`, {
      ...metadata,
      [key]: value === null ? false : null,
    }];
  }
}

/** Entries left out, doubled, exchanged, foreign. */
function* reorder(good: AuditExport, other: AuditExport): Generator<Tampering> {
  const { entries } = good;
  const place = (name: string, changed: readonly AuditEntry[]): Tampering => ({
    name,
    exported: { ...good, entries: changed },
  });
  const renumber = (changed: readonly AuditEntry[]) => changed.map((entry, seq) => ({ ...entry, seq }));
  for (const i of entries.keys()) {
    const deleted = entries.toSpliced(i, 1);
    yield place(`entry ${i} deleted`, deleted);
    yield place(`entry ${i} deleted, the rest renumbered`, renumber(deleted));
    yield {
      name: `entry ${i} deleted, the rest rehashed`,
      exported: rehash({ ...good, entries: renumber(deleted) }, 0),
    };
    yield place(`entry ${i} doubled`, entries.toSpliced(i, 0, entries[i]!));
    yield place(
      `a forged entry before ${i}`,
      renumber(entries.toSpliced(i, 0, { ...entries[i]!, actor: "mallory" })),
    );
    yield place(
      `entry ${i} from another team`,
      entries.with(i, other.entries[i]!),
    );
    yield place(`entries from ${i} on from another team`, [
      ...entries.slice(0, i),
      ...other.entries.slice(i),
    ]);
    if (i > 0) yield place(`the last ${i} cut off`, entries.slice(0, -i));
    for (let j = i + 1; j < entries.length; j++) {
      const swapped = entries.with(i, entries[j]!).with(j, entries[i]!);
      yield place(`entries ${i} and ${j} exchanged`, swapped);
      yield place(
        `entries ${i} and ${j} exchanged and renumbered`,
        renumber(swapped),
      );
    }
  }
  yield place("all entries deleted", []);
  yield place("the order turned round", entries.toReversed());
}

/** Changes around the entries. */
function* tamperFrame(
  good: AuditExport,
  other: AuditExport,
): Generator<Tampering> {
  const frames: Record<string, unknown> = {
    "the head moved back": { head_seq: good.head_seq - 1 },
    "the head moved on": { head_seq: good.head_seq + 1 },
    "no head": { head_seq: -1 },
    "another team's head": { head_hash: other.head_hash },
    "another team's name": { team_id: other.team_id },
    "another format": { format: "v2-agent-state/audit/2" },
    "entries as an object": { entries: { ...good.entries } },
    "a field more": { signed_by: "us" },
    "the head as text": { head_seq: String(good.head_seq) },
  };
  for (const [name, over] of Object.entries(frames)) {
    yield { name, exported: { ...good, ...over as object } };
  }
  for (let i = 0; i < 32; i++) {
    yield {
      name: `head_hash byte ${i}`,
      exported: { ...good, head_hash: flip(good.head_hash, i) },
    };
  }
  for (const field of Object.keys(good)) {
    const { [field as keyof AuditExport]: _, ...rest } = good;
    yield { name: `without ${field}`, exported: rest };
  }
}

/** Another value for one byte of a hash in hex. */
function flip(hash: string, byte: number): string {
  const at = byte * 2;
  return hash.slice(0, at) + (hash.slice(at, at + 2) === "00" ? "01" : "00") +
    hash.slice(at + 2);
}

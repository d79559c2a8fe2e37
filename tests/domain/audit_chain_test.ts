/** The audit chain: its encoding against the vectors of docs/audit.md, and what the verifier lets through. */

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import fc from "npm:fast-check@4.10.2";
import { encodeHex } from "../../supabase/functions/_shared/domain/bytes.ts";
import {
  type AuditExport,
  encodeAuditEntry,
  GENESIS_HASH,
  hashAuditEntry,
  verifyChain,
} from "../../supabase/functions/_shared/domain/audit_chain.ts";
import { cutPeriod, type EntryText, makeChain, rehash, tamperExport } from "../support/audit.ts";
import { readBlock, readPage, runPython } from "../support/audit_page.ts";

const VECTORS: AuditExport = JSON.parse(readBlock("json"));

const texts = fc.string({ unit: "binary", maxLength: 12 });
const metadata = fc.dictionary(
  fc.string({ unit: "binary", maxLength: 6 }),
  fc.oneof(texts, fc.maxSafeInteger().map((number) => number + 0), fc.boolean(), fc.constant(null)),
  { maxKeys: 4 },
);
const entryTexts: fc.Arbitrary<EntryText> = fc.record({
  actor: texts.filter((text) => text !== ""),
  action: fc.constantFrom("member.add", "team.rotate"),
  resource_type: fc.constantFrom("member", "rotation"),
  resource_id: texts.filter((text) => text !== ""),
  metadata,
}, { noNullPrototype: true });
const chains = fc.tuple(fc.array(entryTexts, { minLength: 3, maxLength: 5 }), fc.uuid()).map(
  ([entries, team]) => makeChain(entries, team),
);

/** A chain of so many entries. */
function chainOf(length: number): AuditExport {
  return makeChain(Array.from({ length }, (_, i) => ({
    actor: `person-${i}`,
    action: "member.add",
    resource_type: "member",
    resource_id: `member "${i}" \\ 🦉`,
    metadata: { role: "write", rotation_seq: i, ok: i % 2 === 0, gone: null },
  })));
}

function head({ head_seq, head_hash }: AuditExport) {
  return { head_seq, head_hash };
}

Deno.test("the vectors of docs/audit.md hold", () => {
  assert.deepEqual(verifyChain(VECTORS), { valid: true, checked: 3, whole: true });
  for (const entry of VECTORS.entries) assert.equal(hashAuditEntry(VECTORS.team_id, entry), entry.entry_hash);
});

Deno.test("the example of docs/audit.md is what is encoded, byte by byte", () => {
  const entry = VECTORS.entries.at(-1)!;
  const bytes = encodeAuditEntry(VECTORS.team_id, entry);
  const rows = [
    ...readPage().matchAll(/^\| [a-z_ ]+ \| (?:`([0-9a-f ]+)`|\(no length\)) \| `([0-9a-f …]+)` \|/gm),
  ];
  assert.equal(rows.length, 10);
  let at = 0;
  for (const [, length, shown] of rows) {
    const [start, end = ""] = shown!.split(" … ").map((part) => part.replaceAll(" ", ""));
    const size = length === undefined ? 32 : Number.parseInt(length.replaceAll(" ", ""), 16);
    if (length !== undefined) at += 8;
    const hex = encodeHex(bytes.subarray(at, at + size));
    assert.ok(hex.startsWith(start!) && hex.endsWith(end), hex);
    at += size;
  }
  assert.equal(at, bytes.length);
  assert.ok(readPage().includes(`${bytes.length} bytes`));
  assert.ok(readPage().includes(`    ${createHash("sha256").update(bytes).digest("hex")}\n`));
});

Deno.test("the verifier in Python agrees on the vectors, and on a changed one", async () => {
  const good = await runPython(JSON.stringify(VECTORS));
  if (good === undefined) return;
  assert.deepEqual(good, { code: 0, text: "" });
  const changed = structuredClone(VECTORS);
  changed.entries[1]!.metadata.rewrapped = "-2";
  assert.deepEqual(await runPython(JSON.stringify(changed)), { code: 1, text: "entry 1 is broken" });
  const cut = JSON.stringify({ ...VECTORS, entries: VECTORS.entries.slice(0, 2) });
  assert.equal((await runPython(cut))!.code, 1);
});

Deno.test("keys of metadata are encoded in the order of their bytes, not of their UTF-16 units", () => {
  const entry = VECTORS.entries[1]!;
  const turned = Object.fromEntries(Object.entries(entry.metadata).reverse());
  assert.equal(hashAuditEntry(VECTORS.team_id, { ...entry, metadata: turned }), entry.entry_hash);
  const encoded = new TextDecoder().decode(encodeAuditEntry(VECTORS.team_id, entry));
  assert.ok(encoded.indexOf("urgent") < encoded.indexOf("\ufb01nal"));
  assert.ok(encoded.indexOf("\ufb01nal") < encoded.indexOf("\u{1f5dd}"));
});

Deno.test("good chains hold: none, one and many entries, whole and every period of them", () => {
  let accepted = 0;
  const accept = (exported: AuditExport, whole: boolean) => {
    const verdict = verifyChain(exported);
    assert.deepEqual(verdict, { valid: true, checked: exported.entries.length, whole });
    accepted++;
  };
  for (const length of [0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129]) {
    accept(chainOf(length), true);
  }
  const chain = chainOf(7);
  const times = [undefined, ...chain.entries.map(({ created_at }) => created_at)];
  for (const from of times) {
    for (const to of times) accept(cutPeriod(chain, from, to), from === undefined && to === undefined);
  }
  accept(JSON.parse(JSON.stringify(chain, null, 2)), true);
  accept(
    {
      ...chain,
      entries: chain.entries.map((entry) => Object.fromEntries(Object.entries(entry).reverse())),
    } as unknown as AuditExport,
    true,
  );
  assert.ok(accepted >= 36, String(accepted));
});

Deno.test("an entry may hold any well-formed text, __proto__ as a key too", () => {
  fc.assert(fc.property(chains, (chain) => {
    assert.deepEqual(verifyChain(JSON.parse(JSON.stringify(chain))), {
      valid: true,
      checked: chain.entries.length,
      whole: true,
    });
  }));
  const odd = JSON.parse('{"__proto__":"x","constructor":1,"hasOwnProperty":null}');
  const chain = makeChain([{ actor: "a", action: "b", resource_type: "c", resource_id: "d", metadata: odd }]);
  assert.ok(verifyChain(chain).valid);
  const without = {
    ...chain,
    entries: [{ ...chain.entries[0], metadata: { constructor: 1, hasOwnProperty: null } }],
  };
  assert.ok(!verifyChain(without).valid);
});

Deno.test("every single change of an export is caught, and the first broken place is named", () => {
  let caught = 0;
  for (const { name, exported } of tamperExport(chainOf(5), chainOf(5))) {
    const verdict = verifyChain(exported);
    assert.ok(!verdict.valid && verdict.reason !== undefined, name);
    const place = /^entry (\d)/.exec(name)?.[1];
    // Where a forgery is made good up to the end, it shows in the head.
    if (place !== undefined && !/rehashed|all hashes|^entry 4 deleted/.test(name)) {
      assert.equal(
        verdict.brokenSeq,
        Number(place) + (name.endsWith("doubled") ? 1 : 0),
        `${name}: ${verdict.reason}`,
      );
    }
    caught++;
  }
  assert.ok(caught >= 500, String(caught));
});

Deno.test("every tampering with arbitrary chains is caught", () => {
  const other = chainOf(5);
  fc.assert(
    fc.property(chains, (good) => {
      for (const { name, exported } of tamperExport(good, other)) {
        assert.ok(!verifyChain(exported).valid, name);
      }
    }),
    { numRuns: 20 },
  );
});

Deno.test("another character anywhere in an export's text is caught, unless it means the same", () => {
  fc.assert(
    fc.property(
      chains,
      fc.nat(),
      fc.string({ unit: "binary", minLength: 1, maxLength: 1 }),
      (chain, at, put) => {
        const text = JSON.stringify(chain);
        const place = at % text.length;
        let changed: unknown;
        try {
          changed = JSON.parse(text.slice(0, place) + put + text.slice(place + 1));
        } catch {
          return;
        }
        if (JSON.stringify(changed) !== text) assert.ok(!verifyChain(changed).valid);
      },
    ),
    { numRuns: 2_000 },
  );
});

Deno.test("what is no export at all is refused without an exception", () => {
  const deep = JSON.parse("[".repeat(100_000) + "]".repeat(100_000));
  const good = chainOf(3);
  const hostile = [
    undefined,
    null,
    0,
    "",
    "x",
    [],
    {},
    [good],
    deep,
    { ...good, entries: deep },
    {
      ...good,
      entries: [deep, ...good.entries.slice(1)],
    },
    { ...good, entries: good.entries.with(0, { ...good.entries[0]!, metadata: { deep } as never }) },
    {
      ...good,
      entries: [, ...good.entries.slice(1)],
    },
    JSON.parse(`{"__proto__":${JSON.stringify(good)}}`),
    Object.create(good),
  ];
  for (const exported of hostile) assert.ok(!verifyChain(exported).valid);
  fc.assert(fc.property(fc.anything(), (exported) => assert.ok(!verifyChain(exported).valid)));
});

Deno.test("a lone surrogate is refused: its bytes are those of another text", () => {
  const [text] = chainOf(1).entries;
  for (const field of ["actor", "resource_id"] as const) {
    const chain = makeChain([{ ...text!, [field]: "\ufffd" }]);
    assert.ok(verifyChain(chain).valid);
    assert.ok(!verifyChain({ ...chain, entries: [{ ...chain.entries[0], [field]: "\ud800" }] }).valid);
  }
});

Deno.test("numbers that programs could read differently are refused, though their hash is right", () => {
  const [text] = chainOf(1).entries;
  for (const number of [0.5, 2 ** 53, -(2 ** 53), 1e21, Infinity, NaN, -0]) {
    const verdict = verifyChain(makeChain([{ ...text!, metadata: { number } }]));
    assert.deepEqual([verdict.valid, verdict.brokenSeq], [false, 0], String(number));
  }
  for (const number of [0, -1, 2 ** 53 - 1, -(2 ** 53) + 1]) {
    assert.ok(verifyChain(makeChain([{ ...text!, metadata: { number } }])).valid, String(number));
  }
});

Deno.test("an earlier head shows that the ledger then is how it begins now", () => {
  const chain = chainOf(6);
  const start = { head_seq: -1, head_hash: GENESIS_HASH };
  const heads = [
    start,
    ...chain.entries.map(({ seq, entry_hash }) => ({ head_seq: seq, head_hash: entry_hash })),
  ];
  for (const earlier of heads) assert.ok(verifyChain(chain, earlier).valid);
  const rewritten = rehash(
    { ...chain, entries: chain.entries.with(2, { ...chain.entries[2]!, actor: "m" }) },
    2,
  );
  const forged = { ...rewritten, head_hash: rewritten.entries.at(-1)!.entry_hash };
  assert.ok(verifyChain(forged).valid, "nothing inside of it gives a full rewrite away");
  for (const earlier of heads) {
    const verdict = verifyChain(forged, earlier);
    assert.equal(verdict.valid, earlier.head_seq < 2, String(earlier.head_seq));
    if (!verdict.valid) assert.equal(verdict.brokenSeq, earlier.head_seq);
  }
  const shorter = {
    ...chain,
    entries: chain.entries.slice(0, 3),
    head_seq: 2,
    head_hash: heads[3]!.head_hash,
  };
  assert.ok(verifyChain(shorter).valid, "nor a clean cut");
  assert.equal(verifyChain(shorter, head(chain)).brokenSeq, 3);
  assert.ok(!verifyChain(chain, { ...start, head_hash: "1".repeat(64) }).valid);
});

Deno.test("a period proves an earlier head only where it reaches it", () => {
  const chain = chainOf(6);
  const part = cutPeriod(chain, chain.entries[2]!.created_at, chain.entries[4]!.created_at);
  const at = (seq: number) => ({ head_seq: seq, head_hash: chain.entries[seq]!.entry_hash });
  for (const seq of [1, 2, 3, 4, 5]) assert.ok(verifyChain(part, at(seq)).valid, String(seq));
  const verdict = verifyChain(part, at(0));
  assert.deepEqual([verdict.valid, verdict.brokenSeq], [false, undefined]);
  for (const seq of [1, 2, 3, 4, 5]) {
    assert.equal(verifyChain(part, { ...at(seq), head_hash: at(0).head_hash }).brokenSeq, seq);
  }
});

Deno.test("a period that lacks an entry, or holds one too many, is refused", () => {
  const chain = chainOf(6);
  const [from, to] = [chain.entries[2]!.created_at, chain.entries[4]!.created_at];
  const part = cutPeriod(chain, from, to);
  assert.ok(!verifyChain({ ...part, entries: part.entries.toSpliced(1, 1) }).valid);
  assert.ok(!verifyChain({ ...part, entries: chain.entries.slice(2) }).valid);
  assert.ok(!verifyChain({ ...part, entries: chain.entries.slice(1, 5) }).valid);
  const since = cutPeriod(chain, from, undefined);
  assert.equal(verifyChain({ ...since, entries: since.entries.slice(0, -1) }).brokenSeq, 5);
  const until = cutPeriod(chain, undefined, to);
  assert.ok(!verifyChain({ ...until, entries: until.entries.slice(1) }).valid);
});

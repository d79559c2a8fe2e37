/** The formats that clients share: published vectors, and properties that hold for every value. */

import assert from "node:assert/strict";
import fc from "npm:fast-check@4.10.2";
import { openBlock, packRecords, sealBlock } from "../../client/block.ts";
import {
  canonicalize,
  decodeBase64,
  deriveKey,
  EMPTY_ROOT,
  encodeBase64,
  generateKey,
  hashJson,
  IntegrityError,
  nextRoot,
  open,
  seal,
  sha256Hex,
  START,
  verifyLog,
} from "../../client/mod.ts";
import { decodeText, encodeText } from "../../client/bytes.ts";
import { Assembler, toRecords } from "../../client/entries.ts";
import { ReplayParser } from "../../client/replay_parser.ts";
import { hashDocument } from "../../client/snapshot_document.ts";
import { record } from "./support.ts";

/** Blocks of existing logs, with their hashes and the root after each. */
const BLOCKS = [
  [
    "YmxvY2stMA==",
    "b8c6f33f1780d30977c5e964f62e7959102a3694f1c28ae0834ab12f98a3dcb0",
    "755421a57572f4a13d6f22741167e9ed69dc87104c802675b09bf552ff58e08d",
  ],
  [
    "YmxvY2stMQ==",
    "89a1a98e709fa672374b463bbd8d5946ff4f530c5e65be07bf17ef8473ec96e9",
    "a2227dc8ba634ef9658eecf1563a8fc75f1bbbcf71b12090e05d76639b4231d4",
  ],
  [
    "YmxvY2stMg==",
    "2453695514ac2ba4f06e40a20e20cbc76b7a6c6d9a438c4a30e2acea3be39f57",
    "b105d9600d8cbf5e266a5f54e67e3d41da6505acce657979804a9f6a41b7dad3",
  ],
] as const;

const CHUNKS = BLOCKS.map(([ciphertext_b64, block_hash, merkle_root], sequence_number) => ({
  sequence_number,
  ciphertext_b64,
  block_hash,
  merkle_root,
  created_at: "",
}));

Deno.test("nextRoot() chains block hashes as existing logs do", () => {
  let root = EMPTY_ROOT;
  for (const [block, hash, expected] of BLOCKS) {
    assert.equal(sha256Hex(decodeBase64(block)), hash);
    root = nextRoot(root, hash);
    assert.equal(root, expected);
  }
});

Deno.test("hashDocument() gives existing snapshots their hash", () => {
  const document = {
    active_context: { project: "acme" },
    agent_id: "agent_a1b2c3",
    parent_snapshot: null,
    policy_hash: "0".repeat(64),
    sequence_number: 0,
    timestamp: "2026-01-01T00:00:00.000Z",
  };
  const expected = "746bd21df049f34ae5a6cd4ef942632143d5149489273a525b7004a69009a19c";
  assert.equal(hashDocument(document), expected);
  assert.equal(hashDocument({ ...document, client_payload_hash: expected }), expected);
  assert.equal(hashJson(document), expected);
});

Deno.test("canonicalize() spells the examples of RFC 8785", () => {
  const numbers = [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001, -0];
  assert.equal(canonicalize(numbers), "[333333333.3333333,1e+30,4.5,0.002,1e-27,0]");
  const keys = { "\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "😀": 5, "\u0080": 6, "ö": 7 };
  assert.equal(
    canonicalize(keys),
    '{"\\r":2,"1":4,"\u0080":6,"ö":7,"\u20ac":1,"😀":5,"\ufb33":3}',
  );
  assert.equal(
    canonicalize("\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"/"),
    '"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"',
  );
});

Deno.test("canonicalize() gives equal values one spelling, and JSON reads it back", () => {
  fc.assert(fc.property(fc.jsonValue(), (value) => {
    const text = canonicalize(value);
    // JSON has no negative zero.
    assert.deepEqual(JSON.parse(text), JSON.parse(JSON.stringify(value)));
    assert.equal(canonicalize(JSON.parse(text)), text);
  }));
});

Deno.test("canonicalize() refuses what JSON has no spelling for", () => {
  const cycle: Record<string, unknown> = {};
  cycle.self = cycle;
  for (const value of [NaN, Infinity, 1n, "\udc00", new Map(), new Uint8Array(1), cycle, () => 1]) {
    assert.throws(() => canonicalize({ value }), TypeError);
  }
});

/** Runs as on an engine whose byte arrays do not read base64. */
function withoutNative<T>(run: () => T): T {
  const native = Uint8Array.fromBase64;
  Object.assign(Uint8Array, { fromBase64: undefined });
  try {
    return run();
  } finally {
    Object.assign(Uint8Array, { fromBase64: native });
  }
}

Deno.test("base64 without the engine's own help is the same", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 70_000, size: "max" }), (bytes) => {
      const plain = new Proxy(bytes, {
        get: (target, key) => {
          const value = key === "toBase64" ? undefined : Reflect.get(target, key);
          return typeof value === "function" ? value.bind(target) : value;
        },
      });
      assert.equal(encodeBase64(plain), bytes.toBase64());
      const text = bytes.toBase64();
      assert.deepEqual(withoutNative(() => decodeBase64(text)), Uint8Array.from(bytes));
      assert.deepEqual(decodeBase64(text), Uint8Array.from(bytes));
    }),
    { numRuns: 20 },
  );
});

Deno.test("open() gives back what was sealed, and nothing when a single bit has changed", async () => {
  const key = generateKey();
  const block = await seal(key, encodeText("memory"));
  assert.equal(decodeText(await open(key, block)), "memory");
  for (let i = 0; i < block.length; i++) {
    const changed = block.slice();
    changed[i]! ^= 1;
    await assert.rejects(open(key, changed), IntegrityError);
  }
  for (const length of [0, 1, 12, 27]) {
    await assert.rejects(open(key, block.subarray(0, length)), IntegrityError);
  }
});

Deno.test("deriveKey() depends on the passphrase, in any Unicode spelling, and on the salt", async () => {
  const salt = encodeBase64(new Uint8Array(32));
  const key = await deriveKey("blåbær", salt);
  assert.equal(key.length, 32);
  assert.deepEqual(await deriveKey("bla\u030ab\u00e6r", salt), key);
  assert.notDeepEqual(await deriveKey("blåbær", encodeBase64(new Uint8Array(32).fill(1))), key);
});

Deno.test("openBlock() refuses a block in any other place than the one it was made for", async () => {
  const key = generateKey();
  const first = await sealBlock(key, [record("one")], START);
  const second = await sealBlock(key, [record("two")], first);
  assert.equal((await openBlock(key, second.bytes, first))[0]!.text, "two");
  await assert.rejects(openBlock(key, second.bytes, START), IntegrityError);
  await assert.rejects(openBlock(key, first.bytes, first), IntegrityError);
  const old = await seal(key, encodeText(canonicalize({ memories: [record("old")] })));
  assert.equal((await openBlock(key, old, START))[0]!.text, "old");
});

Deno.test("packRecords() keeps every record, in order, and fills blocks to about 64 KiB", () => {
  fc.assert(fc.property(fc.array(fc.nat({ max: 90_000 }), { maxLength: 40 }), (sizes) => {
    const records = sizes.map((size, i) => record("x".repeat(size), String(i)));
    const blocks = packRecords(records);
    assert.deepEqual(blocks.flat(), records);
    for (const [i, block] of blocks.entries()) {
      const size = canonicalize(block).length;
      assert.ok(block.length === 1 || size <= 64 * 1024, `block ${i} has ${size}`);
      if (i > 0) assert.ok(size + canonicalize(blocks[i - 1]!).length > 64 * 1024 - 100);
    }
  }));
});

Deno.test("verifyLog() finds what was changed, dropped, repeated or reordered", () => {
  const head = { sequence_number: 2, merkle_root: BLOCKS[2][2] };
  assert.deepEqual(verifyLog(CHUNKS, { head }), { valid: true, checked: 3 });
  const after = { sequence: 0, root: BLOCKS[0][2] };
  assert.deepEqual(verifyLog(CHUNKS.slice(1), { head, after }), { valid: true, checked: 2 });
  const [a, b, c] = CHUNKS as [typeof CHUNKS[0], typeof CHUNKS[0], typeof CHUNKS[0]];
  const spoiled = [
    [a, c],
    [b, a, c],
    [a, a, b, c],
    [a, { ...b, ciphertext_b64: c.ciphertext_b64 }, c],
    [a, { ...b, ciphertext_b64: c.ciphertext_b64, block_hash: c.block_hash }, c],
    [a, b, { ...c, merkle_root: b.merkle_root }],
    [a, b],
    [],
  ];
  for (const chunks of spoiled) assert.equal(verifyLog(chunks, { head }).valid, false);
  assert.equal(verifyLog(CHUNKS, { head: { ...head, merkle_root: EMPTY_ROOT } }).valid, false);
});

Deno.test("verifyLog() takes logs whose writer sends several blocks at once, and logs that begin at 1", () => {
  const last = BLOCKS[2][2];
  const batched = CHUNKS.map((chunk) => ({ ...chunk, merkle_root: last }));
  assert.equal(verifyLog(batched).valid, true);
  assert.equal(verifyLog(batched.slice(0, 2)).valid, false);
  const fromOne = CHUNKS.map((chunk) => ({ ...chunk, sequence_number: chunk.sequence_number + 1 }));
  assert.equal(verifyLog(fromOne).valid, true);
});

Deno.test("a page of a log is read the same, however it is cut into pieces", () => {
  const chunk = fc.record({
    sequence_number: fc.nat(),
    block_hash: fc.string(),
    ciphertext_b64: fc.string({ unit: "binary" }),
    nested: fc.jsonValue(),
  });
  const pages = fc.record({
    before: fc.jsonValue(),
    chunks: fc.array(chunk, { maxLength: 5 }),
    count: fc.nat(),
    has_more: fc.boolean(),
    last: fc.record({ chunks: fc.jsonValue(), a: fc.array(fc.dictionary(fc.string(), fc.string())) }),
  });
  fc.assert(fc.property(pages, fc.array(fc.nat({ max: 40 })), fc.boolean(), (page, cuts, spaced) => {
    const text = JSON.stringify(page, undefined, spaced ? 1 : undefined);
    const parser = new ReplayParser();
    const found: unknown[] = [];
    let at = 0;
    for (const cut of cuts) {
      found.push(...parser.push(text.slice(at, at + cut)));
      at += cut;
    }
    found.push(...parser.push(text.slice(at)));
    assert.deepEqual(found, JSON.parse(text).chunks);
    assert.deepEqual(parser.end(), { ...JSON.parse(text), chunks: [] });
  }));
});

Deno.test("a page that breaks off is not taken for a whole one", () => {
  const text = JSON.stringify({ chunks: CHUNKS, count: 3, has_more: false });
  for (let end = 0; end < text.length; end++) {
    const parser = new ReplayParser();
    parser.push(text.slice(0, end));
    assert.throws(() => parser.end(), SyntaxError, `cut at ${end}`);
  }
});

Deno.test("values of any size come back from records, in the order in which they were complete", () => {
  const values = fc.array(fc.oneof(fc.jsonValue(), fc.string({ unit: "binary", minLength: 40_000 })), {
    maxLength: 4,
  });
  fc.assert(
    fc.property(values, (values) => {
      const stored = values.map((value) => JSON.parse(canonicalize(value)));
      const assembler = new Assembler((kind) => kind === "mine");
      const records = stored.flatMap((value) => [record("another's"), ...toRecords("mine", value)]);
      const found = [...records, ...toRecords("theirs", 1)].map((each) => assembler.add(each));
      assert.deepEqual(found.filter((entry) => entry !== undefined).map(({ value }) => value), stored);
      assert.ok(assembler.complete);
    }),
    { numRuns: 30 },
  );
});

Deno.test("a part of a value fits into a block, whatever it is made of", async () => {
  for (const text of ["\u0001", '"', "\\", "ü", "\uffff", "🦉"]) {
    const records = toRecords("mine", text.repeat(200_000));
    for (const each of packRecords(records)) await sealBlock(generateKey(), each, START);
  }
});

Deno.test("a value of which a part is missing is never given out", () => {
  const parts = toRecords("mine", "x".repeat(200_000));
  assert.equal(parts.length, 4);
  for (let missing = 0; missing < parts.length; missing++) {
    const assembler = new Assembler(() => true);
    assert.ok(parts.toSpliced(missing, 1).every((each) => assembler.add(each) === undefined));
  }
});

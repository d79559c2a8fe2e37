/** The forms of credentials: what is one, what is not, and what a mistyped key comes to. */

import assert from "node:assert/strict";
import fc from "npm:fast-check@4.10.2";
import { encodeHex, sha256 } from "../../supabase/functions/_shared/domain/bytes.ts";
import { maskKey, mintLiveKey, parseCredential } from "../../supabase/functions/_shared/domain/credential.ts";

const BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const PREFIX = "sov_live_";
const SECRET_CHARACTERS = 43;
const CHECKSUM_CHARACTERS = 6;

function random(count: number): Uint8Array {
  return crypto.getRandomValues(new Uint8Array(count));
}

/** A source that says the same byte for ever. */
function always(byte: number): (count: number) => Uint8Array {
  return (count) => new Uint8Array(count).fill(byte);
}

const KEY = mintLiveKey(always(7));
const PROJECT = "sov_proj_3f0c8a1e-5b7d-4c2a-9e6f-0123456789ab";

const REFUSED: [why: string, token: string][] = [
  ["it is empty", ""],
  ["it is only a prefix", "sov_live_"],
  ["it is only the other prefix", "sov_proj_"],
  ["its prefix is in capitals", KEY.replace("sov_live_", "SOV_LIVE_")],
  ["its prefix is unknown", KEY.replace("sov_live_", "sov_test_")],
  ["something stands in front of it", ` ${KEY}`],
  ["a newline follows it", `${KEY}\n`],
  ["a NUL follows it", `${KEY}\0`],
  ["it holds a character outside base62", `${KEY.slice(0, -1)}-`],
  ["it holds a letter outside ASCII", `${KEY.slice(0, -1)}é`],
  ["its UUID is in capitals", PROJECT.toUpperCase().replace("SOV_PROJ_", "sov_proj_")],
  ["one digit of its UUID is in capitals", PROJECT.replace("3f0c", "3F0c")],
  ["its UUID is version 1", PROJECT.replace("-4c2a-", "-1c2a-")],
  ["its UUID is version 7", PROJECT.replace("-4c2a-", "-7c2a-")],
  ["its UUID has another variant", PROJECT.replace("-9e6f-", "-ce6f-")],
  ["its UUID is nil", "sov_proj_00000000-0000-0000-0000-000000000000"],
  ["its UUID has no hyphens", `sov_proj_${PROJECT.slice(9).replaceAll("-", "")}`],
  ["its UUID is in braces", `sov_proj_{${PROJECT.slice(9)}}`],
  ["its UUID is one digit short", PROJECT.slice(0, -1)],
  ["its UUID is one digit long", `${PROJECT}0`],
  ["a newline follows its UUID", `${PROJECT}\n`],
  ["something stands in front of its UUID", ` ${PROJECT}`],
  ["it is a session JWT", "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJ1In0.c2ln"],
  ["it is a SCIM token", `scim_${KEY.slice(9)}`],
];

for (const [why, token] of REFUSED) {
  Deno.test(`a token is of no known form when ${why}`, () => {
    assert.equal(parseCredential(token), undefined);
  });
}

Deno.test("a project token is any lower-case UUID v4, known by the hash of the whole token", () => {
  fc.assert(fc.property(fc.uuid({ version: 4 }), (uuid) => {
    const token = `sov_proj_${uuid}`;
    const credential = parseCredential(token);
    assert.ok(typeof credential === "object");
    assert.equal(credential.kind, "project");
    assert.equal(encodeHex(credential.hash), encodeHex(sha256(token)));
  }));
  assert.equal((parseCredential(`sov_proj_${crypto.randomUUID()}`) as { kind: string }).kind, "project");
});

Deno.test("a UUID of any other version is no project token", () => {
  fc.assert(fc.property(fc.uuid({ version: [1, 2, 3, 5, 6, 7, 8] }), (uuid) => {
    assert.equal(parseCredential(`sov_proj_${uuid}`), undefined);
  }));
});

Deno.test("a minted key is accepted, and known by the hash of the whole key", () => {
  for (let i = 0; i < 200; i++) {
    const key = mintLiveKey(random);
    assert.match(key, /^sov_live_[0-9A-Za-z]{49}$/);
    const credential = parseCredential(key);
    assert.ok(typeof credential === "object");
    assert.equal(credential.kind, "live");
    assert.equal(encodeHex(credential.hash), encodeHex(sha256(key)));
  }
});

Deno.test("a minted key holds 256 random bits", () => {
  assert.ok(SECRET_CHARACTERS * Math.log2(BASE62.length) >= 256);
});

Deno.test("each character of a minted key is as likely as any other", () => {
  const sources = new Map<string, number>();
  for (let byte = 0; byte < 256; byte++) {
    const secret = mintLiveKey(onceThen(byte, 1)).slice(PREFIX.length, -CHECKSUM_CHARACTERS);
    if (byte >= 248) assert.equal(secret, "1".repeat(SECRET_CHARACTERS), `byte ${byte} must be passed over`);
    else sources.set(secret[0]!, (sources.get(secret[0]!) ?? 0) + 1);
  }
  assert.equal([...sources.keys()].sort().join(""), BASE62);
  assert.ok([...sources.values()].every((count) => count === 4), "248 bytes, four for each character");
});

/** Says `first` for one draw, then `then` for ever: of a byte that is passed over, only what follows is left. */
function onceThen(first: number, then: number): (count: number) => Uint8Array {
  let draws = 0;
  return (count) => new Uint8Array(count).fill(draws++ === 0 ? first : then);
}

Deno.test("the characters of many minted keys are spread evenly at every place", () => {
  const keys = 3_000;
  const counts = new Map<string, number>();
  const seen = new Set<string>();
  for (let i = 0; i < keys; i++) {
    const secret = mintLiveKey(random).slice(PREFIX.length, -CHECKSUM_CHARACTERS);
    seen.add(secret);
    for (const character of secret) counts.set(character, (counts.get(character) ?? 0) + 1);
  }
  assert.equal(seen.size, keys);
  const expected = keys * SECRET_CHARACTERS / BASE62.length;
  const chiSquared = [...BASE62].reduce(
    (sum, character) => sum + ((counts.get(character) ?? 0) - expected) ** 2 / expected,
    0,
  );
  // 61 degrees of freedom: a fair source exceeds 160 less than once in a thousand million runs.
  assert.ok(chiSquared < 160, `${chiSquared}`);
});

Deno.test("every mistyped character of a key is noticed", () => {
  for (const key of [KEY, mintLiveKey(always(0)), mintLiveKey(always(247)), mintLiveKey(countUp())]) {
    for (let place = PREFIX.length; place < key.length; place++) {
      for (const other of BASE62) {
        if (other === key[place]) continue;
        const typo = key.slice(0, place) + other + key.slice(place + 1);
        assert.equal(parseCredential(typo), "unknown", typo);
      }
    }
  }
});

function countUp(): (count: number) => Uint8Array {
  let next = 1;
  return (count) => Uint8Array.from({ length: count }, () => next = (next * 73 + 41) % 248);
}

Deno.test("two neighbours exchanged, a character lost or one too many are noticed", () => {
  const key = mintLiveKey(countUp());
  for (let place = PREFIX.length; place < key.length; place++) {
    const before = key.slice(0, place);
    const after = key.slice(place + 1);
    assert.equal(parseCredential(before + after), "unknown");
    assert.equal(parseCredential(before + key[place] + key[place] + after), "unknown");
    const next = after[0];
    if (next === undefined || next === key[place]) continue;
    assert.equal(parseCredential(before + next + key[place] + after.slice(1)), "unknown");
  }
});

Deno.test("text in the form of a key that nobody minted is unknown, however long", () => {
  const base62 = fc.string({ unit: fc.constantFrom(...BASE62), minLength: 1, maxLength: 120 });
  fc.assert(fc.property(base62, (body) => {
    assert.equal(parseCredential(PREFIX + body), "unknown");
  }));
});

Deno.test("no text makes the parser throw", () => {
  const anyText = fc.string({ unit: "binary", maxLength: 200 });
  fc.assert(fc.property(fc.constantFrom("", PREFIX, "sov_proj_"), anyText, (prefix, rest) => {
    const credential = parseCredential(prefix + rest);
    assert.ok(credential === undefined || credential === "unknown" || credential.hash.length === 32);
  }));
});

Deno.test("a masked key shows the prefix and the last four characters only", () => {
  assert.equal(maskKey(KEY), `sov_live_…${KEY.slice(-4)}`);
});

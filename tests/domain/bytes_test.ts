/** Bytes as text and back: equal bytes have one spelling, and every spelling comes back unchanged. */

import assert from "node:assert/strict";
import fc from "npm:fast-check@4.10.2";
import {
  decodeBase64,
  decodedSizeMax,
  decodeHex,
  encodeBase64,
  encodeHex,
  equalBytes,
  sha256,
} from "../../supabase/functions/_shared/domain/bytes.ts";

const bytes = fc.uint8Array({ maxLength: 600 });

Deno.test("bytes survive base64 and hex", () => {
  fc.assert(fc.property(bytes, (value) => {
    assert.deepEqual(new Uint8Array(decodeBase64(encodeBase64(value))!), value);
    assert.deepEqual(new Uint8Array(decodeHex(encodeHex(value))), value);
    assert.match(encodeHex(value), /^(?:[0-9a-f]{2})*$/);
  }));
});

Deno.test("a view into a larger buffer is encoded alone", () => {
  const view = new Uint8Array([9, 9, 1, 2, 3, 9]).subarray(2, 5);
  assert.equal(encodeBase64(view), "AQID");
  assert.equal(encodeHex(view), "010203");
  assert.ok(equalBytes(view, new Uint8Array([1, 2, 3])));
});

const NOT_CANONICAL: [why: string, text: string][] = [
  ["stray bits in the last character of one byte", "YR=="],
  ["stray bits in the last character of two bytes", "YWJ="],
  ["missing padding", "YQ"],
  ["half of the padding", "YQ="],
  ["too much padding", "YQ==="],
  ["padding of nothing", "="],
  ["padding in the middle", "YQ==YQ=="],
  ["the url-safe minus", "-_8="],
  ["the url-safe underscore", "__8="],
  ["a space in front", " YQ=="],
  ["a space in the middle", "Y Q=="],
  ["a trailing newline", "YQ==\n"],
  ["a carriage return between lines", "YWFh\r\nYWFh"],
  ["a tab", "YQ==\t"],
  ["a NUL", "YQ==\0"],
  ["a character outside the alphabet", "YQ!="],
  ["a letter outside ASCII", "YWÉh"],
  ["a full-width letter", "YWFＡ"],
  ["an astral character", "YW\u{1F600}"],
  ["a data URL", "data:;base64,YQ=="],
  ["hex", "\\x61"],
  ["one character", "Y"],
  ["one character after a whole group", "YWFhY"],
  ["a newline in place of a character", "\nAAAAA=="],
];

for (const [why, text] of NOT_CANONICAL) {
  Deno.test(`base64 is refused because of ${why}`, () => {
    assert.equal(decodeBase64(text), undefined);
  });
}

Deno.test("whatever base64 is accepted is the only spelling of its bytes", () => {
  const almost = fc.string({
    unit: fc.constantFrom(...Array.from("ABCDYQRghwxyz0189+/=-_ \n\r\t")),
    maxLength: 12,
  });
  fc.assert(
    fc.property(fc.oneof(almost, fc.string({ maxLength: 12 }), fc.base64String()), (text) => {
      const decoded = decodeBase64(text);
      if (decoded !== undefined) assert.equal(encodeBase64(decoded), text);
    }),
    { numRuns: 5_000 },
  );
});

Deno.test("a base64 text with one character changed never stands for the same bytes", () => {
  const index = fc.nat();
  const character = fc.constantFrom(...Array.from("ABCZabcz019+/=-_ \n"));
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 1, maxLength: 50 }), index, character, (value, at, other) => {
      const text = encodeBase64(value);
      const place = at % text.length;
      fc.pre(text[place] !== other);
      const decoded = decodeBase64(text.slice(0, place) + other + text.slice(place + 1));
      assert.ok(decoded === undefined || !equalBytes(decoded, value));
    }),
  );
});

Deno.test("the empty text is zero bytes", () => {
  assert.equal(decodeBase64("")?.length, 0);
  assert.equal(encodeBase64(new Uint8Array()), "");
});

Deno.test("the size told by a base64 text's length is at most two bytes too high and never too low", () => {
  fc.assert(fc.property(bytes, (value) => {
    const excess = decodedSizeMax(encodeBase64(value)) - value.length;
    assert.ok(excess >= 0 && excess <= 2, `${excess}`);
  }));
});

Deno.test("hex digits of either case are the same bytes", () => {
  fc.assert(fc.property(bytes, (value) => {
    assert.ok(equalBytes(decodeHex(encodeHex(value).toUpperCase()), value));
  }));
});

// The payloads `block-0` … `block-2` as clients of the replication log hash them; then NIST's two.
const DIGESTS: [text: string, hex: string][] = [
  ["block-0", "b8c6f33f1780d30977c5e964f62e7959102a3694f1c28ae0834ab12f98a3dcb0"],
  ["block-1", "89a1a98e709fa672374b463bbd8d5946ff4f530c5e65be07bf17ef8473ec96e9"],
  ["block-2", "2453695514ac2ba4f06e40a20e20cbc76b7a6c6d9a438c4a30e2acea3be39f57"],
  ["", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"],
  ["abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"],
];

Deno.test("digests are SHA-256, of text and of its UTF-8 alike", () => {
  for (const [text, hex] of DIGESTS) {
    assert.equal(encodeHex(sha256(text)), hex);
    assert.equal(encodeHex(sha256(new TextEncoder().encode(text))), hex);
  }
});

Deno.test("digests agree with Web Crypto", async () => {
  await fc.assert(
    fc.asyncProperty(bytes, async (value) => {
      const expected = new Uint8Array(await crypto.subtle.digest("SHA-256", new Uint8Array(value)));
      assert.ok(equalBytes(sha256(value), expected));
    }),
  );
});

Deno.test("byte strings are equal when all of their bytes are", () => {
  fc.assert(fc.property(bytes, bytes, (a, b) => {
    assert.equal(equalBytes(a, b), a.length === b.length && a.join() === b.join());
    assert.ok(equalBytes(a, a.slice()));
  }));
});

/** Tokens in mails: only we can make them, and each does one thing for one person. */

import assert from "node:assert/strict";
import fc from "npm:fast-check@4.10.2";
import { readToken, signToken } from "../../supabase/functions/_shared/domain/signed_token.ts";

const SUBJECT = new Uint8Array(32).fill(7);
const SECRET = "a-secret-of-some-length";

Deno.test("a token says who it is about, and the same input makes the same token", () => {
  const token = signToken("unsubscribe", SUBJECT, SECRET);
  assert.equal(signToken("unsubscribe", SUBJECT, SECRET), token);
  assert.deepEqual(new Uint8Array(readToken("unsubscribe", token, [SECRET])!), SUBJECT);
  assert.equal(encodeURIComponent(token), token, "it needs no escaping in an address");
  assert.ok(token.length <= 100);
});

Deno.test("a token for one purpose, or of another secret, does nothing else", () => {
  const token = signToken("unsubscribe", SUBJECT, SECRET);
  assert.equal(readToken("confirm", token, [SECRET]), undefined);
  assert.equal(readToken("unsubscribe", token, ["another-secret-entirely"]), undefined);
  assert.equal(readToken("unsubscribe", token, []), undefined);
});

Deno.test("while a secret is changed both are taken", () => {
  const old = signToken("confirm", SUBJECT, "the-old-secret-of-ours");
  assert.ok(readToken("confirm", old, [SECRET, "the-old-secret-of-ours"]));
});

Deno.test("no token that was changed anywhere is taken", () => {
  const token = signToken("unsubscribe", SUBJECT, SECRET);
  fc.assert(
    fc.property(fc.nat(token.length - 1), fc.constantFrom(..."AZaz09-_."), (at, character) => {
      const changed = token.slice(0, at) + character + token.slice(at + 1);
      const read = readToken("unsubscribe", changed, [SECRET]);
      // The last character of each part has bits that spell nothing.
      if (changed !== token && read !== undefined) assert.deepEqual(new Uint8Array(read), SUBJECT);
    }),
  );
  for (
    const garbage of ["", ".", "a.b", token + "x", `${token}.${token}`, "é".repeat(87), "A".repeat(4096)]
  ) {
    assert.equal(readToken("unsubscribe", garbage, [SECRET]), undefined);
  }
});

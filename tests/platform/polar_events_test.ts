/** Who may send events: the signatures of Standard Webhooks, with every way in which one can be wrong. Spec 5. */

import assert from "node:assert/strict";
import { ApiError } from "../../supabase/functions/_shared/errors.ts";
import { openEventVerifier } from "../../supabase/functions/_shared/platform/polar_events.ts";
import { SECRET, sign, type Signing, VECTOR } from "../support/polar.ts";

const encode = (text: string) => new TextEncoder().encode(text).buffer;

/** Whether a verifier of these secrets lets an event in. */
function accepts(secrets: string[], headers: Record<string, string>, body: string | ArrayBuffer): boolean {
  try {
    openEventVerifier(secrets)({
      id: headers["webhook-id"],
      timestamp: headers["webhook-timestamp"],
      signature: headers["webhook-signature"],
    }, typeof body === "string" ? encode(body) : body);
    return true;
  } catch (error) {
    assert.ok(error instanceof ApiError && error.code === "invalid_webhook_signature", String(error));
    return false;
  }
}

/** Runs `work` at another time. */
function at<T>(seconds: number, work: () => T): T {
  const real = Date.now;
  Date.now = () => seconds * 1000;
  try {
    return work();
  } finally {
    Date.now = real;
  }
}

const VECTOR_HEADERS = {
  "webhook-id": VECTOR.id,
  "webhook-timestamp": String(VECTOR.timestamp),
  "webhook-signature": VECTOR.signature,
};

Deno.test("the vector of the Standard Webhooks specification is good from five minutes before to five after", () => {
  for (const [offset, good] of [[0, true], [300, true], [-300, true], [301, false], [-301, false]] as const) {
    const accepted = at(
      VECTOR.timestamp + offset,
      () => accepts([VECTOR.secret], VECTOR_HEADERS, VECTOR.body),
    );
    assert.equal(accepted, good, `${offset} s`);
  }
});

Deno.test("both ways in which the provider makes a key of its secret are good, and any of several secrets", () => {
  const body = '{"type":"x"}';
  const text = "polar_whs_this is no base64!";
  const encoded = `polar_whs_${btoa("0123456789abcdef01234567")}`;
  const unpadded = encoded.replace(/=+$/, "");
  const cases: [string, Signing][] = [
    [SECRET, { secret: SECRET }],
    [SECRET, { secret: SECRET, raw: true }],
    [text, { secret: text, raw: true }],
    [encoded, { secret: encoded, raw: true }],
    [encoded, { secret: encoded.replace("polar_whs_", "whsec_") }],
    [unpadded, { secret: unpadded, raw: true }],
    ["plain", { secret: "plain", raw: true }],
  ];
  for (const [secret, signing] of cases) {
    const headers = sign(body, signing);
    assert.ok(accepts([secret], headers, body), secret);
    assert.ok(accepts(["whsec_b3RoZXI=", secret], headers, body), `${secret}, second`);
    assert.ok(!accepts(["whsec_b3RoZXI="], headers, body), `${secret}, by another`);
  }
});

Deno.test("of several signatures one has to be good, and be of the version that we know", () => {
  const headers = sign(VECTOR.body, {});
  const good = headers["webhook-signature"]!;
  const bad = `v1,${btoa("x".repeat(32))}`;
  const cases: [string, boolean][] = [
    [`${bad} ${good}`, true],
    [`${good} ${bad}`, true],
    [`v1a,${good.slice(3)} ${good}`, true],
    [`${bad} ${bad}`, false],
    [`v1a,${good.slice(3)}`, false],
    [`v2,${good.slice(3)}`, false],
    [good.slice(3), false],
    [`v1,`, false],
    [`v1`, false],
    [`${good}A`, false],
    [good.replace("=", ""), false],
    [good.toUpperCase(), false],
    ["", false],
    [" ", false],
    [`${bad} `.repeat(500), false],
  ];
  for (const [signature, expected] of cases) {
    assert.equal(
      accepts([SECRET], { ...headers, "webhook-signature": signature }, VECTOR.body),
      expected,
      signature.slice(0, 80),
    );
  }
});

Deno.test("a body or header that is not what was signed is refused", () => {
  const body = '{"type":"order.paid","n":1}';
  const headers = sign(body);
  const bodies = [
    "",
    body + " ",
    body + "\n",
    " " + body,
    "\ufeff" + body,
    body.replace("1", "2"),
    JSON.stringify(JSON.parse(body), undefined, 1),
    '{"n":1,"type":"order.paid"}',
    "\0" + body,
  ];
  for (const each of bodies) assert.ok(!accepts([SECRET], headers, each), JSON.stringify(each));
  const broken = new Uint8Array([...new TextEncoder().encode(body), 0xff]);
  assert.ok(!accepts([SECRET], headers, broken.buffer), "bytes that are no text");
  assert.ok(
    !accepts([SECRET], sign("\ufffd"), new Uint8Array([0xff]).buffer),
    "what broken bytes are read as",
  );
  const now = Number(headers["webhook-timestamp"]);
  const wrong: Record<string, string>[] = [
    { "webhook-id": headers["webhook-id"] + "x" },
    { "webhook-id": "" },
    ...[
      now + 1,
      now - 1,
      -now,
      `${now}.0`,
      `${now}.5`,
      ` ${now}`,
      `+${now}`,
      `0x${now.toString(16)}`,
      `${now}x`,
    ]
      .map((timestamp) => ({ "webhook-timestamp": String(timestamp) })),
    ...["", "NaN", "Infinity", "1e9", "9".repeat(400), new Date().toISOString()]
      .map((timestamp) => ({ "webhook-timestamp": timestamp })),
  ];
  for (const over of wrong) {
    assert.ok(!accepts([SECRET], { ...headers, ...over }, body), JSON.stringify(over).slice(0, 80));
  }
  assert.ok(!accepts([SECRET], sign(body, { id: "x".repeat(257) }), body), "an endless id");
});

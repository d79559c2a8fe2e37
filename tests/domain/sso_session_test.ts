/** Which identity provider a session came by, and whose domain an address is in. */

import assert from "node:assert/strict";
import { domainOfAddress, readSsoProvider } from "../../supabase/functions/_shared/domain/sso_session.ts";

const ID = "0d3f4c9b-7a1e-4f60-9c25-8be1d7a4f603";
const OTHER = "3f8e1c52-9d1b-4c55-8a7e-5b0f2f6c1a90";

const SAML = { method: "sso/saml", timestamp: 1_795_000_000, provider: ID };
const PASSWORD = { method: "password", timestamp: 1_795_000_000 };

const TOKENS: [what: string, payload: Record<string, unknown>, provider: string | null | undefined][] = [
  ["says nothing", {}, undefined],
  [
    "is of a password",
    { app_metadata: { provider: "email", providers: ["email"] }, amr: [PASSWORD] },
    undefined,
  ],
  ["is of another issuer", { app_metadata: "none", amr: ["pwd", "mfa"] }, undefined],
  ["has claims of another shape", { app_metadata: null, amr: { method: "sso/saml" } }, undefined],
  ["is of Supabase's single sign-on", {
    app_metadata: { provider: `sso:${ID}`, providers: [`sso:${ID}`] },
    amr: [SAML],
  }, ID],
  ["has an older list of methods", {
    app_metadata: { provider: `sso:${ID}` },
    amr: [{ method: "sso/saml", timestamp: 1 }],
  }, ID],
  ["spells the id in capitals", { app_metadata: { provider: `sso:${ID.toUpperCase()}` } }, ID],
  ["has it among several providers", {
    app_metadata: { provider: "google", providers: ["google", `sso:${ID}`] },
  }, ID],
  ["has it in the methods alone", { amr: [PASSWORD, SAML] }, ID],
  ["has the methods' provider with its prefix", { amr: [{ ...SAML, provider: `sso:${ID}` }] }, ID],
  ["has a method without provider", { amr: [{ method: "sso/saml" }] }, null],
  ["names two providers", { app_metadata: { providers: [`sso:${ID}`, `sso:${OTHER}`] } }, null],
  ["contradicts itself", { app_metadata: { provider: `sso:${OTHER}` }, amr: [SAML] }, null],
  ["names what is no id", { app_metadata: { provider: "sso:victim.com" } }, null],
  ["names nothing", { app_metadata: { provider: "sso:" } }, null],
];

for (const [what, payload, provider] of TOKENS) {
  Deno.test(`a token that ${what} is of ${provider === undefined ? "no" : provider ?? "an unknown"} provider`, () => {
    assert.equal(readSsoProvider(payload), provider);
  });
}

Deno.test("the user's own metadata says nothing", () => {
  const user_metadata = { provider: `sso:${ID}`, iss: "https://idp.example", email_verified: true };
  assert.equal(readSsoProvider({ user_metadata }), undefined);
  assert.equal(readSsoProvider({ user_metadata, app_metadata: { provider: `sso:${OTHER}` } }), OTHER);
});

const ADDRESSES: [address: string, domain: string | undefined][] = [
  ["alice@victim.example", "victim.example"],
  ["Alice@VICTIM.Example", "victim.example"],
  ["alice@mail.victim.example", "mail.victim.example"],
  ["alice@xn--bcher-kva.example", "xn--bcher-kva.example"],
  ["alice@evil.example@victim.example", "victim.example"],
  ["alice@victim.example@evil.example", "evil.example"],
  ['"a@evil.example"@victim.example', "victim.example"],
  ["alice@bücher.example", undefined],
  ["alice@vİctim.example", undefined],
  ["alice@\u212Aelvin.example", undefined],
  ["alice@victim\u3002example", undefined],
  ["alice@ｖictim.example", undefined],
  ["alice@victim.example ", undefined],
  ["alice@victim.example\n", undefined],
  ["alice@victim.example>", undefined],
  ["alice@victim.example\u200B", undefined],
  ["@victim.example", undefined],
  ["victim.example", undefined],
  ["alice@", undefined],
  ["", undefined],
];

Deno.test("an address is in the domain after its last @, in ASCII and lower case, or in none that counts", () => {
  for (const [address, domain] of ADDRESSES) {
    assert.equal(domainOfAddress(address), domain, JSON.stringify(address));
  }
});

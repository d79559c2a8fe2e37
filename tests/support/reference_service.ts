/** The whole service over real HTTP, and everything that the examples of the reference are about. */

import assert from "node:assert/strict";
import { addressHash } from "../../supabase/functions/_shared/domain/mail.ts";
import { signToken } from "../../supabase/functions/_shared/domain/signed_token.ts";
import { readSettings, type Settings } from "../../supabase/functions/_shared/env.ts";
import type { Platform } from "../../supabase/functions/_shared/platform/mod.ts";
import { createApp } from "../../supabase/functions/v2-agent-state/app.ts";
import type { Scene } from "../../supabase/functions/v2-agent-state/reference/scene.ts";
import { metadata } from "./certificates.ts";
import { mapGroups, newGroup, openDirectory, provision } from "./directory.ts";
import { chunk, newKeyOf, newPaidKey, replicateBody, snapshotBody } from "./factories.ts";
import type { World } from "./harness.ts";
import { newHook, startReceiver } from "./hooks.ts";
import { MAIL_SETTINGS } from "./jobs.ts";
import { newPerson, type Person } from "./people.ts";
import { SETTINGS as POLAR, sign, withPolar } from "./polar.ts";
import { openPolar } from "../../supabase/functions/_shared/platform/payments_polar.ts";
import { grant, invitationFor, newSubkey, newTeam, subscribe } from "./teams.ts";

const BASE = "/functions/v1/v2-agent-state";
/** All that the payment provider is asked for, in one. */
const POLAR_ANSWER = {
  id: "subscription-1",
  url: "https://polar.example.com/checkout/1",
  customer_portal_url: "https://polar.example.com/portal/1",
};
export const CRON_SECRET = "the-secret-of-the-jobs";

/** A request as it goes out. */
export interface Sent {
  method: string;
  path: string;
  headers?: Record<string, string>;
  body?: string | Uint8Array<ArrayBuffer>;
}

/** The service on a port, with a payment provider and a receiver of webhooks. */
export interface ReferenceService extends AsyncDisposable {
  send(sent: Sent): Promise<{ status: number; text: string; body: unknown; headers: Headers }>;
  webhookUrl: string;
}

/** What a scene is played by: who has which credential. */
export interface Cast {
  scene: Scene;
  /** By security scheme: the Authorization header. */
  credentials: Record<string, string>;
  person: Person;
}

/**
 * Serves the world over HTTP. `over` replaces parts of its platform; without `configured` nothing is set up; `more` are
 * settings of its own.
 */
export async function serveReference(
  world: World,
  over: Partial<Platform> = {},
  configured = true,
  more: Partial<Settings> = {},
): Promise<ReferenceService> {
  await using parts = new AsyncDisposableStack();
  const receiver = parts.use(startReceiver());
  const { promise: stopped, resolve: stop } = Promise.withResolvers<void>();
  const { promise: started, resolve: start } = Promise.withResolvers<typeof POLAR>();
  const provider = withPolar(
    () => Response.json(POLAR_ANSWER),
    (settings) => (start(settings), stopped),
  );
  parts.defer(() => (stop(), provider));
  const polar = configured ? await started : readSettings({}).polar;
  const settings = {
    ...readSettings({}),
    polar,
    billingReturnOrigins: ["https://app.example"],
    cronSecret: configured ? CRON_SECRET : undefined,
    ...MAIL_SETTINGS,
    ...more,
  };
  const app = createApp({ ...world.platform, ...openPolar(polar, () => {}), ...over }, settings);
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, app.fetch);
  parts.defer(() => server.shutdown());
  const kept = parts.move();
  return {
    webhookUrl: receiver.url,
    async send({ method, path, headers = {}, body }) {
      const url = `http://127.0.0.1:${server.addr.port}${BASE}${path}`;
      const response = await fetch(url, { method, headers, ...(body === undefined ? {} : { body }) });
      const text = await response.text();
      const isJson = response.headers.get("content-type")?.includes("json") ?? false;
      return {
        status: response.status,
        text,
        body: isJson ? JSON.parse(text) : undefined,
        headers: response.headers,
      };
    },
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  };
}

/** Makes everything that the examples need: a person with keys and a team, an agent with state, a webhook. */
export async function newCast(world: World, { webhookUrl }: ReferenceService): Promise<Cast> {
  const paid = await newPaidKey(world);
  const email = `${paid.subject}@example.com`;
  const token = await world.issuer.token(paid.subject, { claims: { email } });
  const person = { subject: paid.subject, email, token };
  const agentId = "my-agent";
  const secret = MAIL_SETTINGS.linkSecrets[0]!;
  const stored = await world.request("POST", "/snapshot", {
    token: paid.token,
    body: snapshotBody({ agent_id: agentId }),
  });
  await world.request("POST", "/replicate", { token: paid.token, body: replicateBody(chunk(1)) });
  await world.request("PUT", "/settings", { token, body: { telemetry_opt_in: true } });
  const team = await newTeam(world, person);
  const member = await newPerson(world);
  assert.equal((await grant(world, team, member)).status, 201);
  const memory = { ciphertext_b64: "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=" };
  await world.request("POST", `/teams/${team.id}/memories`, { token, body: memory });
  await subscribe(world, person, "enterprise", { seats: 20, polarSubscriptionId: crypto.randomUUID() });
  const directory = await openDirectory(world, team);
  await mapGroups(world, team, { default_role: "read" });
  const scimUserId = await provision(directory, "jane.doe@example.com");
  return {
    person,
    credentials: {
      apiKey: `Bearer ${paid.token}`,
      session: `Bearer ${token}`,
      scimToken: `Bearer ${directory.token}`,
      cronSecret: `Bearer ${CRON_SECRET}`,
    },
    scene: {
      agentId,
      storagePath: stored.body.storage_path,
      teamId: team.id,
      callerId: person.subject,
      memberId: member.subject,
      keyId: (await newKeyOf(world, paid.accountId)).keyId,
      subkeyId: (await newSubkey(world, team, person)).id,
      webhookId: (await newHook(world, webhookUrl, { person })).id,
      webhookUrl,
      invitationToken: await invitationFor(world, await newTeam(world), email),
      metadataXml: metadata(),
      scimTokenId: (await openDirectory(world, team)).tokenId,
      scimUserId,
      scimGroupId: await newGroup(directory, "Engineers"),
      confirmationToken: signToken("confirm", new TextEncoder().encode(await newContact(world)), secret),
      unsubscribeToken: signToken("unsubscribe", addressHash(email), secret),
      sign: (body) => sign(body),
    },
  };
}

/** An address that has asked for news; returns its id. */
async function newContact(world: World): Promise<string> {
  const email = `${crypto.randomUUID()}@example.com`;
  const { rows } = await world.sql.query(
    "insert into app.marketing_contacts (email, address_hash) values ($1, $2) returning id",
    [email, addressHash(email)],
  );
  return rows[0].id;
}

/** The agent-state function as its reference is tried: who plays its examples. */

import assert from "node:assert/strict";
import { addressHash } from "../../supabase/functions/_shared/domain/mail.ts";
import { signToken } from "../../supabase/functions/_shared/domain/signed_token.ts";
import { createApp } from "../../supabase/functions/v2-agent-state/app.ts";
import { REFERENCE } from "../../supabase/functions/v2-agent-state/reference/mod.ts";
import type { Scene } from "../../supabase/functions/v2-agent-state/reference/scene.ts";
import { AGENT_STATE_BOOK } from "./books.ts";
import { metadata } from "./certificates.ts";
import { mapGroups, newGroup, openDirectory, provision } from "./directory.ts";
import { chunk, newKeyOf, newPaidKey, replicateBody, snapshotBody } from "./factories.ts";
import type { World } from "./harness.ts";
import { newHook } from "./hooks.ts";
import { MAIL_SETTINGS } from "./jobs.ts";
import { newPerson } from "./people.ts";
import { sign } from "./polar.ts";
import { bearer, type Cast, CRON_SECRET, type ReferenceService, type Stage } from "./reference_service.ts";
import { grant, invitationFor, newSubkey, newTeam, subscribe } from "./teams.ts";

export const AGENT_STATE: Stage<Scene> = {
  name: "v2-agent-state",
  reference: REFERENCE,
  book: AGENT_STATE_BOOK,
  createApp,
  newCast,
};

/** Makes everything that the examples need: a person with keys and a team, an agent with state, a webhook. */
async function newCast(world: World, { webhookUrl }: ReferenceService): Promise<Cast<Scene>> {
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
    credentials: {
      apiKey: bearer(paid.token),
      session: bearer(token),
      scimToken: bearer(directory.token),
      cronSecret: bearer(CRON_SECRET),
    },
    sign,
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

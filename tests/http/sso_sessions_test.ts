/** Sessions of single sign-on: an identity provider speaks for the domains of its team, and for no others. Spec 5. */

import assert from "node:assert/strict";
import { ApiError } from "../../supabase/functions/_shared/errors.ts";
import type { Database } from "../../supabase/functions/_shared/platform/mod.ts";
import { startAuthAdmin } from "../support/auth_admin.ts";
import { metadata } from "../support/certificates.ts";
import { openDirectory, provision } from "../support/directory.ts";
import { onEveryBackend, onOneBackend, type World } from "../support/harness.ts";
import { newPerson, type Person } from "../support/people.ts";
import { newDomain, newEnterprise, put, putProved } from "../support/sso.ts";
import {
  accept,
  assertRefused,
  invitationFor,
  newTeam,
  send,
  type Service,
  type Team,
} from "../support/teams.ts";

/** A team with a provider at Supabase Auth and a domain that it has proved. */
interface Company extends Team {
  domain: string;
  provider: string;
  /** The service as it is where Supabase Auth issues the sessions. */
  service: Service;
}

async function newCompany(world: World, admin: ReturnType<typeof startAuthAdmin>): Promise<Company> {
  const team = await newEnterprise(world);
  const [domain, service] = [newDomain(), world.with({ providers: admin.directory })];
  const body = { metadata_xml: metadata(), domains: [domain], enabled: true };
  const saved = await putProved(world, team, body, service);
  assert.equal(saved.status, 200, saved.text);
  return { ...team, domain, provider: saved.body.provider_id, service };
}

/** Somebody whom a provider sends with an address, as Supabase Auth says it. */
function arrive(world: World, provider: string, email: string): Promise<Person> {
  return newPerson(world, {
    email,
    app_metadata: { provider: `sso:${provider}`, providers: [`sso:${provider}`] },
    amr: [{ method: "sso/saml", timestamp: 1, provider }],
  });
}

async function teamsOf(service: Service, person: Person): Promise<string[]> {
  const { body, text } = await send(service, person, "GET", "/teams");
  assert.ok(Array.isArray(body.teams), text);
  return body.teams.map(({ id }: { id: string }) => id);
}

onEveryBackend((test) => {
  test("a provider brings people of its team's domains to where they are expected, and nobody else's", async (world) => {
    await using admin = startAuthAdmin();
    const [victim, hostile] = [await newCompany(world, admin), await newCompany(world, admin)];
    const directory = await openDirectory(world, victim);
    const email = `alice@${victim.domain}`;
    await provision(directory, email);
    const forged = await arrive(world, hostile.provider, email);
    assert.deepEqual(await teamsOf(world, forged), [], "membership");
    assertRefused(await send(world, forged, "GET", `/teams/${victim.id}/members`), 403, "not_a_team_member");
    const token = await invitationFor(world, victim, `bob@${victim.domain}`);
    const bob = await arrive(world, hostile.provider, `bob@${victim.domain}`);
    assertRefused(await accept(world, token, bob), 404, "invitation_not_found");
    assert.deepEqual(await teamsOf(world, bob), [], "invitation");
    const { rows } = await world.sql.query(
      "select email from app.accounts where subject = any($1)",
      [[forged.subject, bob.subject]],
    );
    assert.deepEqual(rows.map((row) => row.email), [null, null], "what is only asserted is not kept");

    const alice = await arrive(world, victim.provider, email.replace("alice", "Alice").toUpperCase());
    assert.deepEqual(await teamsOf(world, alice), [victim.id], "without regard to case");
    assert.equal(
      (await accept(world, token, await arrive(world, victim.provider, `bob@${victim.domain}`))).status,
      200,
    );
  });
});

onOneBackend((test) => {
  test("only exactly the domain counts, of the provider that the token names for certain", async (world) => {
    await using admin = startAuthAdmin();
    const [company, other] = [await newCompany(world, admin), await newCompany(world, admin)];
    const { domain, provider } = company;
    const directory = await openDirectory(world, company);
    // What Postgres may fold to the same letters is another name in the DNS.
    const folded = domain.replace("example", "exampl\u0451");
    for (const name of [`sub.${domain}`, domain.slice(1), `${domain}.`, folded, `x${domain}`]) {
      const email = `${crypto.randomUUID()}@${name}`;
      if (!name.endsWith(".") && name !== folded) await provision(directory, email);
      const person = await arrive(world, provider, email);
      assert.deepEqual(await teamsOf(world, person), [], email);
    }
    const email = `${crypto.randomUUID()}@${domain}`;
    await provision(directory, email);
    const entry = { method: "sso/saml", timestamp: 1 };
    for (
      const claims of [
        { amr: [entry] },
        { app_metadata: { provider: "sso:unknown" } },
        { app_metadata: { provider: `sso:${crypto.randomUUID()}` } },
        { app_metadata: { provider: `sso:${provider}`, providers: [`sso:${other.provider}`] } },
        { app_metadata: { provider: `sso:${provider}` }, amr: [{ ...entry, provider: other.provider }] },
        { app_metadata: { provider: "google", providers: ["google", `sso:${other.provider}`] } },
        { app_metadata: { provider: `sso:${provider}` }, email_verified: false },
      ]
    ) {
      const person = await newPerson(world, { email, ...claims });
      assert.deepEqual(await teamsOf(world, person), [], JSON.stringify(claims));
    }
    const person = await newPerson(world, { email, amr: [{ ...entry, provider }] });
    assert.deepEqual(await teamsOf(world, person), [company.id]);
  });

  test("a provider that was switched off, or lost a domain, speaks for it no more, from the next request", async (world) => {
    await using admin = startAuthAdmin();
    const company = await newCompany(world, admin);
    const directory = await openDirectory(world, company);
    const expect = async (what: string, found: boolean) => {
      const email = `${crypto.randomUUID()}@${company.domain}`;
      await provision(directory, email);
      const person = await arrive(world, company.provider, email);
      assert.deepEqual(await teamsOf(world, person), found ? [company.id] : [], what);
    };
    await expect("enabled", true);
    assert.equal((await put(company.service, company, { domains: [] })).status, 200);
    await expect("without the domain", false);
    const back = await putProved(world, company, { domains: [company.domain] }, company.service);
    assert.equal(back.status, 200, back.text);
    await expect("with it again", true);
    assert.equal((await put(company.service, company, { enabled: false })).status, 200);
    await expect("switched off", false);
  });

  test("a session without an address is somebody all the same, and keeps what is theirs", async (world) => {
    await using admin = startAuthAdmin();
    const company = await newCompany(world, admin);
    const person = await arrive(world, company.provider, "someone@elsewhere.example");
    const team = await newTeam(world, person);
    assert.deepEqual(await teamsOf(world, person), [team.id]);
    const renewed = await newPerson(world, {
      sub: person.subject,
      email: `someone@${company.domain}`,
      app_metadata: { provider: `sso:${company.provider}` },
    });
    assert.deepEqual(await teamsOf(world, renewed), [team.id]);
    const { rows } = await world.sql.query("select email from app.accounts where subject = $1", [
      person.subject,
    ]);
    assert.equal(rows[0].email, `someone@${company.domain}`);
  });

  test("the database is asked for sessions of single sign-on alone, and when it is away the answer is 503", async (world) => {
    const asked: string[] = [];
    let away = false;
    const db: Database = {
      ...world.platform.db,
      call: <T>(name: string, args: Parameters<Database["call"]>[1]) => {
        asked.push(name);
        if (away && name === "vouches_for") throw new ApiError("service_unavailable");
        return world.platform.db.call<T>(name, args);
      },
    };
    const service = world.with({ db });
    const questions = () => asked.filter((name) => name === "vouches_for").length;
    const plain = await newPerson(world, { app_metadata: { provider: "google", providers: ["google"] } });
    const nameless = await newPerson(world, { email: undefined, app_metadata: { provider: "sso:x" } });
    for (const person of [plain, nameless]) await teamsOf(service, person);
    assert.equal(questions(), 0);
    const person = await arrive(world, crypto.randomUUID(), "a@elsewhere.example");
    await teamsOf(service, person);
    assert.equal(questions(), 1);
    away = true;
    const refused = await send(service, person, "GET", "/teams");
    assertRefused(refused, 503, "service_unavailable");
    assert.ok(refused.headers.has("retry-after"));
    assertRefused(await accept(service, `inv_${"a".repeat(43)}`, person), 503, "service_unavailable");
    assert.equal((await send(service, plain, "GET", "/teams")).status, 200);
  });
});

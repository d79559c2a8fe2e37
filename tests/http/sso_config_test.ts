/** Single sign-on of a team: its configuration, where it is registered, and who may touch it. Spec 4.8. */

import assert from "node:assert/strict";
import { startAuthAdmin } from "../support/auth_admin.ts";
import { certificate, dayFromNow, metadata } from "../support/certificates.ts";
import { onEveryBackend, onOneBackend } from "../support/harness.ts";
import { newPerson } from "../support/people.ts";
import { get, newDomain, newEnterprise, put, putProved } from "../support/sso.ts";
import { actionsOf, assertRefused, grant, newTeam, send, subscribe, type Team } from "../support/teams.ts";

const pathOf = (team: Team) => `/sso/${team.id}/config`;

onEveryBackend((test) => {
  test("PUT keeps what the metadata says; GET shows it, and the metadata only when asked", async (world) => {
    const team = await newEnterprise(world);
    assertRefused(await get(world, team), 404, "sso_not_configured");
    const entityId = `https://idp.example/${crypto.randomUUID()}`;
    const xml = metadata({ entityId, certificates: [certificate({ to: 400 }), certificate({ to: 100 })] });
    const domain = newDomain();
    const mapping = { keys: { name: { names: ["displayName", "cn"] }, admin: { default: false } } };
    const saved = await putProved(world, team, {
      metadata_xml: xml,
      domains: [domain.toUpperCase(), domain],
      attribute_mapping: mapping,
      default_role: "write",
      group_roles: { Leads: "admin" },
      enabled: true,
    });
    assert.equal(saved.status, 200, saved.text);
    const { certificates, created_at, updated_at, domain_verification, ...rest } = saved.body;
    assert.deepEqual(rest, {
      team_id: team.id,
      entity_id: entityId,
      sso_url: "https://idp.example/sso",
      sso_binding: "urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect",
      metadata_url: null,
      certificate_expires_at: dayFromNow(400),
      domains: [domain],
      attribute_mapping: mapping,
      default_role: "write",
      group_roles: { Leads: "admin" },
      enabled: true,
      provider_id: null,
      service_provider: null,
    });
    assert.deepEqual(certificates.map(({ expires_at }: { expires_at: string }) => expires_at), [
      dayFromNow(400),
      dayFromNow(100),
    ]);
    assert.ok(created_at <= updated_at);
    assert.deepEqual(domain_verification.map((each: { verified: boolean }) => each.verified), [true]);
    const read = await get(world, team);
    assert.deepEqual(read.body, saved.body);
    assert.equal((await get(world, team, "?raw=1")).body.metadata_xml, xml);
    assertRefused(await get(world, team, "?raw=yes"), 400, "invalid_field:raw");

    const partly = await put(world, team, { default_role: "read" });
    assert.deepEqual(
      [partly.body.default_role, partly.body.entity_id, partly.body.domains, partly.body.enabled],
      ["read", entityId, [domain], true],
    );
    assert.deepEqual(await actionsOf(world, team), ["team.create", "sso.update", "sso.update"]);
    const { rows } = await world.sql.query(
      "select certificate_expires_at at time zone 'UTC' as at from app.sso_configs where team_id = $1 and enabled",
      [team.id],
    );
    assert.ok(rows[0].at, "a sweep can ask the column");
  });

  test("only an admin on the enterprise plan gets near it", async (world) => {
    const team = await newTeam(world);
    for (const method of ["GET", "PUT"]) {
      const ask = (by = team.owner) =>
        send(world, by, method, pathOf(team), method === "PUT" ? {} : undefined);
      assertRefused(await ask(), 403, "plan_required");
      assertRefused(await ask(await newPerson(world)), 403, "not_a_team_member");
      const member = await newPerson(world);
      await grant(world, team, member);
      assertRefused(await ask(member), 403, "forbidden_role");
      await world.sql.query(
        "delete from app.team_members using app.accounts a where a.id = account_id and a.subject = $1",
        [member.subject],
      );
    }
    assertRefused(await send(world, team.owner, "GET", "/sso/nothing/config"), 403, "not_a_team_member");
    await subscribe(world, team.owner, "growth");
    const refused = await put(world, team, {});
    assertRefused(refused, 403, "plan_required");
    assert.deepEqual([refused.body.plan, refused.body.required_plan], ["growth", "enterprise"]);
  });

  test("an entity leads to one team only, while its configuration is enabled", async (world) => {
    const [one, other] = [await newEnterprise(world), await newEnterprise(world)];
    const body = { metadata_xml: metadata(), enabled: true };
    assert.equal((await put(world, one, body)).status, 200);
    assertRefused(await put(world, other, body), 409, "sso_entity_taken");
    assert.equal((await put(world, other, { ...body, enabled: false })).status, 200);
    assertRefused(await put(world, other, { enabled: true }), 409, "sso_entity_taken");
    assert.equal((await put(world, one, { enabled: false })).status, 200);
    assert.equal((await put(world, other, { enabled: true })).status, 200);
  });
});

onOneBackend((test) => {
  test("bad configurations are named and change nothing", async (world) => {
    const team = await newEnterprise(world);
    const cases: [Record<string, unknown>, string][] = [
      [{}, "missing_field:metadata_xml"],
      [{ enabled: true }, "missing_field:metadata_xml"],
      [{ domains: ["a.example"] }, "missing_field:metadata_xml"],
      [{ metadata_xml: metadata(), metadata_url: "https://idp.example/" }, "invalid_field:metadata_url"],
      [{ metadata_xml: 7 }, "invalid_field:metadata_xml"],
      [{ metadata_xml: metadata(), domains: ["no"] }, "invalid_field:domains"],
      [{ metadata_xml: metadata(), domains: ["a.example/"] }, "invalid_field:domains"],
      [
        { metadata_xml: metadata(), domains: Array(51).fill(0).map((_, i) => `a${i}.example`) },
        "invalid_field:domains",
      ],
      [{ metadata_xml: metadata(), default_role: "owner" }, "invalid_field:default_role"],
      [{ metadata_xml: metadata(), group_roles: { a: "x" } }, "invalid_field:a"],
      [{ metadata_xml: metadata(), group_roles: [] }, "invalid_field:group_roles"],
      [{ metadata_xml: metadata(), enabled: "yes" }, "invalid_field:enabled"],
      [{ metadata_xml: metadata(), attribute_mapping: { keys: { a: {} } } }, "invalid_field:a"],
    ];
    for (const [body, code] of cases) {
      assertRefused(await put(world, team, body), 400, code, JSON.stringify(body));
    }
    for (
      const [xml, reason] of [
        ["<!DOCTYPE x>" + metadata(), "doctype"],
        [metadata({ providers: 2 }), "several_idp_descriptors"],
        [metadata({ certificates: [certificate({ to: -1 })] }), "certificate_not_live"],
        ["<a></b>", "not_well_formed"],
        [metadata({ inEntity: `<a>${"x".repeat(300_000)}</a>` }), "too_large"],
      ]
    ) {
      const refused = await put(world, team, { metadata_xml: xml });
      assertRefused(refused, 400, "invalid_metadata");
      assert.equal(refused.body.reason, reason);
    }
    assertRefused(await put(world, team, { metadata_xml: "x".repeat(800_000) }), 413, "body_too_large");
    assertRefused(await get(world, team), 404, "sso_not_configured");
    assert.deepEqual(await actionsOf(world, team), ["team.create"]);
    const roles = await put(world, team, { group_roles: { Leads: "admin" } });
    assert.deepEqual([roles.status, roles.body.entity_id], [200, null], "roles need no identity provider");
  });

  test("metadata_url is fetched once, through the guard, and what it holds is checked", async (world) => {
    const team = await newEnterprise(world);
    let answer: () => Response = () => new Response(metadata({ entityId: "https://idp.example/fetched" }));
    await using server = Deno.serve(
      { hostname: "127.0.0.1", port: 0, onListen() {} },
      (request) => new URL(request.url).pathname === "/metadata" ? answer() : new Response(metadata()),
    );
    const url = `http://127.0.0.1:${server.addr.port}/metadata`;
    const saved = await put(world, team, { metadata_url: url });
    assert.equal(saved.status, 200, saved.text);
    assert.deepEqual([saved.body.metadata_url, saved.body.entity_id], [url, "https://idp.example/fetched"]);
    const bad: [() => Response, string][] = [
      [() => new Response("no", { status: 500 }), "http_500"],
      [() => new Response(null, { status: 302, headers: { location: "/elsewhere" } }), "http_302"],
      [() => new Response(new Uint8Array(300_000)), "too_large"],
      [() => new Response(new Uint8Array([0xff, 0xfe])), "not_utf8"],
    ];
    for (const [wrong, reason] of bad) {
      answer = wrong;
      const refused = await put(world, team, { metadata_url: url });
      assertRefused(refused, 400, "invalid_field:metadata_url");
      assert.equal(refused.body.reason, reason);
    }
    answer = () => new Response("<x/>");
    assertRefused(await put(world, team, { metadata_url: url }), 400, "invalid_metadata");
    assert.equal((await get(world, team)).body.entity_id, "https://idp.example/fetched");

    await using admin = startAuthAdmin();
    const { openProviders } = await import("../../supabase/functions/_shared/platform/providers_supabase.ts");
    const guarded = world.with({
      providers: openProviders(admin.settings, { allowPrivate: false }, () => {}),
    });
    for (
      const inside of [
        url,
        "https://169.254.169.254/",
        "https://localhost/",
        "file:///etc/passwd",
        "https://x",
      ]
    ) {
      assertRefused(await put(guarded, team, { metadata_url: inside }), 400, "invalid_field:metadata_url");
    }
    const stranger = await newPerson(world);
    assertRefused(
      await send(guarded, stranger, "PUT", pathOf(team), { metadata_url: url }),
      403,
      "not_a_team_member",
    );
  });

  test("where Supabase Auth is the issuer the provider is registered, changed, exchanged and removed there", async (world) => {
    await using admin = startAuthAdmin();
    const service = world.with({
      providers: admin.directory,
      settings: { supabaseUrl: "https://p.supabase.co" },
    });
    const team = await newEnterprise(world);
    const [entityId, domain] = [`https://idp.example/${crypto.randomUUID()}`, newDomain()];
    const saved = await putProved(world, team, {
      metadata_xml: metadata({ entityId }),
      domains: [domain],
      enabled: true,
    }, service);
    assert.equal(saved.status, 200, saved.text);
    const { provider_id } = saved.body;
    assert.deepEqual(admin.providers.get(provider_id)?.domains, [domain]);
    assert.deepEqual(saved.body.service_provider, {
      entity_id: "https://p.supabase.co/auth/v1/sso/saml/metadata",
      acs_url: "https://p.supabase.co/auth/v1/sso/saml/acs",
    });

    const changed = await put(service, team, { attribute_mapping: { keys: { a: { name: "b" } } } });
    assert.equal(changed.body.provider_id, provider_id);
    assert.deepEqual(admin.providers.get(provider_id)?.attributeMapping, { keys: { a: { name: "b" } } });
    assert.deepEqual(admin.providers.get(provider_id)?.domains, [domain]);

    const exchanged = await put(service, team, { metadata_xml: metadata() });
    assert.equal(exchanged.status, 200, exchanged.text);
    assert.notEqual(exchanged.body.provider_id, provider_id);
    assert.deepEqual([...admin.providers.keys()], [exchanged.body.provider_id]);
    assert.deepEqual(admin.providers.get(exchanged.body.provider_id)?.domains, [domain]);

    admin.providers.clear();
    const anew = await put(service, team, { default_role: "read" });
    assert.ok(admin.providers.has(anew.body.provider_id), "what was lost there is made anew");

    const off = await put(service, team, { enabled: false });
    assert.deepEqual([off.body.provider_id, admin.providers.size], [null, 0]);
    await put(service, team, { default_role: "write" });
    assert.equal(admin.providers.size, 0, "what is off is registered nowhere");
  });

  test("what Supabase Auth refuses is refused, and an attempt whose answer was lost is taken up again", async (world) => {
    await using admin = startAuthAdmin();
    const service = world.with({ providers: admin.directory });
    const team = await newEnterprise(world);
    const foreign = { entityId: `https://idp.example/${crypto.randomUUID()}`, domain: newDomain() };
    const id = crypto.randomUUID();
    admin.providers.set(id, {
      id,
      created_at: "2020-01-01T00:00:00Z",
      entityId: foreign.entityId,
      domains: [foreign.domain],
      attributeMapping: {},
    });
    const xml = metadata({ entityId: foreign.entityId });
    for (let i = 0; i < 2; i++) {
      const body = { metadata_xml: xml, domains: [newDomain()], enabled: true };
      const refused = await putProved(world, team, body, service);
      assertRefused(refused, 409, "sso_provider_refused");
    }
    assert.deepEqual(
      admin.providers.get(id)?.domains,
      [foreign.domain],
      "somebody else's provider is not taken over",
    );
    const clashing = { metadata_xml: metadata(), domains: [foreign.domain], enabled: true };
    const clash = await putProved(world, team, clashing, service);
    assertRefused(clash, 409, "sso_provider_refused");

    admin.interrupt = () => new Response("gone", { status: 502 });
    const body = { metadata_xml: metadata(), domains: [newDomain()], enabled: true };
    assertRefused(await putProved(world, team, body, service), 503, "sso_provider_unavailable");
    assert.equal(admin.providers.size, 2, "it was made, and nobody was told");
    const again = await put(service, team, body);
    assert.equal(again.status, 200, again.text);
    assert.equal(admin.providers.size, 2);
    assert.ok(admin.providers.has(again.body.provider_id));

    const before = [...admin.providers.values()];
    const lost = await putProved(
      world,
      team,
      { metadata_xml: metadata(), domains: [foreign.domain] },
      service,
    );
    assertRefused(lost, 409, "sso_provider_refused");
    assert.deepEqual(
      [...admin.providers.values()],
      before,
      "an exchange that fails leaves the provider as it was",
    );
  });
});

/** Whose a domain is: its DNS says so, or it leads nowhere. Spec 4.8. */

import assert from "node:assert/strict";
import { openNameService } from "../../supabase/functions/_shared/platform/name_service.ts";
import { startAuthAdmin } from "../support/auth_admin.ts";
import { metadata } from "../support/certificates.ts";
import { onEveryBackend, onOneBackend } from "../support/harness.ts";
import { startNameServer } from "../support/name_server.ts";
import { get, newDomain, newEnterprise, publish, put, putProved } from "../support/sso.ts";
import { actionsOf, assertRefused, send } from "../support/teams.ts";

onEveryBackend((test) => {
  test("PUT shows the record of each domain, always the same, and looks it up until it is there", async (world) => {
    const team = await newEnterprise(world);
    const [mine, later] = [newDomain(), newDomain()];
    const saved = await put(world, team, { metadata_xml: metadata(), domains: [mine, later] });
    assert.equal(saved.status, 200, saved.text);
    const [first, second] = saved.body.domain_verification;
    assert.deepEqual([first.domain, first.verified, first.verified_at], [mine, false, null]);
    assert.deepEqual([first.record.type, first.record.name], ["TXT", `_agent-state-challenge.${mine}`]);
    assert.match(first.record.value, /^agent-state-verification=[0-9a-f]{64}$/);
    assert.notEqual(first.record.value, second.record.value, "each domain has its own");

    const refused = await put(world, team, { enabled: true });
    assertRefused(refused, 409, "domain_not_verified");
    assert.deepEqual(refused.body.domain_verification, [first, second], "told the same, in the same order");

    world.texts.set(first.record.name, ["v=spf1 -all", ` ${first.record.value} `]);
    const half = await put(world, team, { domains: [later, mine] });
    const [, proved] = half.body.domain_verification;
    assert.deepEqual([proved.domain, proved.verified, proved.record], [mine, true, first.record]);
    assert.ok(Date.parse(proved.verified_at) <= Date.now());
    const missing = await put(world, team, { enabled: true });
    assertRefused(missing, 409, "domain_not_verified");
    assert.deepEqual(missing.body.domain_verification, [second], "only what is missing");

    publish(world, missing);
    const enabled = await put(world, team, { enabled: true });
    assert.deepEqual([enabled.status, enabled.body.enabled], [200, true], enabled.text);
    world.texts.clear();
    const kept = await put(world, team, { domains: [mine, later] });
    assert.equal(kept.status, 200, "what was proved stays proved, with its time");
    assert.equal(kept.body.domain_verification[0].verified_at, proved.verified_at);
    assert.deepEqual((await get(world, team)).body, kept.body);

    const audit = await send(world, team.owner, "GET", `/teams/${team.id}/audit?action=sso.update`);
    const counts = audit.body.entries.map((entry: { metadata: Record<string, unknown> }) =>
      entry.metadata.domains_verified
    );
    assert.deepEqual(counts.sort(), [0, 0, 1, 1]);
  });

  test("a refused PUT changes nothing, and a domain cannot be added to what is enabled without proof", async (world) => {
    const team = await newEnterprise(world);
    const body = { metadata_xml: metadata(), domains: [newDomain()], enabled: true };
    const refused = await put(world, team, body);
    assertRefused(refused, 409, "domain_not_verified");
    assertRefused(await get(world, team), 404, "sso_not_configured");
    assert.deepEqual(await actionsOf(world, team), ["team.create"]);
    const again = await put(world, team, body);
    assert.deepEqual(
      again.body.domain_verification,
      refused.body.domain_verification,
      "nor is the record another",
    );
    const saved = await putProved(world, team, body);
    assert.equal(saved.status, 200, saved.text);

    const stranger = newDomain();
    assertRefused(
      await put(world, team, { domains: [...body.domains, stranger] }),
      409,
      "domain_not_verified",
    );
    const under = await put(world, team, { domains: [`sub.${body.domains[0]}`] });
    assertRefused(under, 409, "domain_not_verified", "a name under a domain is another domain");
    assert.deepEqual((await get(world, team)).body, saved.body);
    assert.equal((await put(world, team, { domains: [], default_role: "write" })).status, 200);
    world.texts.clear();
    assertRefused(
      await put(world, team, { domains: body.domains }),
      409,
      "domain_not_verified",
      "given up is given up",
    );
  });

  test("who lists a domain without proof is in nobody's way; who has proved it holds it while they list it", async (world) => {
    const [squatter, owner, rival] = [
      await newEnterprise(world),
      await newEnterprise(world),
      await newEnterprise(world),
    ];
    const domain = newDomain();
    const listed = await put(world, squatter, { metadata_xml: metadata(), domains: [domain] });
    assert.equal(listed.status, 200, listed.text);
    const owned = await putProved(world, owner, {
      metadata_xml: metadata(),
      domains: [domain],
      enabled: true,
    });
    assert.equal(owned.status, 200, owned.text);
    assert.notEqual(
      owned.body.domain_verification[0].record.value,
      listed.body.domain_verification[0].record.value,
      "one team's record proves nothing for another",
    );
    assertRefused(await put(world, squatter, { enabled: true }), 409, "domain_not_verified");

    const body = { metadata_xml: metadata(), domains: [domain] };
    const planned = await put(world, rival, body);
    assert.deepEqual([planned.status, planned.body.domain_verification[0].verified], [200, false]);
    publish(world, planned);
    for (const held of [{ enabled: true }, { enabled: false }]) {
      assert.equal((await put(world, owner, held)).status, 200);
      const taken = await put(world, rival, body);
      assertRefused(taken, 409, "sso_domain_taken");
      assert.equal(taken.body.domain, domain);
      assertRefused(await put(world, rival, { enabled: true }), 409, "sso_domain_taken");
    }
    assert.equal((await put(world, owner, { domains: [] })).status, 200);
    const over = await put(world, rival, { enabled: true });
    assert.deepEqual([over.status, over.body.domain_verification[0].verified], [200, true], over.text);
  });
});

onOneBackend((test) => {
  test("of two teams that prove a domain at once one has it, and the other is told so", async (world) => {
    const domain = newDomain();
    const teams = await Promise.all(Array.from({ length: 4 }, () => newEnterprise(world)));
    const bodies = teams.map(() => ({ metadata_xml: metadata(), domains: [domain], enabled: true }));
    const values = await Promise.all(
      teams.map(async (team, i) =>
        (await put(world, team, bodies[i])).body.domain_verification[0].record.value
      ),
    );
    world.texts.set(`_agent-state-challenge.${domain}`, values);
    const answers = await Promise.all(teams.map((team, i) => put(world, team, bodies[i])));
    assert.deepEqual(answers.map(({ status }) => status).sort(), [200, 409, 409, 409]);
    for (const answer of answers) if (answer.status !== 200) assertRefused(answer, 409, "sso_domain_taken");
  });

  test("through a real name server: no record is no proof, and silence is an outage that changes nothing", async (world) => {
    await using server = await startNameServer();
    const names = openNameService({ nameServer: server.address, timeoutMs: 1_000 });
    await using admin = startAuthAdmin();
    const service = world.with({ names, providers: admin.directory });
    const team = await newEnterprise(world);
    const domain = newDomain();
    const body = { metadata_xml: metadata(), domains: [domain], enabled: true };
    const refused = await put(service, team, body);
    assertRefused(refused, 409, "domain_not_verified");
    const [{ record }] = refused.body.domain_verification;
    assert.ok(server.questions.includes(`udp ${record.name}.`), server.questions.join());

    server.zone.set(record.name, "silent");
    const away = await put(service, team, body);
    assertRefused(away, 503, "dns_unavailable");
    assert.ok(Number(away.headers.get("retry-after")) > 0);
    assertRefused(await put(service, team, { ...body, enabled: false }), 503, "dns_unavailable");
    assertRefused(await get(service, team), 404, "sso_not_configured");
    assert.equal(
      (await put(service, team, { default_role: "write" })).status,
      200,
      "roles ask no name server",
    );
    assert.deepEqual(admin.requests, [], "Supabase Auth hears of nothing that is not proved");

    server.zone.set(record.name, [["google-site-verification=x"], [
      record.value.slice(0, 40),
      record.value.slice(40),
    ]]);
    const saved = await put(service, team, body);
    assert.equal(saved.status, 200, saved.text);
    assert.deepEqual(admin.providers.get(saved.body.provider_id)?.domains, [domain]);
    server.questions.length = 0;
    server.zone.set(record.name, "silent");
    assert.equal((await put(service, team, { domains: [domain], enabled: true })).status, 200);
    assert.deepEqual(server.questions, [], "what is proved is not looked up again");
  });

  test("domains are spelled as the DNS spells them", async (world) => {
    const team = await newEnterprise(world);
    for (
      const domain of [
        "bücher.example",
        "gmail",
        "a.example.",
        "*.example",
        "_x.example",
        "10.0.0.1",
        "a@b.example",
        `${"a".repeat(64)}.example`,
        `${"a.".repeat(115)}example`,
      ]
    ) {
      const refused = await put(world, team, { metadata_xml: metadata(), domains: [domain] });
      assertRefused(refused, 400, "invalid_field:domains", domain);
    }
    const spelled = `XN--BCHER-KVA.${newDomain()}`;
    const saved = await put(world, team, {
      metadata_xml: metadata(),
      domains: [spelled, spelled.toLowerCase()],
    });
    assert.deepEqual(saved.body.domains, [spelled.toLowerCase()]);
  });
});

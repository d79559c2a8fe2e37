/** The job, what happens at once, and who hears of it: webhooks and mail. */

import assert from "node:assert/strict";
import { MAIL_KINDS } from "../../supabase/functions/_shared/domain/mail.ts";
import { deliverMail } from "../../supabase/functions/_shared/flows/deliver_mail.ts";
import { dispatchVaults } from "../../supabase/functions/vault/flows/dispatch_vaults.ts";
import { readSources } from "../contract/sources.ts";
import { eventually } from "../support/eventually.ts";
import { onEveryBackend, onOneBackend, type World } from "../support/harness.ts";
import { deliveriesOf, newHook } from "../support/hooks.ts";
import { APP, NO_APP } from "../support/mail.ts";
import { assertRefused, PUBLIC_KEY } from "../support/teams.ts";
import {
  actionsOf,
  ask,
  askAlive,
  askByToken,
  configure,
  DAY_MS,
  expect,
  invite,
  look,
  nameSomebody,
  newArmedVault,
  personBody,
  type Vault,
  wait,
} from "../support/vaults.ts";

const CRON = "a-secret-for-scheduled-jobs";

/** Takes the mails that other tests left behind out of the way. */
async function forgetMails(world: World): Promise<void> {
  await world.sql.query(
    "update app.mail_outbox set given_up_at = now() where sent_at is null and given_up_at is null",
  );
}

/** The job as it runs at a vault's time, over the vaults of all tests. */
function dispatch(vault: Vault) {
  const { requestVault } = vault.world.with({
    settings: { cronSecret: CRON },
    now: () => new Date(vault.clock.ms),
  });
  return requestVault("POST", "/release/dispatch", { token: CRON });
}

onEveryBackend((test) => {
  test("the job moves on what nobody looks at, for whoever has its secret", async (world) => {
    const { vault, heir } = await newArmedVault(world);
    assertRefused(await world.requestVault("POST", "/release/dispatch"), 503, "cron_not_configured");
    const locked = world.with({ settings: { cronSecret: CRON } });
    const wrong = await locked.requestVault("POST", "/release/dispatch", { token: "another-secret-of-16" });
    assertRefused(wrong, 401, "invalid_cron_secret");
    const days = [31, 3, 3, 1, 7];
    for (const each of days) {
      wait(vault, each * DAY_MS);
      assert.equal(expect(200, await dispatch(vault)).failed, 0);
    }
    assert.deepEqual((await actionsOf(vault)).slice(-5), [
      "check_in.remind",
      "check_in.remind",
      "check_in.remind",
      "release.begin",
      "release.complete",
    ]);
    expect(200, await askByToken(vault, heir, "/pick-up"));
  });
});

onOneBackend((test) => {
  test("runs at once move each vault once", async (world) => {
    const all = await Promise.all(Array.from({ length: 8 }, () => newArmedVault(world)));
    for (const { vault } of all) {
      wait(vault, 36 * DAY_MS);
      await look(vault);
      wait(vault, 2 * DAY_MS);
    }
    const { platform } = all[0]!.vault.service;
    const reports = await Promise.all(Array.from({ length: 6 }, () => dispatchVaults(platform, 500)));
    assert.ok(reports.every(({ failed }) => failed === 0));
    for (const { vault } of all) {
      const actions = await actionsOf(vault);
      assert.equal(actions.filter((action) => action === "release.begin").length, 1);
      assert.equal(expect(200, await ask(vault, "GET", "/audit/verify")).valid, true);
    }
  });

  test("a veto and the job at once: the veto wins, whoever comes first", async (world) => {
    const orders = new Set<string>();
    for (let round = 0; round < 12; round++) {
      const { vault, heir } = await newArmedVault(world);
      expect(200, await askAlive(vault, "POST", "/release"));
      wait(vault, 2 * DAY_MS);
      const [vetoed] = await Promise.all([
        askAlive(vault, "POST", "/release/veto"),
        dispatchVaults(vault.service.platform, 500),
        dispatchVaults(vault.service.platform, 500),
      ]);
      assert.equal(expect(200, vetoed).state, "active");
      assert.equal((await look(vault)).state, "active");
      assertRefused(await askByToken(vault, heir, "/pick-up"), 403, "not_released");
      assert.equal(expect(200, await ask(vault, "GET", "/audit/verify")).valid, true);
      orders.add((await actionsOf(vault)).slice(-2).join());
    }
    assert.ok([...orders].every((order) => order.endsWith("release.cancel")), [...orders].join(" "));
  });

  test("a veto and the first pick-up at once: one of them wins, and the other is told", async (world) => {
    for (let round = 0; round < 12; round++) {
      const { vault, heir } = await newArmedVault(world);
      expect(200, await askAlive(vault, "POST", "/release"));
      wait(vault, 2 * DAY_MS);
      await look(vault);
      const [vetoed, got] = await Promise.all([
        askAlive(vault, "POST", "/release/veto"),
        askByToken(vault, heir, "/pick-up"),
      ]);
      const outcome = [vetoed.status, got.status].join();
      assert.ok(["200,403", "409,200"].includes(outcome), outcome);
      const { state } = await look(vault);
      assert.equal(state, vetoed.status === 200 ? "active" : "released");
    }
  });

  test("webhooks of the owner hear of every transition once, with ids and no names", async (world) => {
    const { vault, heir } = await newArmedVault(world);
    const hook = await newHook(world, "http://127.0.0.1:9/", {
      person: vault.owner,
      events: [
        "vault.releasing",
        "vault.released",
        "vault.release_canceled",
        "vault.picked_up",
        "vault.checked_in",
      ],
    });
    expect(200, await askAlive(vault, "POST", "/release"));
    wait(vault, 2 * DAY_MS);
    await look(vault);
    expect(200, await askAlive(vault, "POST", "/release/veto"));
    expect(200, await askAlive(vault, "POST", "/release"));
    wait(vault, 2 * DAY_MS);
    for (let i = 0; i < 2; i++) expect(200, await askByToken(vault, heir, "/pick-up"));
    const told = (await deliveriesOf(world, hook.id)).map(({ payload }) => JSON.parse(payload));
    assert.deepEqual(told.map(({ type }) => type), [
      "vault.releasing",
      "vault.released",
      "vault.release_canceled",
      "vault.releasing",
      "vault.released",
      "vault.picked_up",
    ]);
    for (const { data } of told) assert.equal(data.vault_id, vault.id);
    assert.equal(told.at(-1).data.person_id, heir.id);
    assert.doesNotMatch(JSON.stringify(told), /Ada|example\.com|Papers/);
  });

  test("the mails lead an heir from the invitation to the pick-up, with a token that is kept nowhere", async (world) => {
    const { vault } = await newArmedVault(world);
    await forgetMails(world);
    const service = world.with({ now: () => new Date(vault.clock.ms) });
    const mailed = { ...vault, service };
    const body = personBody({ public_key: PUBLIC_KEY });
    const heir = expect(201, await ask(mailed, "POST", "/heir", body));
    const tokenOf = async (subject: RegExp) =>
      /inv_[\w-]{43}/.exec(
        (await eventually(`a mail about ${subject}`, () =>
          world.mails.find(({ to, subject: text }) => to === heir.email && subject.test(text)))).text,
      )![0];
    const token = await tokenOf(/^You are asked to be an heir of “Papers”$/);
    expect(200, await askByToken(mailed, { token }, "/invitation/accept"));
    expect(200, await ask(mailed, "POST", `/heir/${heir.id}/confirm`, {}));
    expect(200, await askAlive(mailed, "POST", "/release"));
    wait(vault, 2 * DAY_MS);
    expect(200, await dispatch(vault));
    await deliverMail(world.platform, NO_APP, 200);
    const later = await tokenOf(/^The vault “Papers” is released to you$/);
    assert.notEqual(later, token);
    for (const each of [token, later]) expect(200, await askByToken(mailed, { token: each }, "/pick-up"));
    const kept = await world.sql.query("select string_agg(t::text, '') as all from app.vault_tokens t");
    assert.ok(!kept.rows[0].all.includes(token.slice(4)));
  });

  test("every mail about a vault can be written, and says where its token leads", async (world) => {
    await forgetMails(world);
    const { vault, guardians } = await newArmedVault(world);
    await nameSomebody(vault, "guardian", { share: null });
    await configure(vault, "guardian_claim");
    const claim = expect(201, await askByToken(vault, guardians[0]!, "/claim"));
    const vote = { vote: "concur" };
    expect(200, await askByToken(vault, guardians[1]!, `/claim/${claim.id}/vote`, vote));
    expect(200, await askAlive(vault, "POST", "/release/veto"));
    const guest = await invite(vault, "heir");
    expect(200, await askByToken(vault, guest, "/invitation/decline"));
    expect(202, await askAlive(vault, "DELETE", `/guardian/${guardians[0]!.id}`));
    await invite(vault, "heir");
    wait(vault, 36 * DAY_MS);
    await look(vault);
    const sql =
      "select count(*)::int as n from app.mail_outbox where sent_at is null and given_up_at is null";
    await deliverMail(world.platform, APP, 500);
    assert.equal((await world.sql.query(sql)).rows[0].n, 0, "nothing waits for a template");
    const claims = world.mails.filter(({ to, text }) =>
      to === guardians[1]!.email && text.includes(claim.id)
    );
    assert.match(claims[0]!.text, /https:\/\/app\.example\/vault\/claim#token=inv_/);
    assert.ok(
      world.mails.some(({ text }) => text.includes("https://app.example/vault/invitation#token=inv_")),
    );
  });
});

Deno.test("every kind of mail about a vault that a migration queues has a template, and no other has", () => {
  const queued = readSources("supabase/migrations", ".sql").flatMap(({ text }) =>
    Array.from(
      text.matchAll(/\b(?:queue_mail|tell_vault)\s*\((?:[\w.]+,)?\s*'(vault_[a-z_]+)'/g),
      (match) => match[1]!,
    )
  );
  const known = MAIL_KINDS.filter((kind) => kind.startsWith("vault_"));
  assert.deepEqual([...new Set(queued)].sort(), known.toSorted());
});

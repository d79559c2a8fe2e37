/** The vault's machine, one transition after another. The whole of it against a model: `vault_model_test.ts`. */

import assert from "node:assert/strict";
import { onEveryBackend, onOneBackend } from "../support/harness.ts";
import { assertRefused, PUBLIC_KEY } from "../support/teams.ts";
import {
  actionsOf,
  addAsset,
  ask,
  askAlive,
  askByToken,
  configure,
  DAY_MS,
  expect,
  HOUR_MS,
  invite,
  look,
  mailsAbout,
  nameSomebody,
  newApiKey,
  newArmedVault,
  newVault,
  wait,
} from "../support/vaults.ts";

onEveryBackend((test) => {
  test("a missed check-in releases the vault to its heir, with warnings and a window first", async (world) => {
    const { vault, heir, asset } = await newArmedVault(world);
    wait(vault, 30 * DAY_MS - 1);
    assert.equal((await look(vault)).state, "active");
    wait(vault, 1);
    await look(vault);
    wait(vault, 3.5 * DAY_MS);
    await look(vault);
    wait(vault, 2.5 * DAY_MS);
    await look(vault);
    const reminders = (await mailsAbout(vault)).filter(({ kind }) => kind === "vault_check_in_due");
    assert.deepEqual(reminders.map(({ recipient }) => recipient), Array(3).fill(vault.owner.email));
    wait(vault, DAY_MS - 1);
    assert.equal((await look(vault)).state, "active", "the grace is not over");
    wait(vault, 1);
    const releasing = await look(vault);
    assert.equal(releasing.state, "releasing");
    assert.equal(releasing.release.trigger, "dead_man_switch");
    assert.equal(releasing.release.release_at, new Date(vault.clock.ms + 7 * DAY_MS).toISOString());
    assertRefused(await askByToken(vault, heir, "/pick-up"), 403, "not_released");
    wait(vault, 7 * DAY_MS - 1);
    assertRefused(await askByToken(vault, heir, "/pick-up"), 403, "not_released");
    wait(vault, 1);
    const got = expect(200, await askByToken(vault, heir, "/pick-up"));
    assert.equal(got.shares.length, 3);
    assert.deepEqual(
      got.assets.map(({ id, wrapped_key }: { id: string; wrapped_key: string }) => [id, wrapped_key]),
      [
        [asset, `key for ${heir.id}`],
      ],
    );
    const one = expect(200, await askByToken(vault, heir, `/pick-up/${asset}`));
    assert.deepEqual(
      one.ciphertext_b64,
      expect(200, await ask(vault, "GET", `/asset/${asset}`)).ciphertext_b64,
    );
    assert.ok((await look(vault)).release.picked_up_at);
  });
});

onOneBackend((test) => {
  test("whoever checks in in time, or late, has the whole interval again", async (world) => {
    const { vault } = await newArmedVault(world);
    wait(vault, 29 * DAY_MS);
    expect(200, await askAlive(vault, "POST", "/check-in"));
    wait(vault, 29 * DAY_MS);
    assert.equal((await look(vault)).state, "active");
    wait(vault, 7 * DAY_MS);
    await look(vault);
    expect(200, await askAlive(vault, "POST", "/check-in"));
    wait(vault, 29 * DAY_MS);
    const { state, release } = await look(vault);
    assert.equal(state, "active");
    assert.equal(release.check_in_due_at, new Date(vault.clock.ms + DAY_MS).toISOString());
  });

  test("an ordinary key proves nothing of life; a check-in key does that and nothing else", async (world) => {
    const { vault } = await newArmedVault(world);
    for (const path of ["/check-in", "/release/veto"]) {
      assertRefused(await ask(vault, "POST", path), 403, "proof_of_life_required");
    }
    for (const path of ["/release", "/release/rearm"]) {
      const body = { key_epoch: 1, wrapped_shares: [] };
      assertRefused(await ask(vault, "POST", path, body), 401, "session_jwt_required");
    }
    const button = { ...vault, key: await newApiKey(world, vault.owner, ["vault:check_in"]) };
    wait(vault, DAY_MS);
    const checkedIn = expect(200, await ask(button, "POST", "/check-in"));
    assert.equal(checkedIn.release.last_check_in_at, new Date(vault.clock.ms).toISOString());
    assertRefused(await ask(button, "GET", ""), 403, "forbidden_scope");
    assertRefused(await ask(button, "POST", "/release"), 403, "forbidden_scope");
    assertRefused(await ask(button, "DELETE", `/asset/${crypto.randomUUID()}`), 403, "forbidden_scope");
    assertRefused(await world.request("GET", "/head", { token: button.key }), 403, "forbidden_scope");
    const shown = (await world.request("GET", "/api-keys", { token: vault.owner.token })).body;
    assert.deepEqual(shown.map(({ scopes }: { scopes?: string[] }) => scopes), [
      ["vault:check_in"],
      undefined,
    ]);
    const odd = { name: "x", scopes: ["everything"] };
    const refused = await world.request("POST", "/api-keys", { token: vault.owner.token, body: odd });
    assertRefused(refused, 400, "invalid_field:scopes");
  });

  test("a check-in calls off what a missed one began, and nothing else", async (world) => {
    const { vault, heir } = await newArmedVault(world);
    wait(vault, 38 * DAY_MS);
    await look(vault);
    wait(vault, DAY_MS);
    assert.equal((await look(vault)).state, "releasing");
    assert.equal(expect(200, await askAlive(vault, "POST", "/check-in")).state, "active");
    assert.equal(expect(200, await askAlive(vault, "POST", "/release")).state, "releasing");
    wait(vault, HOUR_MS);
    assert.equal(expect(200, await askAlive(vault, "POST", "/check-in")).state, "releasing");
    assert.equal(expect(200, await askAlive(vault, "POST", "/release/veto")).state, "active");
    wait(vault, 20 * DAY_MS);
    assertRefused(await askByToken(vault, heir, "/pick-up"), 403, "not_released");
  });

  test("when nobody looked for long, the owner is still warned a day before and has the whole window", async (world) => {
    const { vault } = await newArmedVault(world);
    wait(vault, 365 * DAY_MS);
    assert.equal((await look(vault)).state, "active");
    wait(vault, DAY_MS - 1);
    assert.equal((await look(vault)).state, "active");
    wait(vault, 1);
    const { state, release } = await look(vault);
    assert.equal(state, "releasing");
    assert.equal(release.release_at, new Date(vault.clock.ms + 7 * DAY_MS).toISOString());
    const reminders = (await mailsAbout(vault)).filter(({ kind }) => kind === "vault_check_in_due");
    assert.equal(reminders.length, 1, "one mail for all that was missed");
  });

  test("a veto works until the first pick-up, also after the release, and never after it", async (world) => {
    const { vault, heir } = await newArmedVault(world);
    assertRefused(await askAlive(vault, "POST", "/release/veto"), 409, "nothing_to_veto");
    expect(200, await askAlive(vault, "POST", "/release"));
    wait(vault, 25 * HOUR_MS);
    assert.equal((await look(vault)).state, "released");
    const vetoed = expect(200, await askAlive(vault, "POST", "/release/veto"));
    assert.equal(vetoed.state, "active");
    assert.equal(vetoed.release.released_at, null);
    assertRefused(await askByToken(vault, heir, "/pick-up"), 403, "not_released");
    assert.ok(
      (await mailsAbout(vault)).some(({ kind, recipient }) =>
        kind === "vault_release_canceled" && recipient === heir.email
      ),
      "the heir was told of the release, and is told that it is off",
    );
    expect(200, await askAlive(vault, "POST", "/release"));
    wait(vault, 25 * HOUR_MS);
    expect(200, await askByToken(vault, heir, "/pick-up"));
    assertRefused(await askAlive(vault, "POST", "/release/veto"), 409, "already_picked_up");
  });

  test("nothing is released to nobody: it stays blocked and visible until somebody could open it", async (world) => {
    const vault = await newVault(world);
    await configure(vault, "dead_man_switch");
    wait(vault, 400 * DAY_MS);
    await look(vault);
    wait(vault, 400 * DAY_MS);
    assert.equal((await look(vault)).state, "active", "without an heir it does not even begin");
    assertRefused(await askAlive(vault, "POST", "/release"), 409, "no_confirmed_heir");
    const heir = await nameSomebody(vault, "heir");
    expect(200, await askAlive(vault, "POST", "/check-in"));
    expect(200, await askAlive(vault, "POST", "/release"));
    wait(vault, 2 * DAY_MS);
    const blocked = await look(vault);
    assert.equal(blocked.state, "releasing");
    assert.ok(blocked.release.blocked_since, "one share of two opens nothing");
    assertRefused(await askByToken(vault, heir, "/pick-up"), 403, "not_released");
    await nameSomebody(vault, "guardian");
    assert.equal((await look(vault)).state, "released");
    const found = await actionsOf(vault);
    assert.deepEqual(found.slice(-5), [
      "release.block",
      "guardian.invite",
      "guardian.accept",
      "guardian.confirm",
      "release.complete",
    ]);
  });

  test("without shares, a key that is wrapped for a confirmed heir is enough", async (world) => {
    const vault = await newVault(world);
    const heir = await nameSomebody(vault, "heir", { share: null });
    const asset = await addAsset(vault);
    expect(200, await askAlive(vault, "POST", "/release"));
    wait(vault, 2 * DAY_MS);
    assert.ok((await look(vault)).release.blocked_since);
    const body = { wrapped_keys: [{ heir_id: heir.id, wrapped_key: "k" }] };
    expect(200, await ask(vault, "POST", `/asset/${asset}/keys`, body));
    const got = expect(200, await askByToken(vault, heir, "/pick-up"));
    assert.deepEqual([got.shares, got.assets[0].wrapped_key], [[], "k"]);
  });

  test("only heirs who are confirmed get anything", async (world) => {
    const { vault, guardians } = await newArmedVault(world);
    const invited = await invite(vault, "heir");
    const accepted = await invite(vault, "heir");
    expect(200, await askByToken(vault, accepted, "/invitation/accept", { public_key: PUBLIC_KEY }));
    const declined = await invite(vault, "heir");
    expect(200, await askByToken(vault, declined, "/invitation/decline"));
    expect(200, await askAlive(vault, "POST", "/release"));
    wait(vault, 2 * DAY_MS);
    assert.equal((await look(vault)).state, "released");
    for (const named of [invited, accepted, guardians[0]!]) {
      assertRefused(await askByToken(vault, named, "/pick-up"), 403, "forbidden_person");
    }
    assertRefused(await askByToken(vault, declined, "/pick-up"), 404, "invitation_not_found");
    assertRefused(await askByToken(vault, { token: "inv_x" }, "/pick-up"), 404, "invitation_not_found");
    const other = await newArmedVault(world);
    assertRefused(await askByToken(vault, other.heir, "/pick-up"), 404, "invitation_not_found");
  });

  test("a window that runs is not shortened by anything that is changed meanwhile", async (world) => {
    const { vault } = await newArmedVault(world, { veto_window_hours: 480 });
    wait(vault, 37 * DAY_MS);
    await look(vault);
    wait(vault, DAY_MS);
    const { release } = await look(vault);
    for (const trigger of ["dead_man_switch", "manual"]) {
      await configure(vault, trigger, { veto_window_hours: trigger === "manual" ? 1 : 24 });
    }
    wait(vault, 19 * DAY_MS);
    const later = await look(vault);
    assert.deepEqual([later.state, later.release.release_at], ["releasing", release.release_at]);
    wait(vault, DAY_MS);
    assert.equal((await look(vault)).state, "released");
  });

  test("what weakens a vault waits as long as the longest window and can be canceled", async (world) => {
    const { vault, heir } = await newArmedVault(world, { veto_window_hours: 240 });
    await configure(vault, "dead_man_switch", { check_in_interval_days: 60 });
    assert.equal((await look(vault)).release.config.dead_man_switch.check_in_interval_days, 60);
    expect(
      200,
      await askAlive(vault, "POST", "/release/config", {
        trigger: "dead_man_switch",
        config: { check_in_interval_days: 7 },
      }),
    );
    const removal = expect(202, await askAlive(vault, "DELETE", `/heir/${heir.id}`));
    assert.equal(removal.status, "confirmed");
    assert.equal(removal.change.executes_at, new Date(vault.clock.ms + 14 * DAY_MS).toISOString());
    expect(202, await askAlive(vault, "DELETE", `/heir/${heir.id}`));
    const waiting = await look(vault);
    assert.equal(waiting.pending_changes.length, 2);
    assert.equal(waiting.release.config.dead_man_switch.check_in_interval_days, 60);
    expect(200, await ask(vault, "DELETE", `/changes/${removal.change.id}`));
    wait(vault, 14 * DAY_MS - 1);
    assert.equal((await look(vault)).release.config.dead_man_switch.check_in_interval_days, 60);
    wait(vault, 1);
    const changed = await look(vault);
    assert.equal(changed.release.config.dead_man_switch.check_in_interval_days, 7);
    assert.deepEqual([changed.pending_changes, changed.heirs.length], [[], 1]);
    const done = waiting.pending_changes.find(({ kind }: { kind: string }) => kind === "configure").id;
    assertRefused(await ask(vault, "DELETE", `/changes/${done}`), 404, "change_not_found");
  });

  test("a bot that outlives its owner can neither switch the switch off nor remove the heirs", async (world) => {
    const { vault, heir } = await newArmedVault(world);
    await configure(vault, "dead_man_switch", { enabled: false });
    expect(202, await ask(vault, "DELETE", `/heir/${heir.id}`));
    wait(vault, 37 * DAY_MS);
    await look(vault);
    wait(vault, DAY_MS);
    assert.equal((await look(vault)).state, "releasing");
    assertRefused(await ask(vault, "DELETE", `/heir/${heir.id}`), 409, "wrong_vault_state");
    wait(vault, 7 * DAY_MS);
    expect(200, await askByToken(vault, heir, "/pick-up"));
  });

  test("what was asked with an ordinary key happens once the owner has shown that they live", async (world) => {
    const { vault, heir } = await newArmedVault(world);
    const { change } = expect(202, await ask(vault, "DELETE", `/heir/${heir.id}`));
    assert.equal(change.needs_check_in, true);
    wait(vault, 20 * DAY_MS);
    assert.equal((await look(vault)).heirs.length, 1);
    expect(200, await askAlive(vault, "POST", "/check-in"));
    assert.equal((await look(vault)).heirs.length, 0);
    assertRefused(await askByToken(vault, heir, "/invitation"), 404, "invitation_not_found");
  });

  test("a released vault is armed again with new keys only, and what was wrapped before is burnt", async (world) => {
    const { vault, heir, guardians, asset } = await newArmedVault(world);
    const rearm = (body: unknown) => askAlive(vault, "POST", "/release/rearm", body);
    const share = (person_id: string) => ({ person_id, wrapped_share: `new ${person_id}` });
    const all = [heir, ...guardians].map(({ id }) => share(id));
    assertRefused(await rearm({ key_epoch: 1, wrapped_shares: all }), 409, "wrong_vault_state");
    expect(200, await askAlive(vault, "POST", "/release"));
    wait(vault, 2 * DAY_MS);
    expect(200, await askByToken(vault, heir, "/pick-up"));
    assertRefused(
      await ask(vault, "POST", "/heir", { name: "x", email: "x@example.com" }),
      409,
      "wrong_vault_state",
    );
    for (const key_epoch of [0, 2, 2 ** 31, Number.MAX_SAFE_INTEGER]) {
      assertRefused(await rearm({ key_epoch, wrapped_shares: all }), 400, "invalid_field:key_epoch");
    }
    const few = await rearm({ key_epoch: 1, wrapped_shares: all.slice(1) });
    assertRefused(few, 400, "incomplete_shares");
    assert.deepEqual(few.body.missing, [heir.id]);
    const stranger = [...all, share(crypto.randomUUID())];
    assertRefused(await rearm({ key_epoch: 1, wrapped_shares: stranger }), 400, "incomplete_shares");
    const armed = expect(200, await rearm({ key_epoch: 1, wrapped_shares: all }));
    assert.deepEqual([armed.state, armed.key_epoch, armed.release.picked_up_at], ["active", 1, null]);
    assert.deepEqual(armed.assets[0].wrapped_for, []);
    assertRefused(await askByToken(vault, heir, `/pick-up/${asset}`), 403, "not_released");
    const keys = { wrapped_keys: [{ heir_id: heir.id, wrapped_key: "k" }] };
    assertRefused(await ask(vault, "POST", `/asset/${asset}/keys`, keys), 409, "stale_asset");
    const fresh = await addAsset(vault, [heir]);
    expect(200, await askAlive(vault, "POST", "/release"));
    wait(vault, 2 * DAY_MS);
    const got = expect(200, await askByToken(vault, heir, "/pick-up"));
    assert.deepEqual(got.assets.map(({ id }: { id: string }) => id), [fresh]);
    assert.ok(got.shares.every((each: { wrapped_share: string }) => each.wrapped_share.startsWith("new ")));
    assertRefused(await askByToken(vault, heir, `/pick-up/${asset}`), 404, "asset_not_found");
    assert.equal((await actionsOf(vault)).filter((action) => action === "release.complete").length, 2);
  });
});

/** Guardians claim, vote and think again; one of them alone decides nothing. */

import assert from "node:assert/strict";
import { onOneBackend, type World } from "../support/harness.ts";
import { assertRefused } from "../support/teams.ts";
import {
  ask,
  askAlive,
  askByToken,
  configure,
  DAY_MS,
  expect,
  invite,
  look,
  mailsAbout,
  type Named,
  nameSomebody,
  newVault,
  type Vault,
  wait,
} from "../support/vaults.ts";

/** A vault with an heir and guardians, and claims allowed. */
async function newGuardedVault(world: World, count = 3) {
  const vault = await newVault(world);
  const heir = await nameSomebody(vault, "heir");
  const guardians: Named[] = [];
  for (let i = 0; i < count; i++) {
    guardians.push(await nameSomebody(vault, "guardian", i < 2 ? {} : { share: null }));
  }
  await configure(vault, "guardian_claim");
  return { vault, heir, guardians: guardians as [Named, Named, Named, ...Named[]] };
}

const claim = async (vault: Vault, by: Named) =>
  expect(201, await askByToken(vault, by, "/claim", { reason: "We have not heard from her" })).id as string;
const vote = (vault: Vault, by: Named, id: string, word: string) =>
  askByToken(vault, by, `/claim/${id}/vote`, { vote: word });

onOneBackend((test) => {
  test("a quorum of guardians brings a release about, after the window, to the heir alone", async (world) => {
    const { vault, heir, guardians } = await newGuardedVault(world);
    const id = await claim(vault, guardians[0]);
    assert.equal((await look(vault)).state, "active", "one guardian releases nothing");
    const mails = await mailsAbout(vault);
    assert.equal(mails.filter(({ kind }) => kind === "vault_claim_opened").length, 3);
    assert.ok(
      mails.some(({ kind, recipient }) => kind === "vault_claim_notice" && recipient === vault.owner.email),
    );
    const seen = expect(200, await askByToken(vault, guardians[1], "/invitation"));
    assert.deepEqual([seen.claim.id, seen.claim.concur, seen.claim.quorum], [id, 1, 2]);
    expect(200, await vote(vault, guardians[0], id, "concur"));
    assert.equal((await look(vault)).state, "active", "voting twice counts once");
    assert.equal(expect(200, await vote(vault, guardians[1], id, "concur")).state, "approved");
    const { state, release } = await look(vault);
    assert.equal(state, "releasing");
    assert.equal(release.release_at, new Date(vault.clock.ms + 14 * DAY_MS).toISOString());
    wait(vault, 14 * DAY_MS);
    expect(200, await askByToken(vault, heir, "/pick-up"));
    assertRefused(await vote(vault, guardians[2], id, "reject"), 409, "claim_closed");
  });

  test("guardians who learn better may change their vote until the window ends", async (world) => {
    const { vault, guardians } = await newGuardedVault(world);
    const id = await claim(vault, guardians[0]);
    expect(200, await vote(vault, guardians[1], id, "concur"));
    expect(200, await vote(vault, guardians[2], id, "reject"));
    assert.equal((await look(vault)).state, "releasing", "one guardian blocks nothing");
    expect(200, await vote(vault, guardians[0], id, "reject"));
    const { state, claim: open } = await look(vault);
    assert.deepEqual([state, open], ["active", null]);
    const late = await vote(vault, guardians[1], id, "reject");
    assertRefused(late, 409, "claim_closed");
    assert.equal(late.body.state, "contested");
  });

  test("a claim that comes to nothing makes its guardian wait, twice as long after each refusal", async (world) => {
    const { vault, guardians } = await newGuardedVault(world);
    for (const days of [7, 14, 28]) {
      const id = await claim(vault, guardians[0]);
      assertRefused(await askByToken(vault, guardians[1], "/claim"), 409, "claim_exists");
      assert.equal(expect(200, await askAlive(vault, "POST", "/release/veto")).claim, null);
      assertRefused(await vote(vault, guardians[1], id, "concur"), 409, "claim_closed");
      const refused = await askByToken(vault, guardians[0], "/claim");
      assertRefused(refused, 409, "claim_cooling_down");
      assert.equal(refused.body.until, new Date(vault.clock.ms + days * DAY_MS).toISOString());
      wait(vault, days * DAY_MS);
    }
    const approved = await claim(vault, guardians[1]);
    expect(200, await vote(vault, guardians[2], approved, "concur"));
    assert.equal(expect(200, await askAlive(vault, "POST", "/release/veto")).state, "active");
    assertRefused(await askByToken(vault, guardians[1], "/claim"), 409, "claim_cooling_down");
  });

  test("a claim expires after two weeks, and its maker may withdraw it before", async (world) => {
    const { vault, guardians } = await newGuardedVault(world);
    const first = await claim(vault, guardians[0]);
    wait(vault, 14 * DAY_MS);
    assertRefused(await vote(vault, guardians[1], first, "concur"), 409, "claim_closed");
    const second = await claim(vault, guardians[1]);
    const withdraw = (by: Named) => askByToken(vault, by, `/claim/${second}/withdraw`);
    assertRefused(await withdraw(guardians[2]), 404, "claim_not_found");
    assert.equal(expect(200, await withdraw(guardians[1])).state, "withdrawn");
    assert.equal(expect(200, await withdraw(guardians[1])).state, "withdrawn");
    assert.equal((await look(vault)).state, "active");
  });

  test("claims need the owner's leave, guardians enough and confirmed, and an heir", async (world) => {
    const vault = await newVault(world);
    const guardians = [await nameSomebody(vault, "guardian"), await nameSomebody(vault, "guardian")];
    const [one] = guardians as [Named];
    assertRefused(await askByToken(vault, one, "/claim"), 409, "trigger_disabled");
    await configure(vault, "guardian_claim");
    const few = await askByToken(vault, one, "/claim");
    assertRefused(few, 409, "too_few_guardians");
    assert.deepEqual([few.body.guardians, few.body.required], [2, 3]);
    const pending = await invite(vault, "guardian");
    assertRefused(await askByToken(vault, pending, "/claim"), 403, "forbidden_person");
    await nameSomebody(vault, "guardian", { share: null });
    assertRefused(await askByToken(vault, one, "/claim"), 409, "no_confirmed_heir");
    const heir = await nameSomebody(vault, "heir", { share: null });
    assertRefused(await askByToken(vault, heir, "/claim"), 403, "forbidden_person");
    const body = { trigger: "guardian_claim", config: { quorum: 1 } };
    assertRefused(await ask(vault, "POST", "/release/config", body), 400, "invalid_field:quorum");
    await claim(vault, one);
  });

  test("a lower quorum waits; a claim that is open keeps the one that it was made with", async (world) => {
    const { vault, guardians } = await newGuardedVault(world, 4);
    await configure(vault, "guardian_claim", { quorum: 3 });
    const id = await claim(vault, guardians[0]);
    const body = { trigger: "guardian_claim", config: { quorum: 2 } };
    const asked = expect(200, await askAlive(vault, "POST", "/release/config", body));
    assert.equal(asked.release.config.guardian_claim.quorum, 3);
    assert.equal(asked.pending_changes.length, 1);
    wait(vault, 13 * DAY_MS);
    expect(200, await vote(vault, guardians[1], id, "concur"));
    assert.equal((await look(vault)).state, "active");
    expect(200, await vote(vault, guardians[2], id, "concur"));
    assert.equal((await look(vault)).state, "releasing");
  });

  test("the vote of a guardian who leaves does not count any more", async (world) => {
    const { vault, guardians } = await newGuardedVault(world, 4);
    const id = await claim(vault, guardians[0]);
    expect(200, await askByToken(vault, guardians[0], "/invitation/decline"));
    assert.equal((await look(vault)).claim.concur, 0);
    expect(200, await vote(vault, guardians[1], id, "concur"));
    assert.equal((await look(vault)).state, "active");
  });
});

/** What is told to a vault twice is done once: its ledger has one entry, and nobody gets two mails. */

import assert from "node:assert/strict";
import { onEveryBackend } from "../support/harness.ts";
import {
  actionsOf,
  addAsset,
  ask,
  configure,
  expect,
  invite,
  look,
  mailsAbout,
  nameSomebody,
  newArmedVault,
  newVault,
  type Vault,
} from "../support/vaults.ts";

onEveryBackend((test) => {
  test("an invitation that is sent again while its mail has yet to go out is not mailed twice", async (world) => {
    const vault = await newVault(world);
    const heir = await invite(vault, "heir");
    expect(200, await ask(vault, "POST", `/heir/${heir.id}/resend`));
    assert.equal((await mailsAbout(vault)).length, 1);

    await pretendSent(vault);
    for (let i = 0; i < 2; i++) expect(200, await ask(vault, "POST", `/heir/${heir.id}/resend`));
    assert.equal((await mailsAbout(vault)).length, 2);
    assert.deepEqual(await actionsOf(vault), ["vault.create", "heir.invite", "heir.resend"]);
  });

  test("a mail that was tried in vain does not keep an invitation from being sent again", async (world) => {
    const vault = await newVault(world);
    const heir = await invite(vault, "heir");
    await world.sql.query("update app.mail_outbox set attempts = 1 where subject_id = $1", [heir.id]);
    expect(200, await ask(vault, "POST", `/heir/${heir.id}/resend`));
    assert.equal((await mailsAbout(vault)).length, 2);
  });

  test("settings that are already so are no event, and other ones are", async (world) => {
    const { vault } = await newArmedVault(world);
    const before = await look(vault);
    await configure(vault, "dead_man_switch");
    assert.deepEqual(await look(vault), before);
    assert.equal(await countOf(vault, "release.configure"), 1);
    for (let i = 0; i < 2; i++) await configure(vault, "dead_man_switch", { veto_window_hours: 500 });
    assert.equal(await countOf(vault, "release.configure"), 2);
  });

  test("settings that are already so still take back a change that waits", async (world) => {
    const { vault } = await newArmedVault(world, { veto_window_hours: 500 });
    await configure(vault, "dead_man_switch", { veto_window_hours: 400 });
    assert.equal((await look(vault)).pending_changes.length, 1);
    await configure(vault, "dead_man_switch", { veto_window_hours: 500 });
    assert.deepEqual((await look(vault)).pending_changes, []);
    assert.equal(await countOf(vault, "release.configure"), 2);
  });

  test("keys that are already there are no event, and other ones are", async (world) => {
    const vault = await newVault(world);
    const heir = await nameSomebody(vault, "heir");
    const asset = await addAsset(vault);
    const keys = `/asset/${asset}/keys`;
    const wrapped = (key: string) => ({ wrapped_keys: [{ heir_id: heir.id, wrapped_key: key }] });
    for (let i = 0; i < 2; i++) expect(200, await ask(vault, "POST", keys, wrapped("one")));
    assert.equal(await countOf(vault, "asset.wrap"), 1);
    expect(200, await ask(vault, "POST", keys, wrapped("another")));
    assert.equal(await countOf(vault, "asset.wrap"), 2);
  });
});

/** As if the mails about a vault had gone out. */
async function pretendSent({ world, id }: Vault): Promise<void> {
  await world.sql.query("update app.mail_outbox set sent_at = now() where facts ->> 'vault_id' = $1", [id]);
}

async function countOf(vault: Vault, action: string): Promise<number> {
  return (await actionsOf(vault)).filter((each) => each === action).length;
}

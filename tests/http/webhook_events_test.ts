/** What people and agents do is told to the webhooks of the account that it belongs to: each event once, ids only. */

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { eventually } from "../support/eventually.ts";
import { onOneBackend } from "../support/harness.ts";
import { chunk, replicateBody, snapshotBody } from "../support/factories.ts";
import { newPerson } from "../support/people.ts";
import { deliveriesOf, newHook } from "../support/hooks.ts";

const PEM = "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n";

onOneBackend((test) => {
  test("every change is told once, also when its request is repeated", async (world) => {
    const hook = await newHook(world, "http://127.0.0.1:9/");
    const bob = await newPerson(world);
    const [alice, bobs] = [hook.subject, bob.subject];
    const as = async (token: string, method: string, path: string, body?: unknown) => {
      const answer = await world.request(method, path, { token, body });
      assert.ok(answer.status < 300, `${method} ${path}: ${answer.text}`);
      return answer.body;
    };
    await world.platform.db.call("grant_credits", {
      p_subject: alice,
      p_amount_milli: 100_000,
      p_actor: "test",
      p_note: "",
      p_reference: crypto.randomUUID(),
    });
    const key = await as(hook.token, "POST", "/api-keys", { name: "laptop" });
    const snapshot = snapshotBody({}, randomBytes(1_000));
    await as(key.raw_secret, "POST", "/snapshot", snapshot);
    await as(key.raw_secret, "POST", "/snapshot", snapshot);
    const log = replicateBody(chunk(0), chunk(1));
    await as(key.raw_secret, "POST", "/replicate", log);
    await as(key.raw_secret, "POST", "/replicate", log);
    const team = await as(hook.token, "POST", "/teams", {
      name: "t",
      owner_pubkey: PEM,
      owner_wrapped_dek: "dek",
    });
    const grant = { member_id: bobs, member_pubkey: PEM, wrapped_dek: "dek", role: "write" };
    await as(hook.token, "POST", `/teams/${team.id}/grants`, grant);
    await as(hook.token, "POST", `/teams/${team.id}/grants`, { ...grant, role: "read" });
    await as(hook.token, "POST", `/teams/${team.id}/memories`, { ciphertext_b64: btoa("x".repeat(32)) });
    const sub = await as(hook.token, "POST", `/teams/${team.id}/subkeys`, { name: "s" });
    for (let i = 0; i < 2; i++) await as(hook.token, "DELETE", `/teams/${team.id}/subkeys/${sub.id}`);
    const guest = await newPerson(world);
    await as(hook.token, "POST", `/teams/${team.id}/invitations`, { email: guest.email });
    const mail = await eventually("the mail", () => world.mails.find(({ to }) => to === guest.email));
    const [token] = /inv_[\w-]{43}/.exec(mail.text)!;
    for (let i = 0; i < 2; i++) await as(guest.token, "POST", "/invitations/accept", { token });
    await as(hook.token, "POST", `/teams/${team.id}/rotate`, {
      revoke_member_id: bobs,
      // The guest has joined without a key, and is granted one later.
      grants: [{ member_id: alice, wrapped_dek: "dek2" }],
    });
    for (let i = 0; i < 2; i++) await as(hook.token, "DELETE", `/api-keys/${key.id}`);
    await world.sql.query(
      `insert into app.subscriptions (
        account_id, plan, status, quota_sync_ops, quota_storage_bytes, quota_subkeys, quota_devices
      ) values ($1, 'pro', 'active', 1, 1, 1, 1)`,
      [hook.accountId],
    );
    const told = (await deliveriesOf(world, hook.id)).map(({ payload }) => JSON.parse(payload));
    assert.deepEqual(told.map(({ type, data }) => [type, Object.keys(data).sort().join()]), [
      ["api_key.created", "api_key_id"],
      ["credits.low", "credits_milli,threshold_milli"],
      ["snapshot.confirmed", "byte_size,sequence_number,snapshot_id"],
      ["replication.appended", "accepted,bytes,sequence_number"],
      ["team.created", "team_id"],
      ["member.added", "member_id,role,team_id"],
      ["memory.written", "byte_size,memory_id,seq,team_id"],
      ["api_key.created", "api_key_id,team_id"],
      ["api_key.revoked", "api_key_id,team_id"],
      ["invitation.created", "invitation_id,team_id"],
      ["invitation.accepted", "invitation_id,team_id"],
      ["member.added", "member_id,role,team_id"],
      ["member.removed", "member_id,team_id"],
      ["team.rotated", "rewrapped,rotation_seq,team_id"],
      ["api_key.revoked", "api_key_id"],
      ["subscription.updated", "plan,seat_count,status"],
    ]);
  });
});

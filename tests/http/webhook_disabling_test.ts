/** Webhooks that are given up: by their endpoints, by failing for days, by their owners; and what is forgotten. */

import assert from "node:assert/strict";
import { deliverMail } from "../../supabase/functions/_shared/flows/deliver_mail.ts";
import { deliverWebhooks } from "../../supabase/functions/_shared/flows/deliver_webhooks.ts";
import { eventually } from "../support/eventually.ts";
import { onOneBackend, type World } from "../support/harness.ts";
import {
  deliveriesOf,
  emit,
  forgetPending,
  hookRow,
  makeDue,
  newHook,
  SETTINGS,
  startReceiver,
} from "../support/hooks.ts";

const run = (world: World) => deliverWebhooks(world.platform, SETTINGS, 100);

onOneBackend((test) => {
  test("an endpoint that says it is gone is disabled at once, and its owner is mailed", async (world) => {
    await using receiver = startReceiver(() => new Response(null, { status: 410 }));
    const hook = await newHook(world, receiver.url);
    await emit(world, hook.accountId);
    await emit(world, hook.accountId);
    await run(world);
    assert.equal(receiver.received.length, 1);
    assert.deepEqual((await deliveriesOf(world, hook.id)).map(({ status }) => status), [
      "canceled",
      "canceled",
    ]);
    const [shown] = (await world.request("GET", "/webhooks", { token: hook.token })).body;
    assert.deepEqual([shown.state, shown.disabled_reason], ["disabled", "gone"]);
    const { status, body } = await world.request("POST", `/webhooks/${hook.id}/test`, { token: hook.token });
    assert.deepEqual([status, body.error], [409, "webhook_disabled"]);
    await emit(world, hook.accountId);
    assert.equal((await deliveriesOf(world, hook.id)).length, 2, "nothing more is queued");
    const mail = await eventually("the mail", () => world.mails.find(({ to }) => to === hook.email));
    const { host, pathname } = new URL(receiver.url);
    assert.equal(mail.subject, `Your webhook at ${host} was disabled`);
    assert.ok(mail.text.includes("410") && !mail.text.includes(pathname));
  });

  test("an endpoint that fails for five days is disabled, and its owner is mailed once", async (world) => {
    await using receiver = startReceiver(() => new Response(null, { status: 500 }));
    const hook = await newHook(world, receiver.url);
    const failAfter = async (wait: string) => {
      await world.sql.query(
        `update app.webhooks set failing_since = now() - interval '${wait}' where id = $1`,
        [hook.id],
      );
      await emit(world, hook.accountId);
      await makeDue(world, hook.id);
      await run(world);
      return (await hookRow(world, hook.id)).state;
    };
    assert.equal(await failAfter("119 hours"), "active");
    assert.equal(await failAfter("120 hours"), "disabled");
    assert.deepEqual(
      new Set((await deliveriesOf(world, hook.id)).map(({ status }) => status)),
      new Set(["canceled"]),
    );
    await deliverMail(world.platform, SETTINGS, 10);
    const mails = () => world.mails.filter(({ to }) => to === hook.email);
    await eventually("the mail", () => mails().length === 1);
    assert.ok(mails()[0]!.text.includes("five days"));
  });

  test("a success in between ends the five days", async (world) => {
    let status = 200;
    await using receiver = startReceiver(() => new Response(null, { status }));
    const hook = await newHook(world, receiver.url);
    await world.sql.query("update app.webhooks set failing_since = now() - interval '6 days' where id = $1", [
      hook.id,
    ]);
    await emit(world, hook.accountId);
    await run(world);
    status = 500;
    await emit(world, hook.accountId);
    await run(world);
    const row = await hookRow(world, hook.id);
    assert.equal(row.state, "active");
    assert.ok(Date.now() - row.failing_since.getTime() < 60_000);
    await forgetPending(world);
  });

  test("a deleted webhook is sent nothing that waited", async (world) => {
    await using receiver = startReceiver();
    const hook = await newHook(world, receiver.url);
    await emit(world, hook.accountId);
    await world.request("DELETE", `/webhooks/${hook.id}`, { token: hook.token });
    assert.deepEqual(await run(world), { delivered: 0, failed: 0 });
    assert.deepEqual((await deliveriesOf(world, hook.id)).map(({ status }) => status), ["canceled"]);
    assert.equal((await hookRow(world, hook.id)).secret, null, "its secret is forgotten");
    assert.deepEqual(receiver.received, []);
  });

  test("deliveries older than a month are forgotten, those that wait are not", async (world) => {
    await using receiver = startReceiver();
    const hook = await newHook(world, receiver.url);
    for (let i = 0; i < 2; i++) await emit(world, hook.accountId);
    await run(world);
    await world.sql.query(
      "update app.webhook_deliveries set created_at = now() - interval '31 days' where webhook_id = $1",
      [hook.id],
    );
    await emit(world, hook.accountId);
    await run(world);
    assert.equal((await deliveriesOf(world, hook.id)).length, 1);
  });
});

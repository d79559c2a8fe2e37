/** Mail when things go wrong: no outage and no crash loses one, and what nobody takes comes to an end. */

import assert from "node:assert/strict";
import { MailError } from "../../supabase/functions/_shared/domain/mail_error.ts";
import { deliverMail, deliverMailSoon } from "../../supabase/functions/_shared/flows/deliver_mail.ts";
import { eventually } from "../support/eventually.ts";
import { onOneBackend } from "../support/harness.ts";
import { APP, failing, mailsTo, makeDue, NO_APP, queue, queueInvitation, rowOf } from "../support/mail.ts";

onOneBackend((test) => {
  test("a worker that dies between sending and saying so: the same key again, after the lease", async (world) => {
    const mail = await queue(world);
    const invitation = await queueInvitation(world);
    const { db } = world.platform;
    const dying = world.with({
      db: {
        ...db,
        call: (name, args) => name === "finish_mail" ? Promise.reject(new Error()) : db.call(name, args),
      },
    }).platform;
    await deliverMail(dying, APP, 10);
    assert.equal(mailsTo(world, mail).length, 1);
    assert.deepEqual(await deliverMail(world.platform, APP, 10), { sent: 0, failed: 0 }, "the lease holds");
    await makeDue(world);
    assert.deepEqual(await deliverMail(world.platform, APP, 10), { sent: 2, failed: 0 });
    const [first, second] = mailsTo(world, mail);
    assert.deepEqual(second, first, "the provider can tell that it is the same mail");
    const keys = mailsTo(world, invitation).map((each) => each.idempotencyKey);
    assert.deepEqual(keys, [`${invitation.id}-1`, `${invitation.id}-2`], "another token is another mail");
  });

  test("an outage loses no mail, and they go out when it is over", async (world) => {
    const mails = await Promise.all(Array.from({ length: 5 }, () => queue(world)));
    const invitation = await queueInvitation(world);
    const away = failing(world, () => new MailError("mail_unreachable"));
    assert.deepEqual(await deliverMail(away, APP, 10), { sent: 0, failed: 6 });
    const row = await rowOf(world, mails[0]!.id);
    assert.deepEqual([row.last_error, row.attempts, row.lease_expires_at], ["mail_unreachable", 1, null]);
    assert.ok(row.next_attempt_at.getTime() > Date.now() + 60_000);
    assert.deepEqual(await deliverMail(world.platform, APP, 10), { sent: 0, failed: 0 }, "it is too early");
    for (let outage = 0; outage < 3; outage++) {
      await makeDue(world);
      assert.equal((await deliverMail(away, APP, 10)).failed, 6);
    }
    await makeDue(world);
    assert.deepEqual(await deliverMail(world.platform, APP, 10), { sent: 6, failed: 0 });
    for (const mail of [...mails, invitation]) assert.equal(mailsTo(world, mail).length, 1);
  });

  test("one mail that is refused stops no other, and only it is given up", async (world) => {
    const [first, refused, last] = [await queue(world), await queue(world), await queue(world)];
    const picky = failing(
      world,
      (mail) => mail.to === refused.recipient ? new MailError("mail_http_422", true) : undefined,
    );
    assert.deepEqual(await deliverMail(picky, NO_APP, 10), { sent: 2, failed: 1 });
    assert.equal(mailsTo(world, first).length + mailsTo(world, last).length, 2);
    const row = await rowOf(world, refused.id);
    assert.ok(row.given_up_at);
    assert.equal(row.last_error, "mail_http_422");
    assert.equal((await deliverMail(world.platform, NO_APP, 10)).sent, 0);
    assert.deepEqual(mailsTo(world, refused), []);
  });

  test("errors of any kind are kept and logged by code, never by what they say", async (world) => {
    const mail = await queue(world);
    await deliverMail(failing(world, (each) => new Error(`Cannot reach ${each.to}`)), NO_APP, 10);
    assert.equal((await rowOf(world, mail.id)).last_error, "mail_failed");
    const logged = world.logs.filter((record) => record.mail_id === mail.id);
    assert.deepEqual(logged.map(({ event, error }) => [event, error]), [["mail_not_sent", "mail_failed"]]);
    assert.ok(!JSON.stringify(world.logs).includes(mail.recipient));
    await makeDue(world);
    await deliverMail(world.platform, NO_APP, 10);
  });

  test("it ends after about three days of trying", async (world) => {
    const { id } = await queue(world);
    const away = failing(world, () => new MailError("mail_http_503"));
    let waitedMs = 0;
    let attempts = 0;
    for (; (await rowOf(world, id)).given_up_at === null; attempts++) {
      assert.equal((await deliverMail(away, NO_APP, 1)).failed, 1);
      const pauseMs = (await rowOf(world, id)).next_attempt_at.getTime() - Date.now();
      const expectedMs = Math.min(2 ** (attempts + 1), 360) * 60_000;
      assert.ok(pauseMs > expectedMs * 0.74 && pauseMs < expectedMs * 1.26, `${attempts}: ${pauseMs}`);
      waitedMs += expectedMs;
      await makeDue(world);
    }
    assert.equal(attempts, 20);
    assert.ok(waitedMs > 2.5 * 86_400_000 && waitedMs < 3.5 * 86_400_000);
  });

  test("a mail that kills its worker each time is given up as well", async (world) => {
    const { id } = await queue(world);
    await world.sql.query(
      "update app.mail_outbox set attempts = 20, lease_expires_at = now() - interval '1 s' where id = $1",
      [id],
    );
    assert.deepEqual(await deliverMail(world.platform, NO_APP, 10), { sent: 0, failed: 0 });
    const row = await rowOf(world, id);
    assert.equal(row.last_error, "never_finished");
    assert.ok(row.given_up_at);
  });

  test("asked for soon while the database is away, it says so in the log and nowhere else", async (world) => {
    const rows = () => Promise.reject(new Error("secret"));
    const { platform } = world.with({ db: { ...world.platform.db, rows } });
    deliverMailSoon(platform, NO_APP);
    const record = await eventually(
      "it is logged",
      () => world.logs.find((each) => each.event === "mail_not_claimed"),
    );
    assert.equal(record.error, "internal_error");
  });
});

/** The outbox: what stands is told once, to the right person, and what was undone is not told. */

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import type { Mailer } from "../../supabase/functions/_shared/platform/mod.ts";
import { MAIL_KINDS } from "../../supabase/functions/_shared/domain/mail.ts";
import { deliverMail, deliverMailSoon } from "../../supabase/functions/_shared/flows/deliver_mail.ts";
import { readSources } from "../contract/sources.ts";
import { eventually } from "../support/eventually.ts";
import { onEveryBackend, onOneBackend, type World } from "../support/harness.ts";
import {
  APP,
  INVITATION_FACTS,
  mailsTo,
  makeDue,
  NO_APP,
  QUEUE,
  queue,
  queueInvitation,
  rowOf,
  SEAT_FACTS,
} from "../support/mail.ts";

onEveryBackend((test) => {
  test("a queued mail is sent once, to its recipient, under its own key", async (world) => {
    const mail = await queue(world);
    assert.deepEqual(await deliverMail(world.platform, NO_APP, 10), { sent: 1, failed: 0 });
    assert.deepEqual(await deliverMail(world.platform, NO_APP, 10), { sent: 0, failed: 0 });
    const [sent, ...more] = mailsTo(world, mail);
    assert.equal(more.length, 0);
    assert.equal(sent!.idempotencyKey, mail.id);
    assert.match(sent!.subject, /Night shift/);
    const row = await rowOf(world, mail.id);
    assert.ok(row.sent_at instanceof Date);
    assert.deepEqual([row.attempts, row.last_error, row.given_up_at, row.lease_expires_at], [
      1,
      null,
      null,
      null,
    ]);
  });

  test("an invitation's mail carries a token whose hash is stored and which is found nowhere else", async (world) => {
    const invitation = await queueInvitation(world);
    await deliverMail(world.platform, APP, 10);
    const [mail] = mailsTo(world, invitation);
    const token = /inv_[0-9A-Za-z_-]{43}/.exec(mail!.text)![0];
    assert.ok(mail!.text.includes(`https://app.example/invitations/accept#token=${token}\n`));
    assert.match(mail!.text, /2026-12-01 08:00 UTC/);
    assert.equal(mail!.idempotencyKey, `${invitation.id}-1`);
    const { rows } = await world.sql.query("select token_hash from public.invitations where id = $1", [
      invitation.invitationId,
    ]);
    assert.ok(createHash("sha256").update(token).digest().equals(rows[0].token_hash));
    assert.ok(!(await everythingStored(world)).includes(token));
    const logged = JSON.stringify(world.logs);
    for (const secret of [token, token.slice(4), invitation.recipient]) assert.ok(!logged.includes(secret));
  });

  test("an invitation that is no longer open gets no mail", async (world) => {
    const invitation = await queueInvitation(world, INVITATION_FACTS, false);
    assert.deepEqual(await deliverMail(world.platform, APP, 10), { sent: 0, failed: 0 });
    assert.deepEqual(mailsTo(world, invitation), []);
    const row = await rowOf(world, invitation.id);
    assert.deepEqual([row.last_error, row.sent_at], ["no_longer_open", null]);
    assert.ok(row.given_up_at);
  });

  test("finishing twice, or late, changes nothing", async (world) => {
    const { id } = await queue(world);
    const claim = () =>
      world.platform.db.rows<{ id: string; attempt: number }>("claim_mail", {
        p_limit: 10,
        p_lease_seconds: 60,
      }, []);
    const finish = (p_attempt: number, p_error: string | null) =>
      world.platform.db.call("finish_mail", { p_mail_id: id, p_attempt, p_error });
    assert.deepEqual((await claim()).map((each) => [each.id, each.attempt]), [[id, 1]]);
    assert.deepEqual(await claim(), [], "it is leased");

    assert.deepEqual(await finish(1, "mail_timeout"), { state: "waiting" });
    const waiting = await rowOf(world, id);
    assert.deepEqual(await finish(1, "mail_timeout"), { state: "waiting" });
    assert.deepEqual(await rowOf(world, id), waiting);

    await makeDue(world);
    assert.equal((await claim())[0]!.attempt, 2);
    await finish(1, "mail_timeout");
    assert.ok((await rowOf(world, id)).lease_expires_at, "the first attempt cannot end the second's lease");
    assert.deepEqual(await finish(1, null), { state: "sent" }, "what was sent was sent");
    assert.deepEqual(await finish(2, "mail_timeout"), { state: "sent" });
    assert.equal(
      await world.platform.db.call("finish_mail", {
        p_mail_id: crypto.randomUUID(),
        p_attempt: 1,
        p_error: null,
      }),
      null,
    );
  });
});

onOneBackend((test) => {
  test("what was queued in a transaction that is undone is not sent", async (world) => {
    const before = world.mails.length;
    await assert.rejects(
      world.sql.query(`
      do $$ begin
        perform app.queue_mail('seat_added', 'nobody@example.com', null, '{"team_name": "x", "seat_count": 1}');
        perform app.refuse('seat_limit_reached');
      end $$`),
      /seat_limit_reached/,
    );
    assert.deepEqual(await deliverMail(world.platform, NO_APP, 10), { sent: 0, failed: 0 });
    assert.equal(world.mails.length, before);
  });

  test("8 deliverers at once send each of 60 mails once", async (world) => {
    const mails = await Promise.all(Array.from({ length: 60 }, () => queue(world)));
    const reports = await Promise.all(
      Array.from({ length: 8 }, () => deliverMail(world.platform, NO_APP, 100)),
    );
    assert.equal(reports.reduce((sum, { sent }) => sum + sent, 0), 60);
    for (const mail of mails) assert.equal(mailsTo(world, mail).length, 1);
  });

  test("no run sends more than its limit", async (world) => {
    for (let i = 0; i < 5; i++) await queue(world);
    assert.deepEqual(await deliverMail(world.platform, NO_APP, 3), { sent: 3, failed: 0 });
    assert.deepEqual(await deliverMail(world.platform, NO_APP, 3), { sent: 2, failed: 0 });
  });

  test("what is no address is kept as given up, and the change it belongs to stands", async (world) => {
    const wrong = [
      null,
      "",
      "ada",
      "a@b\r\nBcc: c@d",
      "a@b, c@d",
      "Ada <a@b>",
      "a b@c",
      `${"a".repeat(320)}@b`,
    ];
    for (const address of wrong) {
      const { rows } = await world.sql.query(QUEUE, ["seat_added", address, null, "{}"]);
      const row = await rowOf(world, rows[0].id);
      assert.equal(row.last_error, "bad_recipient", String(address));
      assert.ok(row.given_up_at);
    }
    assert.equal((await deliverMail(world.platform, NO_APP, 10)).sent, 0);
    const { rows } = await world.sql.query(QUEUE, [
      "seat_added",
      "ü.o'brien+x@exämple.com",
      null,
      SEAT_FACTS,
    ]);
    assert.equal((await rowOf(world, rows[0].id)).given_up_at, null);
    assert.equal((await deliverMail(world.platform, NO_APP, 10)).sent, 1);
  });

  test("a kind that only newer code knows waits; a fact called token is refused", async (world) => {
    const { id } = await queue(world, {}, "season_greetings");
    assert.deepEqual(await deliverMail(world.platform, NO_APP, 10), { sent: 0, failed: 1 });
    const row = await rowOf(world, id);
    assert.deepEqual([row.last_error, row.given_up_at], ["mail_without_template", null]);
    await assert.rejects(queue(world, { ...INVITATION_FACTS, token: "inv_x" }), /check constraint/);
  });

  test("names that are markup or headers arrive as names", async (world) => {
    const script = await queue(world, { ...SEAT_FACTS, team_name: "<script>alert(1)</script>" });
    const header = await queueInvitation(world, { ...INVITATION_FACTS, team_name: "a\r\nBcc: x@y" });
    await deliverMail(world.platform, NO_APP, 10);
    const [scriptMail, headerMail] = [mailsTo(world, script)[0]!, mailsTo(world, header)[0]!];
    assert.doesNotMatch(scriptMail.html, /<script/);
    assert.match(scriptMail.html, /&lt;script&gt;/);
    assert.equal(headerMail.subject, "Invitation to the team “a Bcc: x@y”");
    assert.equal(headerMail.to, header.recipient);
  });

  test("asked for soon, it runs at most once at a time and misses nothing", async (world) => {
    let [now, most] = [0, 0];
    const gate = Promise.withResolvers<void>();
    const mailer: Mailer = {
      async send(mail) {
        most = Math.max(most, ++now);
        await gate.promise;
        now--;
        await world.platform.mailer.send(mail);
      },
    };
    const { platform } = world.with({ mailer });
    const mails = [await queue(world), await queue(world)];
    for (let i = 0; i < 10; i++) deliverMailSoon(platform, NO_APP);
    await eventually("the first is being sent", () => now === 1);
    mails.push(await queue(world));
    deliverMailSoon(platform, NO_APP);
    gate.resolve();
    await eventually("all are sent", () => mails.every((mail) => mailsTo(world, mail).length === 1));
    assert.equal(most, 1);
    const later = await queue(world);
    await eventually("it can be asked again", () => {
      deliverMailSoon(platform, NO_APP);
      return mailsTo(world, later).length === 1;
    });
  });
});

Deno.test("every kind of mail that a migration queues has a template", () => {
  const queued = readSources("supabase/migrations", ".sql").flatMap(({ text }) =>
    Array.from(text.matchAll(/\b(?:queue_mail|tell_owner)\s*\(([^;]*)/g)).flatMap(([, rest]) =>
      Array.from(rest!.matchAll(/'([a-z]+_(?:invitation|added|reached))'/g), (match) => match[1]!)
    )
  );
  for (const kind of queued) assert.ok(MAIL_KINDS.includes(kind), kind);
});

/** All that the tables hold, as text. */
async function everythingStored(world: World): Promise<string> {
  const { rows: tables } = await world.sql.query(`
    select format('%I.%I', schemaname, tablename) as name from pg_tables where schemaname in ('app', 'public')`);
  assert.ok(tables.some(({ name }) => name === "app.mail_outbox"));
  const texts = await Promise.all(tables.map(async ({ name }) => {
    const { rows } = await world.sql.query(
      `select coalesce(string_agg(t::text, ' '), '') as text from ${name} t`,
    );
    return rows[0].text as string;
  }));
  return texts.join("\n");
}

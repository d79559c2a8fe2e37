/** POST /lifecycle/dispatch: people are told in time, once, and of nothing that is old news. Spec 4.8. */

import assert from "node:assert/strict";
import type { Mail } from "../../supabase/functions/_shared/platform/mod.ts";
import { newKeyOf, snapshotBody } from "../support/factories.ts";
import { onEveryBackend, onOneBackend, type World } from "../support/harness.ts";
import { callJob, MAIL_SETTINGS, mailsDueTo, runJob, withJobs, worldWithJobs } from "../support/jobs.ts";
import { makeDue } from "../support/mail.ts";
import { accountIdOf, newPerson, type Person } from "../support/people.ts";
import { accept, invitationFor, newMember, newTeam, subscribe, tokenFor } from "../support/teams.ts";

const DISPATCH = "/lifecycle/dispatch";
const DOLLAR = 100_000;

onEveryBackend((test) => {
  test("only whoever has the cron secret may dispatch", async (world) => {
    const answer = await withJobs(world).request("POST", DISPATCH, { token: "not-the-secret", body: {} });
    assert.deepEqual([answer.status, answer.body.error], [401, "invalid_cron_secret"]);
  });

  test("a newcomer is welcomed once, and may refuse to hear more", async (plain) => {
    const world = worldWithJobs(plain);
    const person = await newAccount(world);
    const [mail, ...more] = await mailsDueTo(world, person.email);
    assert.deepEqual(more, []);
    assert.match(mail!.subject, /Welcome/);
    const url = /^<(.+)>$/.exec(mail!.headers!["List-Unsubscribe"]!)![1]!;
    assert.ok(url.startsWith(`${MAIL_SETTINGS.apiUrl}/marketing/unsubscribe?token=`));
    assert.equal(mail!.headers!["List-Unsubscribe-Post"], "List-Unsubscribe=One-Click");
    assert.ok(mail!.text.includes(new URL(url).searchParams.get("token")!));
    assert.equal((await mailsDueTo(world, person.email)).length, 1);
  });

  test("a dispatch also drains the outbox, and says what it did", async (plain) => {
    const world = worldWithJobs(plain);
    const person = await newAccount(world);
    await world.sql.query(
      `select app.queue_mail('seat_added', $1, null, '{"team_name": "x", "seat_count": 6}')`,
      [person.email],
    );
    const report = await runJob(world, DISPATCH);
    assert.ok(report.queued >= 1 && report.sent >= 2, JSON.stringify(report));
    assert.deepEqual(Object.keys(report).sort(), ["failed", "queued", "sent"]);
    assert.deepEqual(subjects(world, person), ["A seat was added to the team “x”", "Welcome to Agent State"]);
  });

  test("an account's first snapshot is noted once, not that of each agent", async (plain) => {
    const world = worldWithJobs(plain);
    const person = await newAccount(world);
    const { token } = await newKeyOf(world, person.accountId);
    await addCredit(world, person, 10 * DOLLAR);
    await mailsDueTo(world, person.email);
    for (const agent_id of ["one", "two"]) {
      const { status } = await world.request("POST", "/snapshot", {
        token,
        body: snapshotBody({ agent_id }),
      });
      assert.equal(status, 200);
      await mailsDueTo(world, person.email);
    }
    assert.deepEqual(subjects(world, person), ["Welcome to Agent State", "Your first snapshot is stored"]);
  });

  test("credit that runs low, and out, is told once for each time that credit was added", async (plain) => {
    const world = worldWithJobs(plain);
    const person = await newAccount(world);
    const heard = async () => (await mailsDueTo(world, person.email)).slice(1).map(({ subject }) => subject);
    const [low, out] = ["Your credit is running low", "Your credit is used up"];
    await mailsDueTo(world, person.email);
    await addCredit(world, person, 2 * DOLLAR);
    assert.deepEqual(await heard(), []);
    await spend(world, person, DOLLAR + 6_579);
    assert.deepEqual(await heard(), [low]);
    assert.match(world.mails.findLast(({ to }) => to === person.email)!.text, /\$0\.93 of credit/);
    await spend(world, person, 90_000);
    assert.deepEqual(await heard(), [low, out]);
    await addCredit(world, person, 2 * DOLLAR);
    assert.deepEqual(await heard(), [low, out]);
    await spend(world, person, 2 * DOLLAR);
    assert.deepEqual(await heard(), [low, out, out], "what was skipped is not told after the worse");
    await addCredit(world, person, 500);
    await spend(world, person, 100);
    assert.deepEqual(await heard(), [low, out, out], "who never had more has not run low");
  });

  test("a team whose seats are all taken: its owner hears of it, and what the next one means", async (plain) => {
    const world = worldWithJobs(plain);
    const [small, large] = [await newTeam(world), await newTeam(world)];
    await subscribe(world, large.owner, "growth", { seats: 2 });
    await newMember(world, small);
    await mailsDueTo(world, small.owner.email);
    assert.deepEqual(subjects(world, small.owner), ["Welcome to Agent State"], "a seat is free");
    await newMember(world, small);
    await newMember(world, large);
    for (const { owner } of [small, large]) await mailsDueTo(world, owner.email);
    const full = (person: Person) =>
      world.mails.filter(({ to, subject }) => to === person.email && /All seats/.test(subject));
    assert.match(full(small.owner)[0]!.text, /has 3 seats[^]*will be refused/);
    assert.match(full(large.owner)[0]!.text, /has 2 seats[^]*adds a seat to your subscription/);
    assert.deepEqual([full(small.owner).length, full(large.owner).length], [1, 1]);
  });

  test("a canceled subscription is told with the day that it is paid for", async (plain) => {
    const world = worldWithJobs(plain);
    const person = await newAccount(world);
    await subscribe(world, person, "pro");
    await mailsDueTo(world, person.email);
    assert.equal(subjects(world, person).length, 1);
    await world.sql.query(
      `update app.subscriptions set status = 'canceled', updated_at = now(), current_period_start = now(),
              current_period_end = '2999-12-31T12:00:00Z' where account_id = $1`,
      [person.accountId],
    );
    const mails = await mailsDueTo(world, person.email);
    assert.match(mails.at(-1)!.text, /plan “pro” was canceled; it is paid for until 2999-12-31\./);
    assert.equal(mails.at(-1)!.headers, undefined, "an account needs to know this");
    assert.equal((await mailsDueTo(world, person.email)).length, 2);
  });

  test("an invitation that waits is remembered once, with a token that works", async (plain) => {
    const world = worldWithJobs(plain);
    const [team, guest] = [await newTeam(world), await newPerson(world)];
    const first = await invitationFor(world, team, guest.email);
    await mailsDueTo(world, guest.email);
    assert.equal(subjects(world, guest).length, 1, "it is too early");
    await age(world, guest);
    await mailsDueTo(world, guest.email);
    const token = await tokenFor(world, guest.email, 2);
    assert.notEqual(token, first);
    assert.equal((await accept(world, first, guest)).status, 404);
    assert.equal((await accept(world, token, guest)).status, 200);
    assert.equal(
      (await mailsDueTo(world, guest.email)).filter(({ subject }) => /still open/.test(subject)).length,
      1,
    );
  });

  test("an expiring certificate is told to each admin a month and a week before", async (plain) => {
    const world = worldWithJobs(plain);
    const team = await newTeam(world);
    const [admin, reader] = [await newMember(world, team, "admin"), await newMember(world, team, "read")];
    // Somebody who was only named has no address yet.
    for (const member of [admin, reader]) await accountIdOf(world, member);
    await configureSso(world, team.id);
    const heard = async (person: Person) =>
      (await mailsDueTo(world, person.email)).filter(({ subject }) => /certificate/.test(subject)).length;
    for (const [days, times] of [[40, 0], [29, 1], [29, 1], [6, 2], [6, 2], [-1, 2]] as const) {
      await world.sql.query(
        `update app.sso_configs
            set certificate_expires_at = date_trunc('day', now()) + make_interval(days => $2, hours => 23)
          where team_id = $1`,
        [team.id, days],
      );
      assert.deepEqual([await heard(team.owner), await heard(admin)], [times, times], `${days} days`);
    }
    assert.equal(await heard(reader), 0);
  });
});

onOneBackend((test) => {
  test("old news is not told", async (plain) => {
    const world = worldWithJobs(plain);
    const person = await newAccount(world);
    await world.sql.query("update app.accounts set created_at = now() - interval '8 days' where id = $1", [
      person.accountId,
    ]);
    await addCredit(world, person, DOLLAR);
    const { token } = await newKeyOf(world, person.accountId);
    await world.request("POST", "/snapshot", { token, body: snapshotBody() });
    await world.sql.query(
      "update app.snapshots set confirmed_at = now() - interval '8 days' where account_id = $1",
      [person.accountId],
    );
    await spend(world, person, 100 - 3);
    assert.deepEqual((await mailsDueTo(world, person.email)).map(({ subject }) => subject), [
      "Your credit is running low",
    ]);
  });

  test("whoever refused mail is still told what their account needs", async (plain) => {
    const world = worldWithJobs(plain);
    const person = await newAccount(world);
    await addCredit(world, person, 2 * DOLLAR);
    const [welcome] = await mailsDueTo(world, person.email);
    await world.request(
      "POST",
      new URL(unsubscribeUrlOf(welcome!)).pathname.replace(/^.*v2-agent-state/, "") +
        new URL(unsubscribeUrlOf(welcome!)).search,
      { body: "List-Unsubscribe=One-Click" },
    );
    const { token } = await newKeyOf(world, person.accountId);
    await world.request("POST", "/snapshot", { token, body: snapshotBody() });
    await spend(world, person, 1.5 * DOLLAR);
    assert.deepEqual((await mailsDueTo(world, person.email)).map(({ subject }) => subject), [
      "Welcome to Agent State",
      "Your credit is running low",
    ]);
  });

  test("8 dispatches at once owe and send each of 40 newcomers one mail", async (plain) => {
    const world = worldWithJobs(plain);
    const people = await Promise.all(Array.from({ length: 40 }, () => newAccount(world)));
    const reports = await Promise.all(Array.from({ length: 8 }, () => runJob(world, DISPATCH)));
    assert.equal(reports.reduce((sum, { queued }) => sum + queued, 0), 40);
    assert.equal(reports.reduce((sum, { sent }) => sum + sent, 0), 40);
    for (const person of people) assert.equal(subjects(world, person).length, 1);
  });

  test("a sweep that dies before it commits has told nobody; the next one does", async (plain) => {
    const world = worldWithJobs(plain);
    const person = await newAccount(world);
    await world.sql.query("begin; select api.owe_lifecycle_mails(100); rollback");
    assert.equal((await mailsDueTo(world, person.email)).length, 1);
  });

  test("a worker that dies between sending and saying so: the same mail under the same key", async (plain) => {
    const world = worldWithJobs(plain);
    const [team, guest] = [await newTeam(world), await newPerson(world)];
    await invitationFor(world, team, guest.email);
    await age(world, guest);
    const { db } = world.platform;
    const dying = withJobs(world, {
      db: {
        ...db,
        call: (name, args) => name === "finish_mail" ? Promise.reject(new Error()) : db.call(name, args),
      },
    });
    await runJob(dying, DISPATCH);
    await makeDue(world);
    const sent = (await mailsDueTo(world, guest.email)).slice(1);
    assert.equal(sent.length, 2);
    assert.deepEqual(sent[1], sent[0], "the provider delivers one of them");
    const ours = await mailsDueTo(world, team.owner.email);
    assert.equal(new Set(ours.map(({ idempotencyKey }) => idempotencyKey)).size, 1);
  });

  test("a mail that may be refused waits until it can say how", async (world) => {
    const person = await newAccount(world);
    const unset = withJobs(world, { settings: { apiUrl: undefined, linkSecrets: [] } });
    await runJob(unset, DISPATCH);
    const { rows } = await world.sql.query(
      "select last_error, given_up_at from app.mail_outbox where recipient = $1",
      [
        person.email,
      ],
    );
    assert.deepEqual(rows, [{ last_error: "mail_without_api_url", given_up_at: null }]);
    await makeDue(world);
    assert.equal((await mailsDueTo(worldWithJobs(world), person.email)).length, 1);
  });

  test("a database that is away is 503, and nothing was owed", async (world) => {
    const { db } = world.platform;
    const { ApiError } = await import("../../supabase/functions/_shared/errors.ts");
    const away = withJobs(world, {
      db: { ...db, call: () => Promise.reject(new ApiError("service_unavailable")) },
    });
    const answer = await callJob(away, DISPATCH);
    assert.deepEqual([answer.status, answer.body.error], [503, "service_unavailable"]);
  });
});

interface Holder extends Person {
  accountId: string;
}

async function newAccount(world: World): Promise<Holder> {
  const person = await newPerson(world);
  return { ...person, accountId: await accountIdOf(world, person) };
}

function subjects(world: World, { email }: Person): string[] {
  return world.mails.filter(({ to }) => to === email).map(({ subject }) => subject);
}

function unsubscribeUrlOf(mail: Mail): string {
  return /^<(.+)>$/.exec(mail.headers!["List-Unsubscribe"]!)![1]!;
}

async function addCredit(world: World, { subject }: Person, milli: number): Promise<void> {
  await world.platform.db.call("grant_credits", {
    p_subject: subject,
    p_amount_milli: milli,
    p_actor: "test",
    p_note: "credit",
    p_reference: crypto.randomUUID(),
  });
}

/** Charges an account as a write of that price would. */
async function spend(world: World, { accountId }: Holder, milli: number): Promise<void> {
  await world.sql.query(
    `with spent as (update app.accounts set credits_milli = credits_milli - $2::bigint where id = $1)
     insert into app.credit_ledger (account_id, kind, amount_milli, bytes)
     values ($1, 'replication', -$2::bigint, $2::bigint * 1000 / 45)`,
    [accountId, milli],
  );
}

/** Lets three days and more pass for the invitation of somebody. */
async function age(world: World, { email }: Person): Promise<void> {
  await world.sql.query(
    `update app.team_invitations set created_at = now() - interval '73 hours'
      where email = $1 and token_hash is not null`,
    [email],
  );
}

/** A team whose people sign in through a provider; in a database without single sign-on, what the sweep reads of it. */
async function configureSso(world: World, teamId: string): Promise<void> {
  await world.sql.query(`
    create table if not exists app.sso_configs (
      team_id uuid primary key, enabled boolean, certificate_expires_at timestamptz,
      metadata_xml text, entity_id text, sso_url text, sso_binding text)`);
  await world.sql.query(
    `insert into app.sso_configs (
       team_id, enabled, metadata_xml, entity_id, sso_url, sso_binding, certificate_expires_at)
     values ($1, true, '<x/>', $2, 'https://idp.example', 'redirect', now() + interval '1 year')`,
    [teamId, `urn:${teamId}`],
  );
}

/** Seats: one for each member and open invitation, never oversold, and added where the plan adds them. Spec 4.5 and 8. */

import assert from "node:assert/strict";
import { ApiError } from "../../supabase/functions/_shared/errors.ts";
import { eventually } from "../support/eventually.ts";
import { type Answer, onEveryBackend, onOneBackend, type World } from "../support/harness.ts";
import { newPerson, type Person } from "../support/people.ts";
import {
  accept,
  actionsOf,
  assertRefused,
  grant,
  invitationFor,
  invite,
  newMember,
  newTeam,
  remove,
  type Role,
  send,
  type Service,
  subscribe,
  type Team,
} from "../support/teams.ts";

const FREE_SEATS = 3;
const AT_ONCE = 16;

onEveryBackend((test) => {
  test("a free team has three seats; one more is 403 seat_limit_reached, and the owner is told once a day", async (world) => {
    const team = await newTeam(world);
    await newMember(world, team);
    assert.equal((await inviteSomebody(world, team)).status, 201);
    for (let i = 0; i < 3; i++) {
      for (const refused of [await inviteSomebody(world, team), await grantSomebody(world, team)]) {
        assertRefused(refused, 403, "seat_limit_reached");
        const { error: _, request_id: __, ...details } = refused.body;
        assert.deepEqual(details, { seats: FREE_SEATS, seats_taken: FREE_SEATS });
      }
    }
    assert.deepEqual(await actionsOf(world, team), ["team.create", "member.add", "invitation.create"]);
    const told = () => mailsAbout(world, team.owner, /No seat is free/);
    await eventually("the owner is told", () => told().length === 1);

    await world.sql.query(
      "update app.mail_outbox set created_at = now() - interval '25 hours' where recipient = $1",
      [
        team.owner.email,
      ],
    );
    await Promise.all([1, 2, 3].map(() => inviteSomebody(world, team)));
    await eventually("the owner is told again", () => told().length === 2);
    assert.equal(await mailsOwedTo(world, team.owner), 2);
  });

  test("a seat is free again when an invitation expires and when a member goes, and accepting takes no other", async (world) => {
    const team = await newTeam(world);
    const [member, guest] = [await newMember(world, team), await newPerson(world)];
    const token = await invitationFor(world, team, guest.email);
    assert.equal((await accept(world, token, guest)).status, 200);
    assertRefused(await inviteSomebody(world, team), 403, "seat_limit_reached");
    assert.equal((await grant(world, team, guest)).status, 201, "a member needs no other seat");

    await remove(world, team, member, [team.owner, guest]);
    const { email } = await newPerson(world);
    assert.equal((await invite(world, team, email)).status, 201);
    assertRefused(await grant(world, team, member), 403, "seat_limit_reached");
    await world.sql.query("update app.team_invitations set expires_at = now() where email = $1", [email]);
    assert.equal((await grant(world, team, member)).status, 201);
    assertRefused(await invite(world, team, email), 403, "seat_limit_reached");
  });

  test("on a plan that scales a seat is added for each one beyond, and the owner is told each time", async (world) => {
    for (
      const [plan, seats, at] of [["growth", 3, 3], ["pro", undefined, 5], ["enterprise", 1, 1]] as const
    ) {
      const team = await newTeam(world);
      await subscribe(world, team.owner, plan, { seats });
      for (let taken = 1; taken < at + 3; taken++) {
        const answer = await (taken % 2 === 0 ? inviteSomebody : grantSomebody)(world, team);
        assert.equal(answer.status, 201, answer.text);
        const beyond = Math.max(taken + 1, at);
        assert.equal(await seatsOf(world, team.owner) ?? at, beyond, `${plan} with ${taken + 1}`);
      }
      assert.equal(await includedSeatsOf(world, team.owner), at);
      await eventually("the owner is told", () => {
        return mailsAbout(world, team.owner, /A seat was added/).length === 3;
      });
    }
  });

  test("a plan without scaling, and one that has ended, refuse as a free one does", async (world) => {
    for (const [plan, canceled] of [["hobby", false], ["free", false], ["growth", true]] as const) {
      const team = await newTeam(world);
      await subscribe(world, team.owner, plan, { seats: FREE_SEATS });
      if (canceled) {
        await world.sql.query(`update app.subscriptions set status = 'canceled' where ${OWNED}`, [
          team.owner.subject,
        ]);
      }
      for (let taken = 1; taken < FREE_SEATS; taken++) await inviteSomebody(world, team);
      assertRefused(await inviteSomebody(world, team), 403, "seat_limit_reached");
    }
  });

  test("the payment provider is told the subscription and how many seats there are to be, before they are", async (world) => {
    const { team, subscription } = await newPaidTeam(world, 2);
    const told: [string, number, number][] = [];
    const service = world.with({
      seats: {
        async change(id, seats) {
          told.push([id, seats, (await seatsOf(world, team.owner))!]);
        },
      },
    });
    for (let i = 0; i < 3; i++) {
      const answer =
        await (i === 1 ? grantSomebody(world, team, service) : inviteSomebody(world, team, service));
      assert.equal(answer.status, 201, answer.text);
    }
    assert.deepEqual(told, [[subscription, 3, 2], [subscription, 4, 3]]);
    assert.equal(await seatsOf(world, team.owner), 4);
  });

  test("when the payment provider refuses, or there is none, nothing has changed", async (world) => {
    const { team } = await newPaidTeam(world, 1);
    const before = await stateOf(world, team);
    const refusing = world.with({
      seats: { change: () => Promise.reject(new ApiError("service_unavailable")) },
    });
    for (
      const [service, code] of [[refusing, "service_unavailable"], [world, "billing_not_configured"]] as const
    ) {
      assertRefused(await inviteSomebody(world, team, service), 503, code);
      assertRefused(await grantSomebody(world, team, service), 503, code);
    }
    assert.deepEqual(await stateOf(world, team), before);
    assert.equal(await mailsOwedTo(world, team.owner), 0);
  });
});

onOneBackend((test) => {
  test("16 invitations and grants at once on a free team take its free seats and no more", async (world) => {
    for (let round = 0; round < 3; round++) {
      const team = await newTeam(world);
      const answers = await Promise.all(Array.from({ length: AT_ONCE }, (_, i) => {
        return i % 2 === 0 ? inviteSomebody(world, team) : grantSomebody(world, team);
      }));
      assert.equal(answers.filter(({ status }) => status === 201).length, FREE_SEATS - 1);
      for (const refused of answers.filter(({ status }) => status !== 201)) {
        assertRefused(refused, 403, "seat_limit_reached");
      }
      assert.equal(await seatsTakenIn(world, team), FREE_SEATS);
      assert.equal(await mailsOwedTo(world, team.owner), 1);
    }
  });

  test("16 invitations of one address at once leave one, with one seat", async (world) => {
    const team = await newTeam(world);
    const { email } = await newPerson(world);
    const answers = await Promise.all(Array.from({ length: AT_ONCE }, () => invite(world, team, email)));
    assert.deepEqual(answers.map(({ status }) => status), Array(AT_ONCE).fill(201));
    assert.equal(await seatsTakenIn(world, team), 2);
  });

  test("16 invitations and grants at once on a plan that scales all succeed, with exactly their seats", async (world) => {
    for (const polar of [false, true]) {
      const { team } = await newPaidTeam(world, FREE_SEATS, polar);
      const told: number[] = [];
      const service = world.with({
        seats: {
          async change(_, seats) {
            // As slow as a provider: others come in between.
            await world.sql.query("select pg_sleep(0.01)");
            told.push(seats);
          },
        },
      });
      const answers = await Promise.all(Array.from({ length: AT_ONCE }, (_, i) => {
        return (i % 2 === 0 ? inviteSomebody : grantSomebody)(world, team, service);
      }));
      for (const answer of answers) assert.equal(answer.status, 201, answer.text);
      const taken = await seatsTakenIn(world, team);
      assert.equal(taken, AT_ONCE + 1);
      assert.equal(await seatsOf(world, team.owner), taken);
      assert.equal(told.length === 0 ? undefined : Math.max(...told), polar ? taken : undefined);
    }
  });

  test("teams of one owner who need seats at once end with seats for the largest", async (world) => {
    const { team } = await newPaidTeam(world, 2, false);
    const teams = [team, await newTeam(world, team.owner), await newTeam(world, team.owner)];
    const answers = await Promise.all(
      Array.from({ length: 12 }, (_, i) => inviteSomebody(world, teams[i % 3]!)),
    );
    for (const answer of answers) assert.equal(answer.status, 201, answer.text);
    assert.equal(await seatsOf(world, team.owner), 5);
  });
});

const OWNED = "account_id = (select id from app.accounts where subject = $1)";

async function newPaidTeam(
  world: World,
  seats: number,
  polar = true,
): Promise<{ team: Team; subscription: string }> {
  const team = await newTeam(world);
  const subscription = crypto.randomUUID();
  await subscribe(world, team.owner, "growth", {
    seats,
    ...(polar ? { polarSubscriptionId: subscription } : {}),
  });
  return { team, subscription };
}

async function inviteSomebody(world: World, team: Team, service: Service = world): Promise<Answer> {
  return await invite(service, team, (await newPerson(world)).email);
}

async function grantSomebody(world: World, team: Team, service: Service = world): Promise<Answer> {
  const role: Role = "read";
  return await grant(service, team, await newPerson(world), { role });
}

async function seatsOf(world: World, owner: Person): Promise<number | undefined> {
  const { body } = await send(world, owner, "GET", "/billing/subscription");
  return body.subscription.seat_count;
}

async function includedSeatsOf(world: World, owner: Person): Promise<number | undefined> {
  const { body } = await send(world, owner, "GET", "/billing/subscription");
  return body.subscription.included_seats;
}

async function seatsTakenIn(world: World, { id }: Team): Promise<number> {
  return (await world.sql.query("select app.count_seats($1) as taken", [id])).rows[0].taken;
}

function mailsAbout(world: World, { email }: Person, subject: RegExp) {
  return world.mails.filter((mail) => mail.to === email && subject.test(mail.subject));
}

/** Mails to somebody, sent or not. */
async function mailsOwedTo(world: World, { email }: Person): Promise<number> {
  const query = "select count(*)::int from app.mail_outbox where recipient = $1";
  return (await world.sql.query(query, [email])).rows[0].count;
}

/** What an invitation or a grant would change. */
async function stateOf(world: World, team: Team) {
  const { rows } = await world.sql.query(
    `select (select jsonb_agg(to_jsonb(s)) from app.subscriptions s where s.account_id = t.account_id) as subscription,
            (select count(*) from app.team_members where team_id = t.id) as members,
            (select count(*) from app.team_invitations where team_id = t.id) as invitations,
            to_jsonb(t) as team
       from app.teams t where t.id = $1`,
    [team.id],
  );
  return rows[0];
}

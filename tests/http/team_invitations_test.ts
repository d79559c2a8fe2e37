/** Invitations: by mail, for one address, once; and every way in which a token is not good looks the same. Spec 4.5. */

import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { deliverMail } from "../../supabase/functions/_shared/flows/deliver_mail.ts";
import { sha256Hex } from "../support/factories.ts";
import { type Answer, onEveryBackend, onOneBackend, type World } from "../support/harness.ts";
import { newPerson } from "../support/people.ts";
import {
  accept,
  actionsOf,
  assertRefused,
  invitationFor,
  invite,
  newAddress,
  newMember,
  newTeam,
  remove,
  send,
  subscribe,
  type Team,
  tokenFor,
  write,
} from "../support/teams.ts";

const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;
const TRIES_MAX = 30;
const NO_ADDRESSES = [
  "",
  "x",
  "@example.com",
  "a@",
  "a b@example.com",
  "a@b@example.com",
  "a\0@example.com",
  7,
  null,
];

onEveryBackend((test) => {
  test("POST /teams/:id/invitations answers 201 with the invitation, good for 7 days, and never the token", async (world) => {
    const team = await newTeam(world);
    for (const role of [undefined, "read", "admin"]) {
      const { email } = await newPerson(world);
      const { status, body, text } = await invite(world, team, email, { role });
      assert.equal(status, 201);
      const { invitation_id, expires_at } = body;
      assert.match(invitation_id, /^[0-9a-f-]{36}$/);
      assert.ok(Math.abs(Date.parse(expires_at) - Date.now() - 7 * DAY_MS) < 60_000);
      assert.deepEqual(body, { invitation_id, team_id: team.id, email, role: role ?? "read", expires_at });
      const token = await tokenFor(world, email);
      assert.ok(!text.includes(token) && Buffer.from(token.slice(4), "base64url").length === 32);
      await world.sql.query("delete from app.team_invitations where id = $1", [invitation_id]);
    }
  });

  test("an address that is none, and a role that is none, are named, and nothing happens", async (world) => {
    const team = await newTeam(world);
    const post = (path: string, body: unknown) =>
      send(world, team.owner, "POST", `/teams/${team.id}/${path}`, body);
    for (const [path, field] of [["invitations", "email"], ["guardians/invite", "guardian_email"]] as const) {
      assertRefused(await post(path, {}), 400, `missing_field:${field}`);
      for (const address of [...NO_ADDRESSES, `${"a".repeat(320)}@example.com`]) {
        assertRefused(await post(path, { [field]: address }), 400, `invalid_field:${field}`);
      }
    }
    for (const role of ["owner", "", 7, null]) {
      assertRefused(await post("invitations", { email: "a@example.com", role }), 400, "invalid_field:role");
    }
    for (const token of ["", "a\0b", "t".repeat(257), 7, null]) {
      assertRefused(await accept(world, token, team.owner), 400, "invalid_field:token");
    }
    assertRefused(await accept(world, undefined, team.owner), 400, "missing_field:token");
    assert.deepEqual(await actionsOf(world, team), ["team.create"]);
  });

  test("a token without a session says what the invitation is, and changes nothing", async (world) => {
    const team = await newTeam(world);
    const guest = await newPerson(world);
    const token = await invitationFor(world, team, guest.email, { role: "write" });
    for (const _ of [1, 2]) {
      const { status, body } = await accept(world, token);
      const { invitation_id, expires_at } = body;
      assert.deepEqual([status, body], [200, {
        invitation_id,
        type: "member",
        team_name: "Night shift",
        role: "write",
        expires_at,
        accepted: false,
      }]);
    }
    assert.deepEqual(await actionsOf(world, team), ["team.create", "invitation.create"]);
  });

  test("with a session of the invited address, in whatever case, one joins in the role, without a grant", async (world) => {
    const team = await newTeam(world);
    const guest = await newPerson(world);
    const token = await invitationFor(world, team, guest.email.toUpperCase(), { role: "write" });
    const first = await accept(world, token, guest);
    const { invitation_id } = first.body;
    assert.deepEqual([first.status, first.body], [200, {
      invitation_id,
      type: "member",
      team_id: team.id,
      team_name: "Night shift",
      role: "write",
      accepted: true,
    }]);
    const { body } = await send(world, guest, "GET", `/teams/${team.id}/members`);
    const { created_at: _, ...member } = body.members[1];
    assert.deepEqual(member, { member_id: guest.subject, role: "write", status: "active", has_grant: false });
    assertRefused(await write(world, team, guest), 403, "no_grant");

    // Accepting again, many times at once too, is the same answer and no second entry.
    const again = await Promise.all(Array.from({ length: 6 }, () => accept(world, token, guest)));
    for (const answer of again) assert.deepEqual([answer.status, answer.body], [200, first.body]);
    const actions = ["team.create", "invitation.create", "invitation.accept"];
    assert.deepEqual(await actionsOf(world, team), actions);
  });

  test("a token that is unknown, used, expired, replaced, or another's is refused in the very same way", async (world) => {
    const team = await newTeam(world);
    const [used, expired, replaced] = [
      await newPerson(world),
      await newPerson(world),
      await newPerson(world),
    ];
    const [stranger, nameless] = [await newPerson(world), await newPerson(world, { email: undefined })];
    await makeRoom(world, team);
    const tokens = {
      unknown: `inv_${"A".repeat(43)}`,
      used: await invitationFor(world, team, used.email),
      expired: await invitationFor(world, team, expired.email),
      replaced: await invitationFor(world, team, replaced.email),
      open: await invitationFor(world, team, "somebody@example.com"),
    };
    assert.equal((await accept(world, tokens.used, used)).status, 200);
    await expire(world, expired.email);
    const fresh = await invitationFor(world, team, replaced.email);
    const before = await actionsOf(world, team);

    const refusals: Answer[] = [
      ...await Promise.all([tokens.unknown, tokens.used, tokens.expired, tokens.replaced].flatMap((token) => [
        accept(world, token),
        accept(world, token, stranger),
      ])),
      await accept(world, tokens.expired, expired),
      await accept(world, tokens.replaced, replaced),
      await accept(world, tokens.open, stranger),
      await accept(world, tokens.open, nameless),
      await accept(world, "x", stranger),
    ];
    const shapes = new Set(refusals.map(({ status, body, headers }) => {
      const { request_id: _, ...rest } = body;
      return JSON.stringify([status, rest, [...headers.keys()].sort()]);
    }));
    assert.equal(shapes.size, 1, [...shapes].join("\n"));
    assertRefused(refusals[0]!, 404, "invitation_not_found");
    assert.deepEqual(await actionsOf(world, team), before);
    assert.equal((await accept(world, fresh, replaced)).status, 200);
  });

  test("inviting an address again replaces its token and takes no second seat", async (world) => {
    const team = await newTeam(world);
    const [guest, other] = [await newPerson(world), await newPerson(world)];
    await invitationFor(world, team, other.email);
    const first = await invitationFor(world, team, guest.email, { role: "write" });
    const second = await invitationFor(world, team, guest.email.toUpperCase(), { role: "admin" });
    assertRefused(await accept(world, first, guest), 404, "invitation_not_found");
    assert.equal((await accept(world, second, guest)).body.role, "admin");
  });

  test("a guardian takes no seat, becomes no member, and accepts like anybody else", async (world) => {
    const team = await newTeam(world);
    for (let i = 0; i < 4; i++) {
      const guardian = await newPerson(world);
      const path = `/teams/${team.id}/guardians/invite`;
      const invited = await send(world, team.owner, "POST", path, { guardian_email: guardian.email });
      const { invitation_id, expires_at } = invited.body;
      assert.deepEqual([invited.status, invited.body], [201, {
        invitation_id,
        guardian_email: guardian.email,
        type: "guardian",
        expires_at,
      }]);
      const token = await tokenFor(world, guardian.email);
      assert.deepEqual((await accept(world, token)).body, {
        invitation_id,
        type: "guardian",
        team_name: "Night shift",
        role: null,
        expires_at,
        accepted: false,
      });
      const accepted = await accept(world, token, guardian);
      assert.deepEqual([accepted.status, accepted.body.type, accepted.body.accepted], [
        200,
        "guardian",
        true,
      ]);
      assertRefused(
        await send(world, guardian, "GET", `/teams/${team.id}/members`),
        403,
        "not_a_team_member",
      );
      assert.deepEqual((await send(world, guardian, "GET", "/teams")).body.teams, []);
    }
  });

  test("a token is in its mail and nowhere else: not in the database, not in the log", async (world) => {
    const team = await newTeam(world);
    const guest = await newPerson(world);
    const token = await invitationFor(world, team, guest.email);
    const open = await everythingStored(world);
    await accept(world, token);
    await accept(world, token, guest);
    const stored = open + await everythingStored(world);
    assert.ok(stored.includes(sha256Hex(token)), "its hash is stored");
    for (const secret of [token, token.slice(4), Buffer.from(token).toString("hex")]) {
      assert.ok(!stored.includes(secret) && !JSON.stringify(world.logs).includes(secret));
    }
    assert.ok(!JSON.stringify(world.logs).includes(guest.email));
    const audit = await send(world, team.owner, "GET", `/teams/${team.id}/audit`);
    assert.ok(!audit.text.includes(guest.email), "the ledger is kept for ever and names no address");
  });
});

onOneBackend((test) => {
  test("of people with one address who race for one token, one joins; the others are told nothing", async (world) => {
    for (let round = 0; round < 10; round++) {
      const team = await newTeam(world);
      const email = `${crypto.randomUUID()}@example.com`;
      const rivals = await Promise.all(Array.from({ length: 6 }, () => newPerson(world, { email })));
      for (const rival of rivals) await send(world, rival, "GET", "/teams");
      const token = await invitationFor(world, team, email);
      const answers = await Promise.all(rivals.map((rival) => accept(world, token, rival)));
      assert.deepEqual(answers.map(({ status }) => status).sort(), [200, ...Array(5).fill(404)]);
      assert.equal((await actionsOf(world, team)).length, 3);
    }
  });

  test("a newcomer who accepts many times at once joins once, and each answer says so", async (world) => {
    for (let round = 0; round < 10; round++) {
      const team = await newTeam(world);
      const guest = await newPerson(world);
      const token = await invitationFor(world, team, guest.email);
      const answers = await Promise.all(Array.from({ length: 4 }, () => accept(world, token, guest)));
      for (const answer of answers) assert.deepEqual([answer.status, answer.body], [200, answers[0]!.body]);
      assert.equal((await actionsOf(world, team)).length, 3);
    }
  });

  test("whoever was removed comes back by a new invitation only, and then without a grant", async (world) => {
    const team = await newTeam(world);
    const guest = await newPerson(world);
    const token = await invitationFor(world, team, guest.email, { role: "admin" });
    await accept(world, token, guest);
    await remove(world, team, guest, [team.owner]);
    await accept(world, token, guest);
    assertRefused(await send(world, guest, "GET", `/teams/${team.id}/members`), 403, "not_a_team_member");
    await accept(world, await invitationFor(world, team, guest.email), guest);
    const { body } = await send(world, guest, "GET", `/teams/${team.id}/members`);
    const [, { role, has_grant }] = body.members;
    assert.deepEqual([role, has_grant], ["read", false]);
  });

  test("an invitation does not change the role of somebody who is a member already", async (world) => {
    const team = await newTeam(world);
    const member = await newMember(world, team, "read");
    const token = await invitationFor(world, team, member.email, { role: "admin" });
    assert.equal((await accept(world, token, member)).status, 200);
    assert.equal((await send(world, member, "GET", "/teams")).body.teams[0].role, "read");
  });

  test("guessing is limited for each caller, signed in or not, whatever they guess; others go on", async (world) => {
    const team = await newTeam(world);
    const [guesser, guest] = [await newPerson(world), await newPerson(world)];
    const token = await invitationFor(world, team, guest.email);
    const address = newAddress();
    for (const caller of [{ token: guesser.token }, { headers: address }]) {
      const hour = Math.floor(Date.now() / HOUR_MS);
      const { tries, answer } = await guessUntilLimited(world, caller);
      const seconds = Number(answer.headers.get("retry-after"));
      assert.ok(Number.isInteger(seconds) && seconds > 0 && seconds <= 3600);
      assert.equal(answer.body.retry_after_seconds, seconds);
      // Windows begin with the clock's hour: an hour that ended meanwhile gave as many tries again.
      if (Math.floor(Date.now() / HOUR_MS) === hour) {
        assert.equal(tries, TRIES_MAX);
        const good = await world.request("POST", "/invitations/accept", { body: { token }, ...caller });
        assertRefused(good, 429, "rate_limited");
      }
    }
    assert.equal((await accept(world, token)).status, 200);
    assert.equal((await accept(world, token, guest)).status, 200);
  });

  test("an invitation that was used before its mail went out again sends nothing", async (world) => {
    const team = await newTeam(world);
    const { email } = await newPerson(world);
    const sent = () => world.mails.filter(({ to }) => to === email).length;
    await invitationFor(world, team, email);
    await expire(world, email);
    await world.sql.query("update app.mail_outbox set sent_at = null where recipient = $1", [email]);
    await deliverMail(world.platform, { appUrl: undefined }, 100);
    assert.equal(sent(), 1);
  });
});

/** Lets a team have as many people as a test likes. */
async function makeRoom(world: World, { owner }: Team): Promise<void> {
  await subscribe(world, owner, "growth", { seats: 100 });
}

/** Lets seven days pass for the invitations of an address. */
async function expire(world: World, email: string): Promise<void> {
  await world.sql.query("update app.team_invitations set expires_at = now() where email = $1", [email]);
}

async function guessUntilLimited(world: World, caller: { token?: string; headers?: Record<string, string> }) {
  for (let tries = 0; tries <= 2 * TRIES_MAX; tries++) {
    const body = { token: `inv_${crypto.randomUUID()}` };
    const answer = await world.request("POST", "/invitations/accept", { body, ...caller });
    if (answer.status === 429) return { tries, answer };
    assertRefused(answer, 404, "invitation_not_found");
  }
  throw new Error("Guessing is not limited");
}

/** Every row of every table, as text. */
async function everythingStored(world: World): Promise<string> {
  const tables = await world.sql.query("select tablename from pg_tables where schemaname = 'app'");
  let text = "";
  for (const { tablename } of tables.rows) {
    const { rows } = await world.sql.query(`select to_jsonb(t)::text as row from app.${tablename} t`);
    text += rows.map(({ row }) => row).join("\n");
  }
  return text;
}

/** Operations of teams. */

import assert from "node:assert/strict";
import { sha256 } from "../../../supabase/functions/_shared/domain/bytes.ts";
import type { World } from "../harness.ts";
import { accountIdOf, newPerson, type Person } from "../people.ts";
import {
  grantBody,
  invite,
  memoryBody,
  newMember,
  newSubkey,
  newTeam,
  type Role,
  rotateBody,
  type Team,
  teamBody,
  withoutMail,
  write,
} from "../teams.ts";
import { counter } from "./counting.ts";
import type { Operation, Prepared } from "./mod.ts";

interface Holder extends Pick<Prepared, "canaries" | "owned" | "team" | "person"> {
  team: Team;
  person: Person;
}

/** A team with a memory, and what nobody outside may see of it. */
async function newHolder(world: World): Promise<Holder> {
  const team = await newTeam(world);
  const memory = memoryBody();
  const written = await write(world, team, team.owner, memory);
  assert.equal(written.status, 201, written.text);
  const accountId = await accountIdOf(world, team.owner);
  return {
    team,
    person: team.owner,
    canaries: [team.id, accountId, written.body.id, memory.ciphertext_b64 as string, team.owner.subject],
    owned: [team.id, accountId],
  };
}

function reading(path: string, role: Role = "read"): Operation {
  return {
    route: `GET /teams/:id/${path}`,
    name: "read",
    opens: "session",
    role,
    status: 200,
    async prepare(world) {
      const holder = await newHolder(world);
      return { ...holder, path: `/teams/${holder.team.id}/${path}`, options: { token: holder.person.token } };
    },
  };
}

/** A change of a team: its path, its body, and the query that counts it by the team's id and other values. */
interface Change {
  path: string;
  body?: unknown;
  sql: string;
  values?: unknown[];
}

function changing(
  row: Pick<Operation, "route" | "name" | "status" | "effect" | "again"> & { role: Role },
  change: (world: World, team: Team) => Promise<Change>,
): Operation {
  return {
    opens: "session",
    ...row,
    async prepare(world) {
      const holder = await newHolder(world);
      const { path, body, sql, values = [] } = await change(world, holder.team);
      return {
        ...holder,
        path: `/teams/${holder.team.id}/${path}`,
        options: { token: holder.person.token, ...(body === undefined ? {} : { body }) },
        count: counter(world, sql, [holder.team.id, ...values]),
      };
    },
  };
}

async function prepareAcceptance(world: World): Promise<Prepared> {
  const { team, canaries, owned } = await newHolder(world);
  const guest = await newPerson(world);
  const invited = await invite(world.with({ db: withoutMail(world.platform.db) }), team, guest.email);
  assert.equal(invited.status, 201, invited.text);
  const { invitation_id } = invited.body;
  // No mail goes out, so that nothing but this makes a token for it.
  const giveUp = "update app.mail_outbox set given_up_at = now() where subject_id = $1 and sent_at is null";
  await world.sql.query(giveUp, [invitation_id]);
  const token = `inv_${crypto.randomUUID()}`;
  await world.sql.query("select api.mint_invitation_token($1, $2)", [invitation_id, sha256(token)]);
  return {
    path: "/invitations/accept",
    options: { token: guest.token, body: { token } },
    canaries,
    owned,
    person: guest,
    count: counter(
      world,
      `select count(*) as n from app.team_members m join app.accounts a on a.id = m.account_id
        where m.team_id = $1 and a.subject = $2`,
      [team.id, guest.subject],
    ),
  };
}

export const TEAM_OPERATIONS: Operation[] = [
  {
    route: "POST /teams",
    name: "make a team",
    opens: "session",
    status: 201,
    effect: "each",
    async prepare(world) {
      const person = await newPerson(world);
      const accountId = await accountIdOf(world, person);
      return {
        path: "/teams",
        options: { token: person.token, body: teamBody() },
        canaries: [accountId, person.subject],
        owned: [accountId],
        person,
        count: counter(world, "select count(*) as n from app.teams where account_id = $1", [accountId]),
      };
    },
  },
  {
    route: "GET /teams",
    name: "read",
    opens: "session",
    status: 200,
    async prepare(world) {
      const { team: _team, ...holder } = await newHolder(world);
      return { ...holder, path: "/teams", options: { token: holder.person.token } };
    },
  },
  ...["grant", "members", "memories", "sync-log", "audit", "audit/verify"].map((path) => reading(path)),
  reading("audit/export", "admin"),
  changing({
    route: "POST /teams/:id/grants",
    name: "add a member",
    role: "admin",
    status: 201,
    effect: "once",
  }, async (world) => {
    const guest = await newPerson(world);
    await accountIdOf(world, guest);
    return {
      path: "grants",
      body: grantBody(guest),
      sql: `select count(*) as n from app.team_grants g join app.accounts a on a.id = g.account_id
             where g.team_id = $1 and a.subject = $2`,
      values: [guest.subject],
    };
  }),
  changing({
    route: "POST /teams/:id/rotate",
    name: "remove a member and rotate",
    role: "admin",
    status: 200,
    effect: "once",
    // Who removed a member and is not told so finds out that the epoch is another one.
    again: [409],
  }, async (world, team) => {
    const leaving = await newMember(world, team);
    return {
      path: "rotate",
      body: rotateBody([team.owner], { revoke_member_id: leaving.subject, rotation_seq: 0 }),
      sql: "select rotation_seq as n from app.teams where id = $1",
    };
  }),
  changing({
    route: "POST /teams/:id/rotate",
    name: "rotate",
    role: "admin",
    status: 200,
    effect: "each",
  }, async (_world, team) => ({
    path: "rotate",
    body: rotateBody([team.owner]),
    sql: "select rotation_seq as n from app.teams where id = $1",
  })),
  changing({
    route: "POST /teams/:id/memories",
    name: "write a memory",
    role: "write",
    status: 201,
    effect: "each",
  }, async () => ({
    path: "memories",
    body: memoryBody(),
    sql: "select memory_seq as n from app.teams where id = $1",
  })),
  changing({
    route: "POST /teams/:id/subkeys",
    name: "make a sub-key",
    role: "write",
    status: 201,
    effect: "each",
  }, async () => ({
    path: "subkeys",
    body: { name: "agent" },
    sql: "select count(*) as n from app.api_keys where team_id = $1",
  })),
  changing({
    route: "DELETE /teams/:id/subkeys/:key_id",
    name: "revoke a sub-key",
    role: "write",
    status: 200,
    effect: "once",
  }, async (world, team) => ({
    path: `subkeys/${(await newSubkey(world, team, team.owner)).id}`,
    sql: "select count(*) as n from app.api_keys where team_id = $1 and revoked_at is not null",
  })),
  changing({
    route: "POST /teams/:id/invitations",
    name: "invite a member",
    role: "admin",
    status: 201,
    effect: "once",
  }, async (world) => ({
    path: "invitations",
    body: { email: (await newPerson(world)).email, role: "read" },
    sql: "select count(*) as n from app.team_invitations where team_id = $1 and kind = 'member'",
  })),
  changing({
    route: "POST /teams/:id/guardians/invite",
    name: "invite a guardian",
    role: "admin",
    status: 201,
    effect: "once",
  }, async (world) => ({
    path: "guardians/invite",
    body: { guardian_email: (await newPerson(world)).email },
    sql: "select count(*) as n from app.team_invitations where team_id = $1 and kind = 'guardian'",
  })),
  {
    route: "POST /invitations/accept",
    name: "accept an invitation",
    opens: "anyone",
    status: 200,
    effect: "once",
    prepare: prepareAcceptance,
  },
];

/** Who may do what in a team: one table of every route and every kind of caller, and one runner. Spec 4.5 and 5. */

import assert from "node:assert/strict";
import { readSettings } from "../../supabase/functions/_shared/env.ts";
import { createApp } from "../../supabase/functions/v2-agent-state/app.ts";
import { type Answer, onOneBackend, type World } from "../support/harness.ts";
import { newPerson, type Person } from "../support/people.ts";
import {
  grantBody,
  invitationFor,
  memoryBody,
  newGuest,
  newMember,
  newSubkey,
  newTeam,
  remove,
  rotateBody,
  send,
  subscribe,
  type Team,
  teamBody,
} from "../support/teams.ts";

/** The callers. A guest has accepted an invitation (to write) and holds no grant; somebody invited has not accepted. */
const PRINCIPALS = ["admin", "write", "read", "guest", "invited", "revoked", "stranger", "foreign"] as const;
type Principal = (typeof PRINCIPALS)[number];

/** A team with one of each. */
interface Cast {
  team: Team;
  people: Record<Principal, Person>;
  /** A sub-key of the admin. */
  subkeyId: string;
}

/** What a call is answered with: a status, or the code of a refusal. */
type Outcome = number | "forbidden_role" | "no_grant" | "not_a_team_member";

interface Row {
  route: string;
  /** What is special about this call of the route. */
  variant?: string;
  path?: (cast: Cast) => string;
  body?: (cast: Cast, by: Person) => unknown;
  /** For members in the order admin, write, read, guest. */
  members: [Outcome, Outcome, Outcome, Outcome];
  /** For everybody else: `not_a_team_member` unless it says otherwise. */
  others?: Partial<Record<Principal, Outcome>>;
}

const EVERYBODY = { invited: 200, revoked: 200, stranger: 200, foreign: 200 };
const CREATES = { invited: 201, revoked: 201, stranger: 201, foreign: 201 };
const ADMIN_ONLY: Outcome[] = ["forbidden_role", "forbidden_role", "forbidden_role"];

const TABLE: Row[] = [
  { route: "POST /teams", body: () => teamBody(), members: [201, 201, 201, 201], others: CREATES },
  { route: "GET /teams", members: [200, 200, 200, 200], others: EVERYBODY },
  {
    route: "POST /teams/:id/grants",
    body: ({ people }) => grantBody(people.stranger),
    members: adminOnly(201),
  },
  {
    route: "POST /teams/:id/grants",
    variant: "to oneself, as admin",
    body: (_, by) => grantBody(by, { role: "admin" }),
    members: adminOnly(201),
  },
  { route: "GET /teams/:id/grant", members: [200, 200, 200, "no_grant"], others: { revoked: "no_grant" } },
  {
    route: "POST /teams/:id/rotate",
    body: ({ people }) => rotateBody([people.admin, people.write, people.read]),
    members: adminOnly(200),
  },
  {
    route: "POST /teams/:id/rotate",
    variant: "that removes somebody",
    body: ({ people }) => rotateBody([people.admin, people.write], { revoke_member_id: people.read.subject }),
    members: adminOnly(200),
  },
  {
    route: "POST /teams/:id/memories",
    body: () => memoryBody(),
    members: [201, 201, "forbidden_role", "no_grant"],
  },
  { route: "GET /teams/:id/memories", members: [200, 200, 200, 200] },
  {
    route: "POST /teams/:id/subkeys",
    body: () => ({ name: "agent" }),
    members: [201, 201, "forbidden_role", "no_grant"],
  },
  {
    route: "POST /teams/:id/subkeys",
    variant: "for somebody else",
    body: ({ people }, by) => ({
      name: "agent",
      bound_member_id: (by === people.read ? people.write : people.read).subject,
    }),
    members: adminOnly(201),
  },
  {
    route: "DELETE /teams/:id/subkeys/:key_id",
    path: ({ team, subkeyId }) => `/teams/${team.id}/subkeys/${subkeyId}`,
    members: adminOnly(200),
  },
  { route: "GET /teams/:id/sync-log", members: [200, 200, 200, 200] },
  { route: "GET /teams/:id/members", members: [200, 200, 200, 200] },
  {
    route: "POST /teams/:id/invitations",
    body: () => ({ email: "guest@example.com", role: "admin" }),
    members: adminOnly(201),
  },
  {
    route: "POST /teams/:id/guardians/invite",
    body: () => ({ guardian_email: "guardian@example.com" }),
    members: adminOnly(201),
  },
  { route: "GET /teams/:id/audit", members: [200, 200, 200, 200] },
  { route: "GET /teams/:id/audit/verify", members: [200, 200, 200, 200] },
  { route: "GET /teams/:id/audit/export", members: adminOnly(200) },
];

/** Everything that a refused call must leave as it was. */
const TABLES = [
  "team_members",
  "team_grants",
  "team_memories",
  "team_sync_log",
  "team_invitations",
  "teams",
  "audit_entries",
  "api_keys",
  "owners",
  "accounts",
  "subscriptions",
  "credit_ledger",
];

const NO_TEAMS = ["not-a-team", "0", "%00", "..%2f..", "a".repeat(300)];

function adminOnly(status: number): Row["members"] {
  return [status, ...ADMIN_ONLY] as Row["members"];
}

Deno.test("the table has a row for every route of teams, and no other", () => {
  const unused = new Proxy({}, { get: () => unused }) as World["platform"];
  const mounted = createApp(unused, readSettings({})).routes
    .filter(({ method, path }) => method !== "ALL" && path.startsWith("/teams"))
    .map(({ method, path }) => `${method} ${path}`);
  assert.ok(mounted.length > 0);
  assert.deepEqual([...new Set(TABLE.map(({ route }) => route))].sort(), [...new Set(mounted)].sort());
});

onOneBackend((test) => {
  for (const row of TABLE) {
    const { route, variant } = row;
    test(`${route}${variant === undefined ? "" : ` ${variant}`}: who may, and who may not`, async (world) => {
      const cast = await newCast(world);
      const expected = outcomesOf(row);
      const refused = PRINCIPALS.filter((principal) => typeof expected[principal] === "string");
      const before = await stateOf(world);
      for (const principal of refused) {
        const answer = await call(world, row, cast, cast.people[principal]);
        assertSilent(answer, expected[principal] as string, cast, cast.people[principal]);
      }
      assert.deepEqual(await stateOf(world), before);
      for (const principal of PRINCIPALS.filter((each) => !refused.includes(each))) {
        const answer = await call(world, row, cast, cast.people[principal]);
        assert.equal(answer.status, expected[principal], `${principal}: ${answer.text}`);
      }
    });
  }

  test("a team that does not exist, or is no id at all, is like a foreign one on every route", async (world) => {
    const cast = await newCast(world);
    const before = await stateOf(world);
    for (const row of TABLE.filter(({ route }) => route.includes(":id"))) {
      const foreign = await call(world, row, cast, cast.people.foreign);
      for (const id of [crypto.randomUUID(), ...NO_TEAMS]) {
        const nowhere = { ...cast, team: { ...cast.team, id } };
        const answer = await call(world, row, nowhere, cast.people.admin);
        assertSilent(answer, "not_a_team_member", cast, cast.people.admin);
        const [{ request_id: _, ...body }, { request_id: __, ...expected }] = [answer.body, foreign.body];
        assert.deepEqual([answer.status, body], [foreign.status, expected], `${row.route} ${id}`);
      }
    }
    assert.deepEqual(await stateOf(world), before);
  });

  test("the id of a team may be written in either case", async (world) => {
    const team = await newTeam(world);
    const answer = await send(world, team.owner, "GET", `/teams/${team.id.toUpperCase()}/members`);
    assert.deepEqual([answer.status, answer.body.team_id], [200, team.id]);
  });
});

async function newCast(world: World): Promise<Cast> {
  const team = await newTeam(world);
  await subscribe(world, team.owner, "growth");
  const people = {
    admin: team.owner,
    write: await newMember(world, team, "write"),
    read: await newMember(world, team, "read"),
    guest: await newGuest(world, team, "write"),
    invited: await newPerson(world),
    revoked: await newMember(world, team, "admin"),
    stranger: await newPerson(world),
    foreign: (await newTeam(world)).owner,
  };
  await invitationFor(world, team, people.invited.email, { role: "admin" });
  await remove(world, team, people.revoked, [people.admin, people.write, people.read]);
  return { team, people, subkeyId: (await newSubkey(world, team, team.owner)).id };
}

function outcomesOf({ members, others = {} }: Row): Record<Principal, Outcome> {
  return Object.fromEntries(
    PRINCIPALS.map((principal, i) => [principal, members[i] ?? others[principal] ?? "not_a_team_member"]),
  ) as Record<Principal, Outcome>;
}

function call(world: World, { route, path, body }: Row, cast: Cast, by: Person): Promise<Answer> {
  const [method, pattern] = route.split(" ") as [string, string];
  const target = path?.(cast) ?? pattern.replace(":id", cast.team.id);
  return send(world, by, method, target, body?.(cast, by));
}

/** A refusal says its code and, where the caller is a member, their own role; and nothing about anybody else. */
function assertSilent(answer: Answer, code: string, cast: Cast, caller: Person): void {
  const { status, body, text } = answer;
  assert.deepEqual([status, body.error], [403, code], text);
  const allowed = ["error", "request_id"];
  if (code === "forbidden_role") allowed.push("role", "required_role");
  if (code === "no_grant") allowed.push("member_id");
  for (const field of Object.keys(body)) assert.ok(allowed.includes(field), `${field} in ${text}`);
  const others = Object.values(cast.people).filter((person) => person !== caller);
  const secrets = [cast.team.id, cast.subkeyId, ...others.flatMap(({ subject, email }) => [subject, email])];
  for (const secret of secrets) assert.ok(!text.includes(secret), text);
}

/** A digest of each table. */
async function stateOf(world: World): Promise<Record<string, string>> {
  const digests = TABLES.map((table) =>
    `(select md5(string_agg(to_jsonb(t)::text, '|' order by to_jsonb(t)::text)) from app.${table} t) as ${table}`
  );
  return (await world.sql.query(`select ${digests.join(", ")}`)).rows[0];
}

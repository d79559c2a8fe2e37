/** Teams against a model: random programs, some of their steps at once, and what must hold whatever happened. */

import assert from "node:assert/strict";
import fc from "npm:fast-check@4.10.2";
import { sha256 } from "../../supabase/functions/_shared/domain/bytes.ts";
import { openClaim, THOROUGH } from "../support/claims.ts";
import { type Answer, onOneBackend, type World } from "../support/harness.ts";
import {
  type Action,
  apply,
  holdersAfter,
  type NamedEpoch,
  newModel,
  type TeamModel,
  type Who,
} from "../support/team_model.ts";
import { checkModel } from "../support/model_runner.ts";
import { newPerson, type Person } from "../support/people.ts";
import {
  accept,
  grantBody,
  memoryBody,
  newTeam,
  type Role,
  rotateBody,
  send,
  type Service,
  subscribe,
  type Team,
  withoutMail,
} from "../support/teams.ts";

const RUNS = THOROUGH ? 200 : 80;
const STEPS_MAX = 30;
const AT_ONCE_MAX = 8;
const PEOPLE = 6;
const FREE_SEATS = 3;

const who = fc.nat(PEOPLE - 1);
/** Mostly somebody who may. */
const actor = fc.oneof({ weight: 3, arbitrary: fc.constant<Who>(0) }, { weight: 2, arbitrary: who });
const role = fc.constantFrom<Role>("admin", "write", "read");
const epoch = fc.constantFrom<NamedEpoch>("running", "none", "running", "none", "wrong");
const action: fc.Arbitrary<Action> = fc.oneof(
  fc.record({ kind: fc.constant("grant" as const), by: actor, member: who, role, epoch }),
  fc.record({
    kind: fc.constant("rotate" as const),
    by: actor,
    revoke: fc.oneof(fc.constant(null), who),
    wraps: fc.constantFrom(
      "all" as const,
      "all" as const,
      "all" as const,
      "too few" as const,
      "a stranger" as const,
    ),
    epoch,
  }),
  fc.record({ kind: fc.constant("write" as const), by: actor, epoch }),
  fc.record({ kind: fc.constant("subkey" as const), by: actor }),
  fc.record({ kind: fc.constant("invite" as const), by: actor, guest: who, role }),
  fc.tuple(who, fc.oneof({ weight: 3, arbitrary: fc.constant(null) }, { weight: 1, arbitrary: who })).map(
    ([guest, by]): Action => ({ kind: "accept", guest, by: by ?? guest }),
  ),
);

const held = openClaim("A team stays what its model says, whatever people do in it");

/** A team in the service, and those who meet in it. */
interface Real {
  world: World;
  service: Service;
  team: Team;
  people: Person[];
}

onOneBackend((test) => {
  test("whatever people do in a team, one after another and at once, it stays what it must be", async (world) => {
    let changes = 0;
    for (const scales of [false, true]) {
      const actions = await checkModel({
        action,
        setUp: async () => ({ model: newModel(scales, FREE_SEATS), real: await setUp(world, scales) }),
        perform,
        apply,
        inspect,
        merge,
        async assertKept(real: Real, model: TeamModel) {
          await assertInvariants(real, model);
          changes += model.changes + model.memories;
        },
      }, { runs: RUNS / 2, stepsMax: STEPS_MAX, atOnceMax: AT_ONCE_MAX });
      assert.ok(actions > RUNS);
    }
    assert.ok(changes > RUNS * 3, `only ${changes} changes: the programs do too little`);
    held(changes);
  });
});

function inspect(_real: Real, model: TeamModel, only: Action, { status, body }: Answer): void {
  if (only.kind !== "write" || status !== 201) return;
  assert.deepEqual([body.seq, body.rotation_seq], [model.memories - 1, model.epoch]);
}

async function merge(
  real: Real,
  model: TeamModel,
  done: { action: Action; answer: Answer }[],
): Promise<void> {
  for (const { action, answer } of done) if (answer.status < 300) countSuccess(model, action);
  await readAnew(model, real);
}

async function setUp(world: World, scales: boolean): Promise<Real> {
  const people = await Promise.all(Array.from({ length: PEOPLE }, () => newPerson(world)));
  // Everybody has signed in once, so that it is known whose address is whose.
  for (const person of people) await send(world, person, "GET", "/teams");
  const team = await newTeam(world, people[0]!);
  for (const person of scales ? people : []) {
    // Whoever owns the team later has the same plan.
    await subscribe(world, person, "growth", { seats: FREE_SEATS });
  }
  return { world, service: world.with({ db: withoutMail(world.platform.db) }), team, people };
}

/** Sends the request of an action, by what its author believes of the team. */
async function perform(
  { world, service, team, people }: Real,
  model: TeamModel,
  does: Action,
): Promise<Answer> {
  const by = people[does.by]!;
  const post = (path: string, body: unknown) => send(service, by, "POST", `/teams/${team.id}/${path}`, body);
  switch (does.kind) {
    case "grant": {
      const over = { role: does.role, ...nameEpoch(model, does.epoch) };
      return await post("grants", grantBody(people[does.member]!, over));
    }
    case "rotate": {
      const stay = holdersAfter(model, does.revoke).map((each) => people[each]!);
      if (does.wraps === "too few") stay.pop();
      if (does.wraps === "a stranger") stay.push(await newPerson(world));
      const revoke = does.revoke === null ? {} : { revoke_member_id: people[does.revoke]!.subject };
      return await post("rotate", rotateBody(stay, { ...revoke, ...nameEpoch(model, does.epoch) }));
    }
    case "write":
      return await post("memories", memoryBody(nameEpoch(model, does.epoch)));
    case "subkey":
      return await post("subkeys", { name: "agent" });
    case "invite":
      return await post("invitations", { email: people[does.guest]!.email, role: does.role });
    case "accept":
      return await accept(service, await mintToken(world, team, people[does.guest]!), by);
  }
}

function nameEpoch({ epoch }: TeamModel, named: NamedEpoch): { rotation_seq?: number } {
  if (named === "none") return {};
  return { rotation_seq: named === "running" ? epoch : epoch + 100 };
}

/** The token of somebody's open invitation; one that nothing knows when there is none. */
async function mintToken(world: World, team: Team, guest: Person): Promise<string> {
  const token = `inv_${crypto.randomUUID()}`;
  await world.sql.query(
    `select api.mint_invitation_token(id, $3) from app.team_invitations
      where team_id = $1 and email = $2 and accepted_at is null`,
    [team.id, guest.email, sha256(token)],
  );
  return token;
}

/** Adds up what succeeded among actions at once. */
function countSuccess(model: TeamModel, { kind, ...does }: Action): void {
  if (kind === "write") model.memories++;
  else model.changes++;
  if (kind === "rotate") {
    model.epoch++;
    if ("revoke" in does && does.revoke !== null) model.changes++;
  }
}

/** Takes members and invitations from the database, as nobody knows who was first. */
async function readAnew(model: TeamModel, { world, team, people }: Real): Promise<void> {
  const numberOf = new Map(people.flatMap(({ subject, email }, i) => [[subject, i], [email, i]]));
  const members = await world.sql.query(
    `select a.subject, m.role, g.account_id is not null as has_grant
       from app.team_members m join app.accounts a on a.id = m.account_id
       left join app.team_grants g on g.team_id = m.team_id and g.account_id = m.account_id
      where m.team_id = $1 and m.status = 'active'`,
    [team.id],
  );
  model.members = new Map(
    members.rows.map((
      { subject, role, has_grant },
    ) => [numberOf.get(subject)!, { role, hasGrant: has_grant }]),
  );
  const invitations = await world.sql.query(
    "select email, role from app.team_invitations where team_id = $1 and accepted_at is null",
    [team.id],
  );
  model.invitations = new Map(invitations.rows.map(({ email, role }) => [numberOf.get(email)!, role]));
}

const INVARIANTS = `
  select t.rotation_seq, t.audit_seq::int + 1 as entries, t.memory_seq::int + 1 as memories,
         (select count(*)::int from app.audit_entries where team_id = t.id) as entries_kept,
         (select count(*)::int from app.team_grants g
           where g.team_id = t.id and (g.rotation_seq <> t.rotation_seq or not exists (
             select from app.team_members m
              where m.team_id = g.team_id and m.account_id = g.account_id and m.status = 'active'))) as wrong_grants,
         (select count(*)::int from app.api_keys k
           where k.team_id = t.id and k.revoked_at is null and not exists (
             select from app.team_members m
              where m.team_id = k.team_id and m.account_id = k.account_id and m.status = 'active')) as stray_keys,
         (select count(*)::int from app.team_members m
           where m.team_id = t.id and m.role = 'admin' and m.status = 'active') as admins,
         exists (select from app.team_members m
           where m.team_id = t.id and m.account_id = t.account_id and m.status = 'active') as owner_is_member,
         app.count_seats(t.id) as seats_taken,
         (select max(s.seat_count) from app.subscriptions s
            join app.team_members m on m.account_id = s.account_id and m.team_id = t.id) as seats_paid,
         (select jsonb_agg(jsonb_build_array(n.seq, n.rotation_seq) order by n.seq)
            from app.team_memories n where n.team_id = t.id) as stamped,
         (select jsonb_agg((e.metadata -> 'rotation_seq')::int order by e.seq) from app.audit_entries e
           where e.team_id = t.id and e.action = 'team.rotate') as epochs
    from app.teams t where t.id = $1`;

async function assertInvariants({ world, service, team, people }: Real, model: TeamModel): Promise<void> {
  const { rows: [found] } = await world.sql.query(INVARIANTS, [team.id]);
  assert.equal(found.rotation_seq, model.epoch, "epochs move by one for each rotation that succeeded");
  const counted = Array.from({ length: model.epoch }, (_, i) => i + 1);
  assert.deepEqual(found.epochs ?? [], counted, "the ledger has each epoch once, in order");
  assert.deepEqual(
    [found.entries, found.entries_kept],
    [model.changes, model.changes],
    "one entry for each change",
  );
  assert.equal(found.wrong_grants, 0, "grants are of active members and the running epoch");
  assert.equal(found.stray_keys, 0, "sub-keys are of active members");
  assert.ok(found.admins >= 1 && found.owner_is_member);
  if (!model.scales) assert.ok(found.seats_taken <= FREE_SEATS, `${found.seats_taken} seats on a free plan`);
  else assert.ok(found.seats_taken <= Math.max(found.seats_paid, FREE_SEATS));

  const stamped: [number, number][] = found.stamped ?? [];
  assert.deepEqual([found.memories, stamped.length], [model.memories, model.memories]);
  assert.deepEqual(stamped.map(([seq]) => seq), stamped.map((_, i) => i), "memories are dense");
  const epochs = stamped.map(([, rotation]) => rotation);
  assert.deepEqual(epochs, epochs.toSorted((a, b) => a - b), "epochs of memories never go back");
  assert.ok(epochs.every((each) => each <= model.epoch));

  const [member] = [...model.members.keys()];
  const { body } = await send(service, people[member!]!, "GET", `/teams/${team.id}/audit/verify`);
  assert.deepEqual([body.valid, body.checked], [true, model.changes]);
  const kept: TeamModel = structuredClone(model);
  await readAnew(kept, { world, service, team, people });
  assert.deepEqual([kept.members, kept.invitations], [model.members, model.invitations]);
}

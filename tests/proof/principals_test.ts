/**
 * Every operation × everybody who may not: nobody gets a 2xx on what is another's, no answer holds anything of another's,
 * and nothing of another's is changed. Generated from the rows of the operations, of which every mounted route has one.
 */

import assert from "node:assert/strict";
import { findCode } from "../../supabase/functions/_shared/errors.ts";
import { openClaim } from "../support/claims.ts";
import { type Answer, onOneBackend, type World } from "../support/harness.ts";
import { type Operation, OPERATIONS, type Prepared, sendTo } from "../support/operations/mod.ts";
import { type Principal, principalsAgainst } from "../support/principals.ts";
import { codeOf } from "../support/refusals.ts";
import { withoutMail } from "../support/teams.ts";
import { withEverything } from "../support/everything.ts";

/** What a stranger is told: that they are one, that they may not, or that there is no such thing. */
const TURNED_AWAY = [401, 403, 404];

const held = openClaim("Nobody but the rightful is let in, learns anything, or changes anything");

onOneBackend((test) => {
  let cases = 0;

  for (const operation of OPERATIONS) {
    test(`nobody but the rightful may: ${operation.route}, ${operation.name}`, async (world) => {
      const prepared = await operation.prepare(world);
      const principals = await principalsAgainst(world, operation, prepared);
      assert.ok(principals.length >= 7, `only ${principals.length}`);
      const before = await readRows(world, prepared.owned);
      // What is owed already is sent by whoever comes by, which changes rows: so here nobody sends.
      await withEverything(world, async (service) => {
        for (const principal of principals) {
          const { path, options } = prepared;
          // A body is sent as it is, unless the principal brings another.
          const { body = options.body, ...credential } = principal.credential;
          const answer = await sendTo(service, operation, path, { body, ...credential });
          assertTurnedAway(operation, prepared, principal, answer);
          assertNothingLeaks(prepared, principal, answer);
          cases++;
        }
      }, withoutMail(world.platform.db));
      assert.deepEqual(await readRows(world, prepared.owned), before, "rows of another's were changed");
    });
  }

  test("every operation was tried by somebody who may not", async () => {
    assert.ok(cases >= OPERATIONS.length * 7);
    held(cases);
  });
});

function assertTurnedAway(
  operation: Operation,
  prepared: Prepared,
  principal: Principal,
  answer: Answer,
) {
  const { status, text } = answer;
  const said = `${principal.name}: ${status} ${text}`;
  if (principal.own && !namesOthers(operation, prepared)) {
    // It is about whoever sends it: they see and change what is their own.
    assert.ok(status < 500, said);
    return;
  }
  // Who may do the same with what is theirs is told that what they name is not.
  const told = [...TURNED_AWAY, operation.turnedAway, principal.own ? 400 : undefined];
  assert.ok(told.includes(status), said);
  assert.ok(findCode(codeOf(answer) ?? "") !== undefined, said);
}

/** Whether the request is about something of another's, or only about whoever sends it. */
function namesOthers({ role }: Operation, { path, owned, canaries, options }: Prepared): boolean {
  const request = `${path} ${JSON.stringify(options.body ?? "")}`;
  // An agent's name is no id of ours: everybody may have an agent of the same name.
  return role !== undefined || [...owned, ...canaries].some((each) => request.includes(each));
}

function assertNothingLeaks(
  { path, options, canaries }: Prepared,
  principal: Principal,
  answer: Answer,
): void {
  const sent = `${path} ${JSON.stringify(options.body ?? "")}`;
  const told = `${answer.text}\n${JSON.stringify([...answer.headers])}`;
  const leaked = canaries.filter((canary) => !sent.includes(canary) && told.includes(canary));
  assert.deepEqual(leaked, [], `${principal.name}: ${told}`);
}

/** Every row of every table that has one of these ids in it. */
async function readRows(world: World, ids: string[]): Promise<unknown[]> {
  if (ids.length === 0) return [];
  const { rows: tables } = await world.sql.query(
    "select relname from pg_class where relnamespace = 'app'::regnamespace and relkind = 'r' order by relname",
  );
  const queries = tables.map(({ relname }) =>
    `select '${relname}' as of, t::text as row from app.${relname} t where t::text ~ $1`
  );
  const { rows } = await world.sql.query(`${queries.join(" union all ")} order by 1, 2`, [ids.join("|")]);
  assert.ok(rows.length > 0, "nothing is owned: the row of the operation is wrong");
  return rows;
}

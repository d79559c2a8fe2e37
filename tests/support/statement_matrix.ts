/** Mutating operations, ended between any two of their writes; then what must hold, then the same request again. */

import assert from "node:assert/strict";
import { openClaim, THOROUGH } from "./claims.ts";
import { withEverything } from "./everything.ts";
import { onOneBackend } from "./harness.ts";
import { assertInvariants } from "./invariants.ts";
import { finishJob, mutating, sendTo } from "./operations/mod.ts";
import { type Ending, installStatementFaults, type StatementFaults } from "./statement_faults.ts";

/** How a transaction ends, and whether every one after it does, too. */
interface Fault {
  ending: Ending;
  sticky: boolean;
}

/**
 * How a statement fails makes no difference to what it leaves, so a fast run tries one ending. The others are there for
 * what the service does then: a deadlock, or a lost connection, is tried again, once with success and once in vain.
 */
const FAULTS: Fault[] = [
  { ending: "disk full", sticky: false },
  { ending: "disk full", sticky: true },
  ...THOROUGH
    ? [{ ending: "terminated", sticky: false }, { ending: "deadlock", sticky: true }] satisfies Fault[]
    : [],
];

/**
 * Defines a test for each mutating operation of a function whose route matches: inside a transaction there is no half.
 * Nothing has happened, or all of it has; the client is told 503 or the truth; and the same request again works.
 */
export function defineStatementMatrix(routes: RegExp, app?: "vault"): void {
  const held = openClaim("A transaction ended between any two of its writes leaves no half");

  onOneBackend((test) => {
    let faults: Promise<StatementFaults> | undefined;
    let cells = 0;

    for (const operation of mutating().filter((each) => each.app === app && routes.test(each.route))) {
      test(`${operation.route} is whole or not at all wherever it is ended: ${operation.name}`, async (world) => {
        const { arm, disarm } = await (faults ??= installStatementFaults(world));
        await withEverything(world, async (service) => {
          const first = await operation.prepare(world);
          await disarm();
          await sendTo(service, operation, first.path, first.options);
          const writes = await disarm();
          await first.check?.();
          assert.ok(writes > 0);

          for (const { ending, sticky } of FAULTS) {
            for (let nth = 1; nth <= writes; nth++) {
              const place = `${ending} at write ${nth} of ${writes}${sticky ? " and after" : ""}`;
              const prepared = await operation.prepare(world);
              await arm(ending, nth, sticky);
              const send = () => sendTo(service, operation, prepared.path, prepared.options);
              const told = await send();
              await disarm();
              const done = await prepared.count!();
              assert.ok([operation.status, 503].includes(told.status), `${place}: ${told.text}`);
              if (!operation.job) {
                assert.ok(
                  done <= 1 && (told.status === 503 || done === 1),
                  `${place}: ${told.status}, ${done} done`,
                );
              }
              await prepared.lapse?.();
              const again = await send();
              const statuses = [operation.status, ...(done > 0 ? operation.again ?? [] : [])];
              assert.ok(statuses.includes(again.status), `${place}, again: ${again.text}`);
              if (operation.job) await finishJob(prepared, send);
              if (operation.effect === "once") assert.equal(await prepared.count!(), 1, place);
              await prepared.check?.();
              cells++;
            }
          }
        });
      });
    }

    test("after every ended transaction the books, the chains and the logs are right", async (world) => {
      await assertInvariants(world.sql);
      held(cells);
    });
  });
}

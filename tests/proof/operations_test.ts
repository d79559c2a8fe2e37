/** Every mounted route has a row among the operations, every row a route, and every row's request works. */

import assert from "node:assert/strict";
import { mountedRoutes } from "../support/mounted.ts";
import { withEverything } from "../support/everything.ts";
import { onOneBackend } from "../support/harness.ts";
import { OPERATIONS, sendTo } from "../support/operations/mod.ts";

/** Routes that are no operation: they say that the service is there, and what it can do. */
const NO_OPERATIONS = ["GET /health", "GET /openapi.json", "vault GET /health", "vault GET /openapi.json"];

Deno.test("every mounted route has a row among the operations, and no row is about anything else", () => {
  const rows = new Set(OPERATIONS.map(({ app, route }) => app === undefined ? route : `${app} ${route}`));
  assert.deepEqual([...rows, ...NO_OPERATIONS].sort(), mountedRoutes().sort());
});

Deno.test("no two rows have one name and one route", () => {
  const names = OPERATIONS.map(({ route, name }) => `${route}: ${name}`);
  assert.equal(new Set(names).size, names.length);
});

onOneBackend((test) => {
  for (const operation of OPERATIONS) {
    test(`${operation.route} does what its row says: ${operation.name}`, async (world) => {
      await withEverything(world, async (service) => {
        const { path, options, count, check } = await operation.prepare(world);
        const before = await count?.();
        const answered = await sendTo(service, operation, path, options);
        assert.equal(answered.status, operation.status, answered.text);
        assert.equal(operation.effect === undefined, count === undefined);
        if (count !== undefined) assert.deepEqual([before, await count()], [0, 1]);
        const again = await sendTo(service, operation, path, options);
        assert.ok((operation.again ?? [operation.status]).includes(again.status), again.text);
        if (count !== undefined) assert.equal(await count(), operation.effect === "once" ? 1 : 2);
        await check?.();
      });
    });
  }
});

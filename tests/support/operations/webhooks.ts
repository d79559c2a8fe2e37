/** Operations of webhooks, and the job that delivers them. */

import type { Hook } from "../hooks.ts";
import { emit, makeDue, newHook } from "../hooks.ts";
import type { World } from "../harness.ts";
import { accountIdOf, newPerson } from "../people.ts";
import { CRON_SECRET } from "../everything.ts";
import { counter } from "./counting.ts";
import type { Operation, Prepared } from "./mod.ts";

/** Where deliveries go; nobody listens there, and nobody needs to. */
const NOWHERE = "http://127.0.0.1:9/hook";

async function prepareHook(
  world: World,
  path: (hook: Hook) => string,
): Promise<Prepared & { hook: Hook }> {
  const hook = await newHook(world, `${NOWHERE}?canary=${crypto.randomUUID()}`, { events: ["team.created"] });
  const { rows } = await world.sql.query("select url from app.webhooks where id = $1", [hook.id]);
  return {
    hook,
    path: path(hook),
    options: { token: hook.token },
    canaries: [hook.accountId, hook.id, hook.secret, rows[0].url],
    owned: [hook.accountId, hook.id],
    person: hook,
  };
}

const LEFT_OVER =
  "update app.webhook_deliveries set status = 'canceled' where status = 'pending' and webhook_id = $1";

export const WEBHOOK_OPERATIONS: Operation[] = [
  {
    route: "POST /webhooks",
    name: "register a webhook",
    opens: "session",
    status: 201,
    effect: "each",
    async prepare(world) {
      const person = await newPerson(world);
      const accountId = await accountIdOf(world, person);
      return {
        path: "/webhooks",
        options: { token: person.token, body: { url: NOWHERE, events: ["team.created"] } },
        canaries: [accountId, person.subject],
        owned: [accountId],
        person,
        count: counter(world, "select count(*) as n from app.webhooks where account_id = $1", [accountId]),
      };
    },
  },
  {
    route: "GET /webhooks",
    name: "read",
    opens: "session",
    status: 200,
    prepare: (world) => prepareHook(world, () => "/webhooks"),
  },
  {
    route: "DELETE /webhooks/:id",
    name: "remove a webhook",
    opens: "session",
    status: 200,
    effect: "once",
    async prepare(world) {
      const prepared = await prepareHook(world, ({ id }) => `/webhooks/${id}`);
      const sql = "select count(*) as n from app.webhooks where id = $1 and deleted_at is not null";
      return { ...prepared, count: counter(world, sql, [prepared.hook.id]) };
    },
  },
  {
    route: "POST /webhooks/:id/test",
    name: "queue a test",
    opens: "session",
    status: 202,
    effect: "each",
    async prepare(world) {
      const prepared = await prepareHook(world, ({ id }) => `/webhooks/${id}/test`);
      const sql = "select count(*) as n from app.webhook_deliveries where webhook_id = $1";
      return {
        ...prepared,
        count: counter(world, sql, [prepared.hook.id]),
        check: async () => void await world.sql.query(LEFT_OVER, [prepared.hook.id]),
      };
    },
  },
  {
    route: "GET /webhooks/:id/deliveries",
    name: "read",
    opens: "session",
    status: 200,
    prepare: (world) => prepareHook(world, ({ id }) => `/webhooks/${id}/deliveries`),
  },
  {
    route: "POST /webhooks/:id/rotate-secret",
    name: "rotate a secret",
    opens: "session",
    status: 200,
    effect: "once",
    async prepare(world) {
      const prepared = await prepareHook(world, ({ id }) => `/webhooks/${id}/rotate-secret`);
      const sql = "select count(*) as n from app.webhooks where id = $1 and previous_secret is not null";
      return { ...prepared, count: counter(world, sql, [prepared.hook.id]) };
    },
  },
  {
    route: "POST /webhooks/dispatch",
    name: "deliver what is due",
    opens: "cron secret",
    status: 200,
    effect: "once",
    job: true,
    async prepare(world) {
      const prepared = await prepareHook(world, () => "/webhooks/dispatch");
      const { id, accountId } = prepared.hook;
      await emit(world, accountId);
      return {
        ...prepared,
        options: { token: CRON_SECRET },
        // Nobody listens: the effect is that the attempt was made and written down.
        count: counter(
          world,
          `select count(*) as n from app.webhook_deliveries
            where webhook_id = $1 and attempts > 0 and lease_expires_at is null and last_error is not null`,
          [id],
        ),
        lapse: () => makeDue(world, id),
        check: async () => void await world.sql.query(LEFT_OVER, [id]),
      };
    },
  },
];

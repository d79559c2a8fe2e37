/** Operations that only the living owner of a vault may ask for, and the job that brings vaults up to date. */

import { randomBytes } from "node:crypto";
import { CRON_SECRET } from "../everything.ts";
import { askAlive, DAY_MS, expect, look } from "../vaults.ts";
import type { Operation } from "./mod.ts";
import { type Part, setReleasedStage, setStage, type Stage, staged } from "./vault_stage.ts";

type Row = Pick<Operation, "route" | "name" | "status" | "effect" | "again">;

function living(row: Row, set: typeof setReleasedStage, part: (stage: Stage) => Part | Promise<Part>) {
  return staged({ opens: "living vault owner", ...row }, set, part);
}

const VAULT = "select count(*) as n from app.vaults where id = $1 and";

export const VAULT_RELEASE_OPERATIONS: Operation[] = [
  living(
    { route: "POST /api/vault/:id/check-in", name: "check in", status: 200, effect: "once" },
    setStage,
    ({ vault }) => ({
      path: `/api/vault/${vault.id}/check-in`,
      alive: true,
      sql: `${VAULT} last_check_in_at > now() - interval '1 hour'`,
    }),
  ),
  living(
    { route: "POST /api/vault/:id/release", name: "release", status: 200, effect: "once", again: [409] },
    setStage,
    ({ vault }) => ({
      path: `/api/vault/${vault.id}/release`,
      alive: true,
      sql: `${VAULT} state = 'releasing'`,
    }),
  ),
  living(
    { route: "POST /api/vault/:id/release/veto", name: "veto", status: 200, effect: "once", again: [409] },
    setStage,
    async ({ vault }) => {
      vault.clock.ms = Date.now();
      expect(200, await askAlive(vault, "POST", "/release"));
      return {
        path: `/api/vault/${vault.id}/release/veto`,
        alive: true,
        sql: `${VAULT} state = 'active'`,
      };
    },
  ),
  living(
    {
      route: "POST /api/vault/:id/release/rearm",
      name: "arm again",
      status: 200,
      effect: "once",
      again: [409],
    },
    setReleasedStage,
    async ({ vault, heir, guardians }) => {
      vault.clock.ms += 2 * DAY_MS;
      await look(vault);
      const shares = [heir, ...guardians].map(({ id }) => ({
        person_id: id,
        wrapped_share: randomBytes(32).toString("base64"),
      }));
      return {
        path: `/api/vault/${vault.id}/release/rearm`,
        body: { key_epoch: 1, wrapped_shares: shares },
        alive: true,
        sql: `${VAULT} state = 'active' and key_epoch = 1`,
      };
    },
  ),
  dispatching(),
];

/** The window of this one has ended, and nobody has looked since. */
function dispatching(): Operation {
  const row = staged(
    {
      route: "POST /release/dispatch",
      name: "bring vaults up to date",
      opens: "cron secret",
      status: 200,
      effect: "once",
    },
    setReleasedStage,
    () => ({ path: "/release/dispatch", sql: `${VAULT} state = 'released'` }),
  );
  return {
    ...row,
    job: true,
    prepare: async (world) => ({ ...await row.prepare(world), options: { token: CRON_SECRET } }),
  };
}

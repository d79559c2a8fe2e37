/** Operations of heirs and guardians, who come with a token from a mail. */

import { PUBLIC_KEY } from "../teams.ts";
import { DAY_MS, invite, look } from "../vaults.ts";
import type { Operation } from "./mod.ts";
import { type Part, setClaimedStage, setReleasedStage, setStage, type Stage, staged } from "./vault_stage.ts";

type Row = Pick<Operation, "route" | "name" | "status" | "effect" | "again">;

function coming(row: Row, set: typeof setStage, part: (stage: Stage) => Part | Promise<Part>): Operation {
  return staged({ opens: "vault token", ...row }, (world) => set(world), part);
}

function claiming(
  row: Row,
  claimed: boolean,
  part: (stage: Awaited<ReturnType<typeof setClaimedStage>>) => Part,
): Operation {
  return staged({ opens: "vault token", ...row }, (world) => setClaimedStage(world, claimed), part);
}

const PERSON = "select count(*) as n from app.vault_people where vault_id = $1 and id = $2 and";

/** The first word of an heir to a released vault, by either of two routes. */
function picking(route: string, name: string, path: (stage: Stage) => string): Operation {
  return coming({ route, name, status: 200, effect: "once" }, setReleasedStage, async (stage) => {
    stage.vault.clock.ms += 2 * DAY_MS;
    await look(stage.vault);
    return {
      path: path(stage),
      named: stage.heir,
      sql: `${PERSON} picked_up_at is not null`,
      values: [stage.heir.id],
    };
  });
}

export const VAULT_GUEST_OPERATIONS: Operation[] = [
  coming({ route: "POST /api/vault/invitation", name: "read", status: 200 }, setStage, ({ heir }) => ({
    path: "/api/vault/invitation",
    named: heir,
  })),
  coming(
    { route: "POST /api/vault/invitation/accept", name: "accept", status: 200, effect: "once" },
    setStage,
    async ({ vault }) => {
      vault.clock.ms = Date.now();
      const named = await invite(vault, "heir");
      return {
        path: "/api/vault/invitation/accept",
        body: { public_key: PUBLIC_KEY },
        named,
        sql: `${PERSON} status = 'accepted'`,
        values: [named.id],
      };
    },
  ),
  coming(
    {
      route: "POST /api/vault/invitation/decline",
      name: "decline",
      status: 200,
      effect: "once",
      // Who has left is known no longer.
      again: [404],
    },
    setStage,
    ({ heir }) => ({
      path: "/api/vault/invitation/decline",
      named: heir,
      sql: `${PERSON} status = 'declined'`,
      values: [heir.id],
    }),
  ),
  claiming(
    { route: "POST /api/vault/:id/claim", name: "claim", status: 201, effect: "once", again: [409] },
    false,
    ({ vault, guardians }) => ({
      path: `/api/vault/${vault.id}/claim`,
      body: { reason: "no word for months" },
      named: guardians[0]!,
      sql: "select count(*) as n from app.vault_claims where vault_id = $1",
    }),
  ),
  claiming(
    { route: "POST /api/vault/:id/claim/:claim_id/vote", name: "concur", status: 200, effect: "once" },
    true,
    ({ vault, guardians, claim }) => ({
      path: `/api/vault/${vault.id}/claim/${claim}/vote`,
      body: { vote: "concur" },
      named: guardians[1]!,
      // The quorum is two: a release begins.
      sql: `select count(*) as n from app.vaults v join app.vault_votes o on o.claim_id = v.claim_id
             where v.id = $1 and v.state = 'releasing' and o.person_id = $2`,
      values: [guardians[1]!.id],
    }),
  ),
  claiming(
    { route: "POST /api/vault/:id/claim/:claim_id/withdraw", name: "withdraw", status: 200, effect: "once" },
    true,
    ({ vault, guardians, claim }) => ({
      path: `/api/vault/${vault.id}/claim/${claim}/withdraw`,
      named: guardians[0]!,
      sql: "select count(*) as n from app.vault_claims where vault_id = $1 and state = 'withdrawn'",
    }),
  ),
  picking("POST /api/vault/:id/pick-up", "pick up", ({ vault }) => `/api/vault/${vault.id}/pick-up`),
  picking(
    "POST /api/vault/:id/pick-up/:asset_id",
    "pick an asset up",
    ({ vault, asset }) => `/api/vault/${vault.id}/pick-up/${asset}`,
  ),
];

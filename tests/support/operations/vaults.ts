/** Operations of vaults that their owner asks for by key: who is named, what is in them, how they are set. */

import { PUBLIC_KEY } from "../teams.ts";
import {
  addAsset,
  ask,
  askAlive,
  askByToken,
  assetBody,
  configure,
  expect,
  invite,
  personBody,
  type Role,
} from "../vaults.ts";
import type { Operation } from "./mod.ts";
import { type Part, setStage, type Stage, staged } from "./vault_stage.ts";

type Row = Pick<Operation, "route" | "name" | "status" | "effect" | "again">;

function owning(row: Row, part: (stage: Stage) => Part | Promise<Part>): Operation {
  return staged({ opens: "vault owner", ...row }, setStage, part);
}

function reading(route: string, path: (stage: Stage) => string): Operation {
  return owning({ route, name: "read", status: 200 }, (stage) => ({ path: path(stage) }));
}

const PEOPLE = "select count(*) as n from app.vault_people where vault_id = $1 and role =";

/** The routes of heirs and those of guardians differ in this word alone. */
function peopleOf(role: Role): Operation[] {
  const base = `/api/vault/:id/${role}`;
  return [
    owning(
      { route: `POST ${base}`, name: `name ${role}`, status: 201, effect: "once", again: [409] },
      ({ vault }) => {
        const body = personBody({ name: "new" });
        return {
          path: `/api/vault/${vault.id}/${role}`,
          body,
          sql: `${PEOPLE} '${role}' and email = $2`,
          values: [body.email],
        };
      },
    ),
    owning(
      {
        route: `DELETE ${base}/:person_id`,
        name: `take an invited ${role} back`,
        status: 200,
        effect: "once",
      },
      async ({ vault }) => {
        const { id } = await invite(vault, role);
        return {
          path: `/api/vault/${vault.id}/${role}/${id}`,
          sql: `${PEOPLE} '${role}' and id = $2 and status = 'removed'`,
          values: [id],
        };
      },
    ),
    owning(
      { route: `POST ${base}/:person_id/confirm`, name: `confirm ${role}`, status: 200, effect: "once" },
      async ({ vault }) => {
        const named = await invite(vault, role);
        expect(200, await askByToken(vault, named, "/invitation/accept", { public_key: PUBLIC_KEY }));
        return {
          path: `/api/vault/${vault.id}/${role}/${named.id}/confirm`,
          body: { wrapped_share: "a wrapped share" },
          sql: `${PEOPLE} '${role}' and id = $2 and status = 'confirmed'`,
          values: [named.id],
        };
      },
    ),
    owning(
      { route: `POST ${base}/:person_id/resend`, name: `invite ${role} again`, status: 200, effect: "once" },
      async ({ vault }) => {
        vault.clock.ms = Date.now();
        const { id } = await invite(vault, role);
        return {
          path: `/api/vault/${vault.id}/${role}/${id}/resend`,
          // The token of the mail before works no longer, and another mail is owed or sent.
          sql: `select (not exists (select from app.vault_tokens t
                          where t.person_id = p.id and t.created_at < p.expires_at - interval '720 hours')
                        and exists (select from app.mail_outbox where subject_id = p.id and given_up_at is null))::int as n
                  from app.vault_people p where p.vault_id = $1 and p.id = $2`,
          values: [id],
        };
      },
    ),
  ];
}

export const VAULT_OPERATIONS: Operation[] = [
  staged(
    { route: "POST /api/vault", name: "make a vault", opens: "vault owner", status: 201, effect: "each" },
    setStage,
    () => ({
      path: "/api/vault",
      body: { name: "another", sss_preset: "enhanced" },
      sql: `select count(*) as n from app.vaults v join app.vaults o using (account_id)
             where o.id = $1 and v.name = 'another'`,
    }),
  ),
  reading("GET /api/vault", () => "/api/vault"),
  reading("GET /api/vault/:id", ({ vault }) => `/api/vault/${vault.id}`),
  ...["audit", "audit/verify", "audit/export"].map((part) =>
    reading(`GET /api/vault/:id/${part}`, ({ vault }) => `/api/vault/${vault.id}/${part}`)
  ),
  reading(
    "GET /api/vault/:id/asset/:asset_id",
    ({ vault, asset }) => `/api/vault/${vault.id}/asset/${asset}`,
  ),
  ...peopleOf("heir"),
  ...peopleOf("guardian"),
  owning(
    {
      route: "DELETE /api/vault/:id/heir/:person_id",
      name: "ask to take an heir out who is in",
      status: 202,
      effect: "once",
    },
    ({ vault, heir }) => ({
      path: `/api/vault/${vault.id}/heir/${heir.id}`,
      sql: `select count(*) as n from app.vault_changes
             where vault_id = $1 and person_id = $2 and state = 'pending' and not proven`,
      values: [heir.id],
    }),
  ),
  owning(
    { route: "POST /api/vault/:id/asset", name: "add an asset", status: 201, effect: "each" },
    ({ vault, heir }) => ({
      path: `/api/vault/${vault.id}/asset`,
      body: assetBody({ name: "new", wrapped_keys: [{ heir_id: heir.id, wrapped_key: "a wrapped key" }] }),
      sql: `select count(*) as n from app.vault_assets a join app.vault_asset_keys k on k.asset_id = a.id
             where a.vault_id = $1 and a.name = 'new'`,
    }),
  ),
  owning(
    { route: "DELETE /api/vault/:id/asset/:asset_id", name: "remove an asset", status: 200, effect: "once" },
    ({ vault, asset }) => ({
      path: `/api/vault/${vault.id}/asset/${asset}`,
      sql: "select (count(*) = 0)::int as n from app.vault_assets where vault_id = $1",
    }),
  ),
  owning(
    { route: "POST /api/vault/:id/asset/:asset_id/keys", name: "wrap an asset", status: 200, effect: "once" },
    async ({ vault, heir }) => {
      const asset = await addAsset(vault);
      return {
        path: `/api/vault/${vault.id}/asset/${asset}/keys`,
        body: { wrapped_keys: [{ heir_id: heir.id, wrapped_key: "a wrapped key" }] },
        sql: `select count(*) as n from app.vault_asset_keys k join app.vault_assets a on a.id = k.asset_id
               where a.vault_id = $1 and a.id = $2`,
        values: [asset],
      };
    },
  ),
  owning(
    { route: "POST /api/vault/:id/release/config", name: "strengthen a vault", status: 200, effect: "once" },
    ({ vault }) => ({
      path: `/api/vault/${vault.id}/release/config`,
      body: { trigger: "manual", config: { veto_window_hours: 72 } },
      sql: "select count(*) as n from app.vaults where id = $1 and manual_window_hours = 72",
    }),
  ),
  owning(
    {
      route: "POST /api/vault/:id/release/config",
      name: "ask to weaken a vault",
      status: 200,
      effect: "once",
    },
    async ({ vault }) => {
      // Not due: it was armed this very moment.
      vault.clock.ms = Date.now();
      expect(200, await askAlive(vault, "POST", "/check-in"));
      await configure(vault, "dead_man_switch");
      return {
        path: `/api/vault/${vault.id}/release/config`,
        body: { trigger: "dead_man_switch", config: { enabled: false } },
        sql: `select count(*) as n from app.vault_changes c join app.vaults v on v.id = c.vault_id
               where v.id = $1 and c.state = 'pending' and v.switch_enabled`,
      };
    },
  ),
  owning(
    {
      route: "DELETE /api/vault/:id/changes/:change_id",
      name: "take a change back",
      status: 200,
      effect: "once",
    },
    async ({ vault, heir }) => {
      vault.clock.ms = Date.now();
      const { change } = expect(202, await ask(vault, "DELETE", `/heir/${heir.id}`));
      return {
        path: `/api/vault/${vault.id}/changes/${change.id}`,
        sql: "select count(*) as n from app.vault_changes where vault_id = $1 and state = 'canceled'",
      };
    },
  ),
];

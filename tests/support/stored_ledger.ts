/** A ledger in the hands of somebody who owns the database: changes that no grant and no trigger stops. */

import assert from "node:assert/strict";
// @deno-types="npm:@types/pg@8.23.1"
import pg from "pg";
import {
  type AuditExport,
  type ChainVerdict,
  verifyChain,
} from "../../supabase/functions/_shared/domain/audit_chain.ts";
import type { Database, SqlValue } from "../../supabase/functions/_shared/platform/mod.ts";
import type { World } from "./harness.ts";
import { send, type Service, type Team } from "./teams.ts";

/** What the service and the offline verifier say of one ledger. */
export interface Findings {
  served: { valid: boolean; checked: number; broken_seq?: number };
  offline: ChainVerdict;
}

/** Asks the service whether a ledger holds, and the offline verifier about its export. */
export async function inspect(service: Service, team: Team): Promise<Findings> {
  const served = await send(service, team.owner, "GET", `/teams/${team.id}/audit/verify`);
  assert.equal(served.status, 200, served.text);
  return { served: served.body, offline: verifyChain(await exportOf(service, team)) };
}

/** An export by the team's owner. */
export async function exportOf(service: Service, team: Team, query = ""): Promise<AuditExport> {
  const exported = await send(service, team.owner, "GET", `/teams/${team.id}/audit/export${query}`);
  assert.equal(exported.status, 200, exported.text);
  return exported.body;
}

/**
 * Runs `work` in a transaction without triggers, keys and checks, which is undone at the end. `tamper` changes
 * something, looks at what is found, and undoes it.
 */
export async function asIntruder(
  world: World,
  work: (tamper: (team: Team, sql: string, values?: unknown[]) => Promise<Findings>) => Promise<void>,
): Promise<void> {
  const client = new pg.Client({ connectionString: world.databaseUrl });
  await client.connect();
  const service = world.with({ db: openDatabase(client), tampered: true });
  try {
    await client.query("begin; set local session_replication_role = replica");
    const { rows } = await client.query(
      `select conname from pg_constraint
        where conrelid = 'app.audit_entries'::regclass and contype in ('p', 'u', 'c')`,
    );
    for (const { conname } of rows) {
      await client.query(`alter table app.audit_entries drop constraint ${client.escapeIdentifier(conname)}`);
    }
    await work(async (team, sql, values = []) => {
      await client.query("savepoint before");
      const { rowCount } = await client.query(sql, values);
      assert.notEqual(rowCount, 0, `nothing was changed by ${sql}`);
      const findings = await inspect(service, team);
      await client.query("rollback to savepoint before");
      return findings;
    });
  } finally {
    await client.end();
  }
}

/** The service's database, seen through one connection in the middle of a transaction. */
function openDatabase(client: pg.Client): Database {
  return {
    async call<T>(name: string, args: Record<string, SqlValue>): Promise<T> {
      const names = Object.keys(args).map((each, i) => `${each} => $${i + 1}`);
      const { rows } = await client.query(
        `select api.${client.escapeIdentifier(name)}(${names.join(", ")}) as result`,
        Object.values(args),
      );
      return rows[0].result;
    },
    rows: () => Promise.reject(new Error("not a part of the ledger")),
  };
}

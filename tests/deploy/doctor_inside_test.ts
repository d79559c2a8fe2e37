/** The doctor from inside: databases that are broken on purpose, each in a transaction that is taken back. */

import assert from "node:assert/strict";
// @deno-types="npm:@types/pg@8.23.1"
import pg from "pg";
import { examine } from "../../local/doctor.ts";
import { lookInside } from "../../local/doctor_inside.ts";
import { checkScheduleSecret } from "../../local/doctor_outside.ts";
import type { Finding } from "../../local/doctor_report.ts";
import { lookAtSchedule, readSchedule } from "../../local/doctor_schedule.ts";
import { lookAtSettings } from "../../local/doctor_settings.ts";
import { migrate } from "../../local/migrate.ts";
import { createEmptyDatabase } from "../support/database.ts";
import { assertGreen, assertRed, CRON_SECRET, withDeployment } from "../support/deployment.ts";
import { onOneBackend } from "../support/harness.ts";

const STAND_INS = new URL("../support/platform_stand_ins.sql", import.meta.url);
const ORIGIN = "https://abcdefghijklmnopqrst.supabase.co";

/** The tests' own Postgres forces nothing to disk, and the doctor is right to say so. */
const OF_TESTS = ["durability"];

/** A database as on Supabase, on which everything is as it should be. */
const CONFIGURED = `
  select app.configure_schedule('${ORIGIN}/functions/v1', '${CRON_SECRET}');
  select api.record_job_run(path) from app.list_schedule()`;

/** As Supabase has it; a role is seen everywhere, so it exists in transactions only. */
const AUTHENTICATOR =
  "create role authenticator; alter role authenticator set pgrst.db_schemas = 'public, api'";

interface Case {
  name: string;
  breakIt: string;
  check: string;
  saw: RegExp;
  mend: RegExp;
  /** A second check that sees the same. */
  also?: string;
}

const CASES: Case[] = [
  {
    name: "a migration is missing",
    breakIt: "delete from supabase_migrations.schema_migrations where version = '20261120000300'",
    check: "migrations",
    saw: /1 of \d+ are missing: 20261120000300/,
    mend: /supabase db push/,
  },
  {
    name: "a table was granted to anon",
    breakIt: "grant select on app.accounts to anon",
    check: "grants",
    saw: /anon has select on table app\.accounts/,
    mend: /revoke select on table app\.accounts from anon;/,
  },
  {
    name: "a function was granted to everybody",
    breakIt: "grant execute on function api.ping() to public",
    check: "grants",
    saw: /everybody has execute on function api\.ping\(\)/,
    mend: /revoke execute on function api\.ping\(\) from public;/,
    also: "invariants",
  },
  {
    name: "the service lost a function",
    breakIt: "revoke execute on function api.ping() from service_role",
    check: "service_role",
    saw: /may not call api\.ping\(\)/,
    mend: /migration/,
  },
  {
    name: "row security was switched off",
    breakIt: "alter table app.snapshots disable row level security",
    check: "row security",
    saw: /off on app\.snapshots/,
    mend: /alter table app\.snapshots enable row level security;/,
    also: "invariants",
  },
  {
    name: "the REST layer does not know schema api",
    breakIt: `${AUTHENTICATOR}; alter role authenticator set pgrst.db_schemas = 'public, graphql_public'`,
    check: "REST layer",
    saw: /does not expose schema api, only public, graphql_public/,
    mend: /Add api to the exposed schemas/,
  },
  {
    name: "the REST layer exposes the tables",
    breakIt: `${AUTHENTICATOR}; alter role authenticator set pgrst.db_schemas = 'public, api, app'`,
    check: "REST layer",
    saw: /exposes schema app/,
    mend: /Take app off/,
  },
  {
    name: "the bucket's row is private",
    breakIt: "update storage.buckets set public = false",
    check: "bucket's row",
    saw: /private: restores would fail/,
    mend: /set public = true/,
  },
  {
    name: "the bucket's row is gone",
    breakIt: "delete from storage.buckets",
    check: "bucket's row",
    saw: /no bucket agent-state/,
    mend: /db push/,
  },
  {
    name: "a policy lets strangers list the bucket",
    breakIt: `create policy "Public read" on storage.objects for select using (bucket_id = 'agent-state')`,
    check: "bucket's row",
    saw: /"Public read" lets strangers list every object/,
    mend: /drop policy "Public read" on storage\.objects;/,
  },
  {
    name: "a balance is not the sum of its ledger",
    breakIt:
      `select api.grant_credits(p_subject => 'ann', p_amount_milli => 5, p_actor => 'test', p_note => 'test',
                p_reference => gen_random_uuid());
              update app.accounts set credits_milli = 6`,
    check: "invariants",
    saw: /money: a balance is the sum of its ledger \(1 rows\)/,
    mend: /backup/,
  },
  {
    name: "a job of pg_cron is missing",
    breakIt: "select cron.unschedule('agent-state-webhooks')",
    check: "cron jobs",
    saw: /agent-state-webhooks is missing/,
    mend: /app\.schedule_jobs\(\)/,
  },
  {
    name: "a job of pg_cron is switched off",
    breakIt: "update cron.job set active = false where jobname = 'agent-state-retention'",
    check: "cron jobs",
    saw: /agent-state-retention is switched off/,
    mend: /app\.schedule_jobs\(\)/,
  },
  {
    name: "a job of pg_cron fails",
    breakIt: `insert into cron.job_run_details (jobid, status, return_message)
              select jobid, 'failed', 'ERROR:  no address' from cron.job where jobname = 'agent-state-release'`,
    check: "cron jobs",
    saw: /agent-state-release failed: ERROR: +no address/,
    mend: /app\.configure_schedule/,
  },
  {
    name: "pg_cron is not enabled on a Supabase project",
    breakIt: `${AUTHENTICATOR}; drop schema cron cascade`,
    check: "cron jobs",
    saw: /pg_cron is not enabled/,
    mend: /enable Cron, pg_net and Vault/,
  },
  {
    name: "the Vault has no secret",
    breakIt: "delete from vault.secrets where name = 'agent_state_cron_secret'",
    check: "Vault",
    saw: /no address or no secret/,
    mend: /app\.configure_schedule/,
  },
  {
    name: "the Vault's secret can be guessed",
    breakIt: "update vault.secrets set secret = 'change-me-change-me' where name = 'agent_state_cron_secret'",
    check: "Vault",
    saw: /can be guessed/,
    mend: /openssl rand -hex 32/,
  },
  {
    name: "a job has not run for hours",
    breakIt:
      "update app.job_runs set succeeded_at = now() - interval '5 hours' where path = '/webhooks/dispatch'",
    check: "jobs have run",
    saw: /agent-state-webhooks last went well 300 minutes ago/,
    mend: /CRON_SECRET/,
  },
  {
    name: "a job has never run",
    breakIt: "delete from app.job_runs where path = '/retention/purge'",
    check: "jobs have run",
    saw: /agent-state-retention has never run/,
    mend: /CRON_SECRET/,
  },
];

async function look(client: pg.Client): Promise<Finding[]> {
  const findings = await lookInside(client);
  return [...findings, ...await lookAtSchedule(client, await readSchedule(client), ORIGIN)];
}

Deno.test({
  name: "doctor: databases broken on purpose",
  sanitizeOps: false,
  sanitizeResources: false,
  async fn(t) {
    const database = await createEmptyDatabase();
    const client = new pg.Client({ connectionString: database.url });
    try {
      const never = await examine({ databaseUrl: database.url });
      assertRed(never, "migrations", /\d+ of \d+ are missing: 20261120000100/, /supabase db push/);
      await database.sql.query(await Deno.readTextFile(STAND_INS));
      await migrate(database.url);
      await database.sql.query(CONFIGURED);
      await client.connect();

      await t.step("whole, it is green", async () => assertGreen(await look(client), OF_TESTS));
      await t.step("what does not force commits to disk is named", async () => {
        const { rows: [{ fsync }] } = await client.query("show fsync");
        const found = (await look(client)).find(({ check }) => check === "durability");
        assert.equal(found?.state, fsync === "on" ? "ok" : "fail");
        if (fsync === "off") assert.match(found!.saw, /fsync.* off: a crash loses what was acknowledged/);
      });
      for (const { name, breakIt, check, saw, mend, also = check } of CASES) {
        await t.step(name, async () => {
          await client.query("begin");
          try {
            await client.query(breakIt);
            const findings = await look(client);
            assertRed(findings, check, saw, mend);
            assertGreen(findings, [...OF_TESTS, check, also]);
          } finally {
            await client.query("rollback");
          }
        });
      }
    } finally {
      await client.end();
      await database.drop();
    }
  },
});

onOneBackend((test) => {
  test("doctor: the schedule's secret is tried at the functions", async (world) => {
    await withDeployment(world, {}, async (outside) => {
      assertGreen([await checkScheduleSecret(outside, CRON_SECRET)]);
      const found = await checkScheduleSecret(outside, "another-secret-than-that");
      assertRed([found], "schedule's secret", /refuse the Vault's secret: 401/, /app\.configure_schedule/);
    });
  });
});

Deno.test("doctor: a database that cannot be reached is named, without its password", async () => {
  const findings = await examine({ databaseUrl: "postgresql://postgres:hunter2@127.0.0.1:9/postgres" });
  assertRed(findings, "database", /cannot be reached/, /address/);
  assert.doesNotMatch(JSON.stringify(findings), /hunter2/);
});

Deno.test("doctor: a file of settings with mistakes is red, and quotes no secret", () => {
  const good = lookAtSettings(`CRON_SECRET=${CRON_SECRET}\nRESEND_API_KEY=re_9fK2mQx7Lw3Zt\n`);
  assertGreen(good);
  assert.deepEqual(good.filter(({ state }) => state === "warn").map(({ check }) => check), [
    "MAIL_FROM set",
    "APP_URL set",
    "POLAR_ACCESS_TOKEN set",
    "POLAR_WEBHOOK_SECRET set",
  ]);
  const bad = lookAtSettings(
    "CRON_SECRET=change-me-change-me\nWEBHOOK_ALLOW_PRIVATE=true\nSESSION_JWKS_URL=http://issuer.example/jwks",
  );
  assertRed(bad, "CRON_SECRET set", /can be guessed/, /openssl/);
  assertRed(bad, "webhooks", /private addresses/, /Remove WEBHOOK_ALLOW_PRIVATE/);
  assertRed(bad, "settings", /SESSION_JWKS_URL must be https/, /README/);
  assert.doesNotMatch(JSON.stringify(bad), /change-me/);
  assertRed(lookAtSettings(""), "CRON_SECRET set", /is missing/, /openssl/);
});

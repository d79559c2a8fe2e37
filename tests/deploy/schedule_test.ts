/** The schedule: what the migration makes of it where pg_cron is, and that the requests it sends are the right ones. */

import assert from "node:assert/strict";
import { startSchedule } from "../../local/schedule.ts";
import { migrate } from "../../local/migrate.ts";
import type { LogRecord } from "../../supabase/functions/_shared/platform/mod.ts";
import { cloneDatabase, type ClonedDatabase, createEmptyDatabase } from "../support/database.ts";
import { eventually, settled } from "../support/eventually.ts";
import { onOneBackend } from "../support/harness.ts";

const URL_OF_FUNCTIONS = "https://abcdefghijklmnopqrst.supabase.co/functions/v1";
const SECRET = "a-secret-of-the-scheduler";
const STAND_INS = new URL("../support/platform_stand_ins.sql", import.meta.url);

interface CronJob {
  jobname: string;
  schedule: string;
  command: string;
}

/** Runs a test on a database whose migrations found the platform's parts, or rather their stand-ins. */
function onPlatform(name: string, run: (sql: ClonedDatabase["sql"], url: string) => Promise<void>): void {
  Deno.test({
    name: `schedule: ${name}`,
    sanitizeOps: false,
    sanitizeResources: false,
    async fn() {
      const database = await createEmptyDatabase();
      try {
        await database.sql.query(await Deno.readTextFile(STAND_INS));
        await migrate(database.url);
        await run(database.sql, database.url);
      } finally {
        await database.drop();
      }
    },
  });
}

/** The jobs of the list; the one that forgets old runs has a test of its own. */
async function listCronJobs(sql: ClonedDatabase["sql"]): Promise<CronJob[]> {
  const { rows } = await sql.query<CronJob>(
    "select jobname, schedule, command from cron.job where jobname <> 'agent-state-history' order by jobname",
  );
  return rows;
}

onPlatform("the migration makes a job of pg_cron for each line of the list", async (sql) => {
  const jobs = await listCronJobs(sql);
  const list = (await sql.query("select name, every_minutes from app.list_schedule() order by name")).rows;
  assert.deepEqual(jobs.map(({ jobname }) => jobname), list.map(({ name }) => name));
  const schedules = Object.fromEntries(jobs.map(({ jobname, schedule }) => [jobname, schedule]));
  assert.deepEqual(schedules, {
    "agent-state-lifecycle": "* * * * *",
    "agent-state-release": "*/5 * * * *",
    "agent-state-retention": "17 * * * *",
    "agent-state-webhooks": "* * * * *",
  });
});

onPlatform(
  "each job's text, executed, posts to its route with the secret and its own timeout",
  async (sql) => {
    await sql.query("select app.configure_schedule($1, $2)", [URL_OF_FUNCTIONS, SECRET]);
    for (const { command } of await listCronJobs(sql)) await sql.query(command);
    const { rows } = await sql.query("select url, body, params, headers, timeout_milliseconds from net.sent");
    const sent = rows.map(({ url, timeout_milliseconds: timeout }) => [url, timeout]);
    assert.deepEqual(Object.fromEntries(sent), {
      [`${URL_OF_FUNCTIONS}/v2-agent-state/webhooks/dispatch`]: 55_000,
      [`${URL_OF_FUNCTIONS}/v2-agent-state/lifecycle/dispatch`]: 55_000,
      [`${URL_OF_FUNCTIONS}/v2-agent-state/retention/purge`]: 120_000,
      [`${URL_OF_FUNCTIONS}/vault/release/dispatch`]: 120_000,
    });
    for (const { body, params, headers } of rows) {
      assert.deepEqual([body, params], [{}, {}]);
      assert.deepEqual(headers, { "content-type": "application/json", authorization: `Bearer ${SECRET}` });
    }
  },
);

onPlatform("a job fails with the way out while nothing is configured", async (sql) => {
  const [job] = await listCronJobs(sql);
  await assert.rejects(sql.query(job!.command), (error: { message: string; hint: string }) => {
    assert.match(error.message, /no address or no secret/);
    assert.match(error.hint, /select app\.configure_schedule\(/);
    return true;
  });
});

onPlatform(
  "a changed secret is used from the next run on, and one that is no secret is refused",
  async (sql) => {
    await sql.query("select app.configure_schedule($1, $2)", [URL_OF_FUNCTIONS, SECRET]);
    await sql.query("select app.configure_schedule($1, $2)", [URL_OF_FUNCTIONS, "another-secret-of-it"]);
    await sql.query("delete from net.sent");
    await sql.query("select app.call_job('agent-state-webhooks')");
    const { rows } = await sql.query("select headers ->> 'authorization' as header from net.sent");
    assert.deepEqual(rows, [{ header: "Bearer another-secret-of-it" }]);
    const { rows: secrets } = await sql.query("select count(*)::int as count from vault.secrets");
    assert.equal(secrets[0].count, 2);
    const wrong = [
      [URL_OF_FUNCTIONS, "short"],
      ["https://x.example", SECRET],
      ["ftp://x/functions/v1", SECRET],
    ];
    for (const pair of wrong) {
      await assert.rejects(sql.query("select app.configure_schedule($1, $2)", pair), /must/);
    }
  },
);

onPlatform(
  "jobs that left the list are removed, a changed one is put right, others are let be",
  async (sql) => {
    await sql.query("select cron.schedule('agent-state-old', '* * * * *', 'select 1')");
    await sql.query("select cron.schedule('nightly-report', '0 0 * * *', 'select 2')");
    await sql.query("select cron.schedule('agent-state-webhooks', '0 0 1 1 *', 'select 3')");
    const { rows } = await sql.query("select app.schedule_jobs() as jobs");
    assert.equal(rows[0].jobs, 4);
    const jobs = await listCronJobs(sql);
    assert.equal(jobs.some(({ jobname }) => jobname === "agent-state-old"), false);
    assert.equal(jobs.find(({ jobname }) => jobname === "nightly-report")!.command, "select 2");
    assert.deepEqual(jobs.find(({ jobname }) => jobname === "agent-state-webhooks"), {
      jobname: "agent-state-webhooks",
      schedule: "* * * * *",
      command: "select app.call_job('agent-state-webhooks')",
    });
  },
);

onPlatform("old runs of our jobs are forgotten after a week, and nobody else's", async (sql) => {
  await sql.query("select cron.schedule('nightly-report', '0 0 * * *', 'select 2')");
  await sql.query(
    `insert into cron.job_run_details (jobid, status, end_time)
     select jobid, days::text, now() - make_interval(days => days)
       from cron.job, unnest(array[6, 8]) days where jobname in ('agent-state-webhooks', 'nightly-report')`,
  );
  const { rows: [job] } = await sql.query(
    "select command from cron.job where jobname = 'agent-state-history'",
  );
  await sql.query(job.command);
  const { rows } = await sql.query(
    "select jobname, status from cron.job_run_details join cron.job using (jobid) order by 1, 2",
  );
  assert.deepEqual(rows.map(({ jobname, status }) => `${jobname} ${status}`), [
    "agent-state-webhooks 6",
    "nightly-report 6",
    "nightly-report 8",
  ]);
});

Deno.test({
  name: "schedule: plain Postgres takes the migration, and there are no jobs to make",
  sanitizeOps: false,
  sanitizeResources: false,
  async fn() {
    const database = await cloneDatabase();
    try {
      const { rows } = await database.sql.query(
        "select app.schedule_jobs() as jobs, to_regnamespace('cron') as cron",
      );
      assert.deepEqual(rows, [{ jobs: 0, cron: null }]);
    } finally {
      await database.drop();
    }
  },
});

onOneBackend((test) => {
  const withCron = { settings: { cronSecret: SECRET } };
  const headers = { authorization: `Bearer ${SECRET}` };

  test("a run that went well is noted; a refused one, and one with parameters, are not", async (world) => {
    const { request } = world.with(withCron);
    const readRun = async () => {
      const jobs = await world.platform.db.call<{ path: string; succeeded_at: string | null }[]>(
        "read_schedule",
        {},
      );
      return jobs.find(({ path }) => path === "/webhooks/dispatch")!.succeeded_at;
    };
    const refused = await request("POST", "/webhooks/dispatch", { headers: { authorization: "Bearer no" } });
    assert.equal(refused.status, 401);
    assert.equal((await request("POST", "/webhooks/dispatch?dry_run=1", { headers })).status, 200);
    assert.equal(await readRun(), null);
    assert.equal((await request("POST", "/webhooks/dispatch", { headers })).status, 200);
    assert.ok(Math.abs(Date.parse((await readRun())!) - Date.now()) < 60_000);
  });

  test("without pg_cron the same list is run over HTTP, at once, and what fails is logged", async (world) => {
    const asked: string[] = [];
    await using server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, (request) => {
      const { pathname } = new URL(request.url);
      asked.push(`${request.method} ${pathname} ${request.headers.get("authorization")}`);
      return pathname.endsWith("/purge")
        ? Response.json({ error: "service_unavailable" }, { status: 503 })
        : Response.json({});
    });
    const logged: LogRecord[] = [];
    const schedule = await startSchedule({
      db: world.platform.db,
      origin: `http://127.0.0.1:${server.addr.port}`,
      secret: SECRET,
      log: (record) => void logged.push(record),
    });
    await eventually("all were asked for", () => asked.length === 4 && logged.length === 1);
    schedule.stop();
    const paths = [
      "/v2-agent-state/lifecycle/dispatch",
      "/v2-agent-state/retention/purge",
      "/v2-agent-state/webhooks/dispatch",
      "/vault/release/dispatch",
    ];
    assert.deepEqual(asked.toSorted(), paths.map((path) => `POST /functions/v1${path} Bearer ${SECRET}`));
    assert.deepEqual(logged, [
      {
        level: "warn",
        event: "job_failed",
        job: "agent-state-retention",
        status: 503,
        error: "service_unavailable",
      },
    ]);
  });

  test("every job comes again after its interval, and none once the schedule was stopped", async (world) => {
    let asked = 0;
    await using server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, () => {
      asked++;
      return Response.json({});
    });
    const schedule = await startSchedule({
      db: world.platform.db,
      origin: `http://127.0.0.1:${server.addr.port}`,
      secret: SECRET,
      log: () => {},
      everySeconds: 0.02,
    });
    await eventually("each came three times", () => asked >= 12);
    schedule.stop();
    await settled("the count of requests", () => asked);
  });
});

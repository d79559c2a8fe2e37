/** Looks at the schedule: whether its jobs exist, may run, and have run. */

import { attempt, type Queryable } from "./doctor_inside.ts";
import { fail, type Finding, isPlaceholder, ok, warn } from "./doctor_report.ts";
import type { ScheduledJob } from "./schedule.ts";

const CONFIGURE = "select app.configure_schedule('https://<ref>.supabase.co/functions/v1', '<CRON_SECRET>');";
const LATE_FACTOR = 3;
const LATE_MINUTES_MIN = 10;

/** Jobs of pg_cron as they should be, beside what they are. */
const JOBS = `
  select s.name,
         case when j.jobid is null then 'is missing'
              when not j.active then 'is switched off'
              when j.schedule <> app.cron_expression(s.every_minutes) then 'runs at ' || j.schedule
              when j.command <> format('select app.call_job(%L)', s.name) then 'does something else' end as fault
    from app.list_schedule() s left join cron.job j on j.jobname = s.name
   order by 1`;

/** The last run of each job, if it failed. */
const FAILURES = `
  select j.jobname as name, d.return_message as message
    from cron.job j
    cross join lateral (
      select status, return_message from cron.job_run_details
       where jobid = j.jobid order by start_time desc limit 1
    ) d
   where j.jobname like 'agent-state-%' and d.status = 'failed'
   order by 1`;

const SECRETS = `
  select name, decrypted_secret as secret from vault.decrypted_secrets
   where name in ('agent_state_functions_url', 'agent_state_cron_secret')`;

/** The list of jobs, with when each last went well. */
export async function readSchedule(sql: Queryable): Promise<ScheduledJob[]> {
  return (await sql.query("select api.read_schedule() as jobs")).rows[0].jobs;
}

/** The secret that pg_cron's jobs send; undefined where there is none. */
export async function readScheduleSecret(sql: Queryable): Promise<string | undefined> {
  if (!(await has(sql, "vault.decrypted_secrets"))) return undefined;
  const { rows } = await sql.query(SECRETS);
  return rows.find(({ name }) => name === "agent_state_cron_secret")?.secret;
}

/** Looks at the schedule; `origin` is where its requests should go, when that is known. */
export async function lookAtSchedule(
  sql: Queryable,
  jobs: readonly ScheduledJob[],
  origin: string | undefined,
): Promise<Finding[]> {
  const findings = [await attempt("jobs have run", () => Promise.resolve(checkRuns(jobs)))];
  if (await has(sql, "cron.job")) {
    findings.push(await attempt("cron jobs", () => checkJobs(sql)));
    findings.push(await attempt("Vault", () => checkVault(sql, origin)));
  } else {
    const { rows } = await sql.query("select from pg_roles where rolname = 'authenticator'");
    findings.push(
      rows.length > 0
        ? fail(
          "cron jobs",
          "pg_cron is not enabled",
          "Dashboard → Integrations: enable Cron, pg_net and Vault; then select app.schedule_jobs();",
        )
        : ok("cron jobs", "no pg_cron here: the service runs the schedule itself"),
    );
  }
  return findings;
}

function checkRuns(jobs: readonly ScheduledJob[]): Finding {
  const late = jobs.flatMap(({ name, every_minutes, succeeded_at }) => {
    if (succeeded_at === null) return [`${name} has never run`];
    const minutes = Math.floor((Date.now() - Date.parse(succeeded_at)) / 60_000);
    const limit = Math.max(LATE_MINUTES_MIN, LATE_FACTOR * every_minutes);
    return minutes > limit ? [`${name} last went well ${minutes} minutes ago`] : [];
  });
  return late.length === 0
    ? ok("jobs have run", `all ${jobs.length} went well when they last should have`)
    : fail(
      "jobs have run",
      late.join(", "),
      `Is CRON_SECRET the schedule's? ${CONFIGURE} Self-hosted: the log says job_failed.`,
    );
}

async function checkJobs(sql: Queryable): Promise<Finding> {
  const { rows } = await sql.query(JOBS);
  const faults = rows.filter(({ fault }) => fault !== null).map(({ name, fault }) => `${name} ${fault}`);
  if (faults.length > 0) return fail("cron jobs", faults.join(", "), "select app.schedule_jobs();");
  const { rows: failures } = await sql.query(FAILURES);
  return failures.length === 0
    ? ok("cron jobs", `all ${rows.length} are there and active`)
    : fail("cron jobs", `${failures[0].name} failed: ${failures[0].message}`, CONFIGURE);
}

async function checkVault(sql: Queryable, origin: string | undefined): Promise<Finding> {
  const { rows } = await sql.query(SECRETS);
  const of = (wanted: string) => rows.find(({ name }) => name === wanted)?.secret;
  const [url, secret] = [of("agent_state_functions_url"), of("agent_state_cron_secret")];
  if (url === undefined || secret === undefined) {
    return fail("Vault", "the schedule has no address or no secret", CONFIGURE);
  }
  if (isPlaceholder(secret)) {
    return fail(
      "Vault",
      "agent_state_cron_secret can be guessed",
      `A new one: openssl rand -hex 32. ${CONFIGURE}`,
    );
  }
  if (origin !== undefined && url !== `${origin}/functions/v1`) {
    return warn(
      "Vault",
      `the schedule calls ${url}, not ${origin}/functions/v1`,
      `If that is not the same deployment: ${CONFIGURE}`,
    );
  }
  return ok("Vault", `the schedule calls ${url}`);
}

async function has(sql: Queryable, relation: string): Promise<boolean> {
  return (await sql.query("select to_regclass($1) is not null as found", [relation])).rows[0].found;
}

/** Looks at a deployment's database. It only reads. */

import { fail, type Finding, ok, warn } from "./doctor_report.ts";
import { findBroken } from "./invariants.ts";
import { listVersions } from "./migrate.ts";

/** Whatever can be asked. */
export interface Queryable {
  // deno-lint-ignore no-explicit-any
  query(text: string, values?: unknown[]): Promise<{ rows: any[] }>;
}

const POSTGRES_MIN = 15;
const SKEW_SECONDS_MAX = 30;
const MIGRATIONS =
  "a migration grants and revokes what is needed: apply them with supabase db push, or task start";

/** Privileges of anybody but the owner that are not the service's own. */
const LEAKS = `
  with objects as (
    select 'schema' as kind, nspname::text as name, nspname::text as schema, nspowner as owner,
           coalesce(nspacl, acldefault('n', nspowner)) as acl
      from pg_namespace
    union all
    select 'function', oid::regprocedure::text, pronamespace::regnamespace::text, proowner,
           coalesce(proacl, acldefault('f', proowner))
      from pg_proc
    union all
    select case relkind when 'S' then 'sequence' else 'table' end, oid::regclass::text,
           relnamespace::regnamespace::text, relowner,
           coalesce(relacl, acldefault(case relkind when 'S' then 's'::"char" else 'r' end, relowner))
      from pg_class where relkind in ('r', 'p', 'v', 'm', 'f', 'S')
  )
  select case x.grantee when 0 then 'everybody' else x.grantee::regrole::text end as who,
         lower(x.privilege_type) as privilege, o.kind, o.name
    from objects o cross join aclexplode(o.acl) x
   where o.schema in ('api', 'app') and x.grantee <> o.owner
     and not (o.schema = 'api' and x.grantee = 'service_role'::regrole
              and (o.kind, x.privilege_type) in (('function', 'EXECUTE'), ('schema', 'USAGE')))
   order by 1, 4`;

const NOT_CALLABLE = `
  select p.oid::regprocedure::text as name
    from pg_proc p
   where p.pronamespace = 'api'::regnamespace
     and not (has_function_privilege('service_role', p.oid, 'execute')
              and has_schema_privilege('service_role', 'api', 'usage'))
   order by 1`;

const EXPOSED = `
  select split_part(s.setting, '=', 2) as schemas
    from pg_roles r left join lateral (
      select unnest(r.rolconfig) as setting
    ) s on s.setting like 'pgrst.db_schemas=%'
   where r.rolname = 'authenticator'`;

/** Policies that let strangers read objects, and are not about another bucket. */
const LISTING = `
  select policyname as name from pg_policies
   where schemaname = 'storage' and tablename = 'objects' and cmd in ('SELECT', 'ALL') and permissive = 'PERMISSIVE'
     and roles && array['public', 'anon', 'authenticated']::name[]
     and (qual ~ 'agent-state' or qual !~ 'bucket_id')`;

const WAITING = `
  select (select count(*)::int from app.mail_outbox
           where sent_at is null and given_up_at is null and created_at < now() - interval '1 hour') as mails,
         (select max(last_error) from app.mail_outbox
           where sent_at is null and given_up_at is null and created_at < now() - interval '1 hour') as mail_error,
         (select count(*)::int from app.webhook_deliveries
           where status = 'pending' and next_attempt_at < now() - interval '15 minutes') as deliveries`;

/** Looks at everything, one thing after another; what cannot be looked at is a finding as well. */
export async function lookInside(sql: Queryable): Promise<Finding[]> {
  const findings = [await checkVersion(sql), await checkDurability(sql)];
  const migrated = await attempt("migrations", () => checkMigrations(sql));
  findings.push(migrated);
  const { rows: [{ usable }] } = await sql.query(
    "select to_regproc('api.read_schedule') is not null as usable",
  );
  // Without the schema there is nothing more to look at.
  if (!usable) return findings;
  const checks: [string, () => Promise<Finding>][] = [
    ["grants", () => checkGrants(sql)],
    ["service_role", () => checkService(sql)],
    ["row security", () => checkRowSecurity(sql)],
    ["REST layer", () => checkExposure(sql)],
    ["bucket's row", () => checkBucketRow(sql)],
    ["database clock", () => checkClock(sql)],
    ["queues", () => checkQueues(sql)],
    ["invariants", () => checkInvariants(sql)],
  ];
  for (const [check, look] of checks) findings.push(await attempt(check, look));
  return findings;
}

/** Runs a check; what keeps it from looking is what it found. */
export async function attempt(check: string, look: () => Promise<Finding>): Promise<Finding> {
  try {
    return await look();
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    return fail(
      check,
      `could not be looked at: ${reason}`,
      "Does --db log in as the owner of the schemas (postgres)?",
    );
  }
}

async function checkVersion(sql: Queryable): Promise<Finding> {
  const { rows: [{ version }] } = await sql.query("select current_setting('server_version') as version");
  return parseInt(version) >= POSTGRES_MIN ? ok("Postgres", version) : fail(
    "Postgres",
    `${version} is too old`,
    `Upgrade to ${POSTGRES_MIN} or newer; 17 is what Supabase runs.`,
  );
}

/** What is acknowledged has to be on disk. */
async function checkDurability(sql: Queryable): Promise<Finding> {
  const { rows } = await sql.query(
    `select name from pg_settings
      where name in ('fsync', 'full_page_writes', 'synchronous_commit') and setting = 'off'`,
  );
  const names = rows.map(({ name }) => name).join(", ");
  return rows.length === 0 ? ok("durability", "what is committed is on disk") : fail(
    "durability",
    `${names} off: a crash loses what was acknowledged`,
    "Set to on in postgresql.conf.",
  );
}

async function checkMigrations(sql: Queryable): Promise<Finding> {
  const { rows: [{ kept }] } = await sql.query(
    "select to_regclass('supabase_migrations.schema_migrations') is not null as kept",
  );
  const applied: string[] = kept
    ? (await sql.query("select version from supabase_migrations.schema_migrations order by 1")).rows
      .map((row) => row.version)
    : [];
  const known = await listVersions();
  const missing = known.filter((version) => !applied.includes(version));
  const newer = applied.filter((version) => version > known.at(-1)!);
  if (missing.length > 0) {
    const names = missing.length > 3 ? `${missing.slice(0, 3).join(", ")} …` : missing.join(", ");
    return fail(
      "migrations",
      `${missing.length} of ${known.length} are missing: ${names}`,
      "supabase db push --remote=<ref> --yes; self-hosted: restart the service",
    );
  }
  return newer.length > 0
    ? warn(
      "migrations",
      `the database is newer than this clone: ${newer.join(", ")}`,
      "Update the clone: git pull",
    )
    : ok("migrations", `all ${known.length} are applied`);
}

async function checkGrants(sql: Queryable): Promise<Finding> {
  const { rows } = await sql.query(LEAKS);
  if (rows.length === 0) {
    return ok("grants", "api and app are closed to anon, authenticated and everybody else");
  }
  const [{ who, privilege, kind, name }] = rows;
  const more = rows.length > 1 ? `, and ${rows.length - 1} more` : "";
  return fail(
    "grants",
    `${who} has ${privilege} on ${kind} ${name}${more}`,
    `revoke ${privilege} on ${kind} ${name} from ${who === "everybody" ? "public" : who};`,
  );
}

async function checkService(sql: Queryable): Promise<Finding> {
  const { rows } = await sql.query(NOT_CALLABLE);
  return rows.length === 0
    ? ok("service_role", "may call every function of api")
    : fail("service_role", `may not call ${rows[0].name} (${rows.length} in all)`, MIGRATIONS);
}

async function checkRowSecurity(sql: Queryable): Promise<Finding> {
  const { rows } = await sql.query(
    `select oid::regclass::text as name from pg_class
      where relnamespace = 'app'::regnamespace and relkind in ('r', 'p') and not relrowsecurity order by 1`,
  );
  return rows.length === 0 ? ok("row security", "on every table") : fail(
    "row security",
    `off on ${rows.map(({ name }) => name).join(", ")}`,
    `alter table ${rows[0].name} enable row level security;`,
  );
}

async function checkExposure(sql: Queryable): Promise<Finding> {
  const { rows } = await sql.query(EXPOSED);
  if (rows.length === 0) return ok("REST layer", "none here: the service connects by itself");
  const schemas: string[] = (rows[0].schemas ?? "").split(",").map((name: string) => name.trim());
  if (schemas.includes("app")) {
    return fail(
      "REST layer",
      "exposes schema app",
      "Take app off the exposed schemas (Dashboard → API settings).",
    );
  }
  return schemas.includes("api") ? ok("REST layer", "exposes api, and not app") : fail(
    "REST layer",
    `does not expose schema api, only ${schemas.join(", ")}`,
    "Add api to the exposed schemas (Dashboard → API settings, or supabase config push).",
  );
}

async function checkBucketRow(sql: Queryable): Promise<Finding> {
  const { rows: [{ hosted }] } = await sql.query(
    "select to_regclass('storage.buckets') is not null as hosted",
  );
  if (!hosted) return ok("bucket's row", "none here: blobs are files");
  const { rows: [bucket] } = await sql.query("select public from storage.buckets where id = 'agent-state'");
  if (bucket === undefined) {
    return fail("bucket's row", "there is no bucket agent-state", "supabase db push makes it.");
  }
  if (!bucket.public) {
    return fail(
      "bucket's row",
      "agent-state is private: restores would fail",
      "update storage.buckets set public = true where id = 'agent-state';",
    );
  }
  const { rows: policies } = await sql.query(LISTING);
  return policies.length === 0 ? ok("bucket's row", "public, and no policy lets strangers list it") : fail(
    "bucket's row",
    `the policy "${policies[0].name}" lets strangers list every object`,
    `drop policy "${policies[0].name}" on storage.objects;`,
  );
}

async function checkClock(sql: Queryable): Promise<Finding> {
  const startedAt = Date.now();
  const { rows: [{ now }] } = await sql.query(
    "select extract(epoch from clock_timestamp())::float8 * 1000 as now",
  );
  const skew = Math.round((now - (startedAt + Date.now()) / 2) / 1000);
  return Math.abs(skew) <= SKEW_SECONDS_MAX
    ? ok("database clock", `within ${Math.abs(skew)} s of this machine's`)
    : fail(
      "database clock",
      `differs by ${skew} s from this machine's`,
      "Run NTP on both: leases and schedules depend on the time.",
    );
}

async function checkQueues(sql: Queryable): Promise<Finding> {
  const { rows: [{ mails, mail_error, deliveries }] } = await sql.query(WAITING);
  if (mails > 0) {
    return warn(
      "queues",
      `${mails} mails have waited for an hour (${mail_error ?? "not tried"})`,
      "Set RESEND_API_KEY and MAIL_FROM; does the schedule run?",
    );
  }
  return deliveries > 0
    ? warn(
      "queues",
      `${deliveries} webhook deliveries are a quarter of an hour late`,
      "Does the schedule run?",
    )
    : ok("queues", "no mail and no webhook is late");
}

async function checkInvariants(sql: Queryable): Promise<Finding> {
  const broken = await findBroken(sql);
  return broken.length === 0 ? ok("invariants", "every rule of tests/invariants.sql holds") : fail(
    "invariants",
    broken.join("; "),
    "Stop the writers, keep a backup, and look at the rows that the rule's query returns.",
  );
}

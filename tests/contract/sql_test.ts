/** What the database lets whom do: tables are out of everyone's reach, functions are for the service alone. */

import assert from "node:assert/strict";
// @deno-types="npm:@types/pg@8.23.1"
import pg from "pg";
import { cloneDatabase, type ClonedDatabase } from "../support/database.ts";
import { locate, readSources, withoutSqlComments } from "./sources.ts";

const STRANGERS = ["anon", "authenticated"];
const ROLES = [...STRANGERS, "service_role"];

/** Foreign keys without `on delete`, as `table (columns)`, and why. */
const MAY_FORBID_DELETE: Record<string, string> = {};
/** Foreign keys without an index on their columns, as `table (columns)`, and why. */
const MAY_LACK_INDEX: Record<string, string> = {};

const INSUFFICIENT_PRIVILEGE = "42501";

interface Routine {
  oid: number;
  schema: string;
  signature: string;
  /** A call with a null of the right type for every argument. */
  call: string;
  definer: boolean;
  settings: string[] | null;
  trigger: boolean;
}

const ROUTINES = `
  select p.oid::int, n.nspname as schema, p.oid::regprocedure::text as signature, p.prosecdef as definer,
         p.proconfig as settings, p.prorettype = 'trigger'::regtype as trigger,
         format('select %I.%I(%s)', n.nspname, p.proname, (
           select string_agg('null::' || format_type(a.type, null), ', ' order by a.position)
             from unnest(p.proargtypes) with ordinality as a (type, position)
         )) as call
    from pg_proc p join pg_namespace n on n.oid = p.pronamespace
   where n.nspname in ('api', 'app')
   order by 3`;

/** Tables, views and sequences of both schemas. */
const RELATIONS = `
  select c.oid::int, c.oid::regclass::text as name, c.relkind as kind, c.relrowsecurity as rls, n.nspname as schema
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
   where n.nspname in ('api', 'app') and c.relkind in ('r', 'p', 'v', 'm', 'f', 'S')
   order by 2`;

const FOREIGN_KEYS = `
  select c.conrelid::regclass || ' (' || string_agg(a.attname, ', ' order by k.position) || ')' as name,
         c.confdeltype as on_delete,
         exists (
           select from pg_index i
            where i.indrelid = c.conrelid and i.indpred is null and i.indisvalid
              and (i.indkey::int2[])[0:cardinality(c.conkey) - 1] @> c.conkey
         ) as indexed
    from pg_constraint c
    cross join unnest(c.conkey) with ordinality as k (attnum, position)
    join pg_attribute a on a.attrelid = c.conrelid and a.attnum = k.attnum
   where c.contype = 'f' and c.connamespace::regnamespace::text in ('api', 'app')
   group by c.oid, c.conrelid, c.confdeltype, c.conkey
   order by 1`;

/** Who else than the owner holds a privilege on what, PUBLIC included. */
const GRANTS = `
  with objects as (
    select 'function' as kind, p.oid::regprocedure::text as name, n.nspname as schema,
           coalesce(p.proacl, acldefault('f', p.proowner)) as acl, p.proowner as owner
      from pg_proc p join pg_namespace n on n.oid = p.pronamespace
    union all
    select case c.relkind when 'S' then 'sequence' else 'table' end, c.oid::regclass::text, n.nspname,
           coalesce(c.relacl, acldefault(case c.relkind when 'S' then 's'::"char" else 'r' end, c.relowner)), c.relowner
      from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where c.relkind in ('r', 'p', 'v', 'm', 'f', 'S')
    union all
    select 'column', a.attrelid::regclass || '.' || a.attname, n.nspname, a.attacl, c.relowner
      from pg_attribute a join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace
     where a.attacl is not null
    union all
    select 'schema', n.nspname, n.nspname, coalesce(n.nspacl, acldefault('n', n.nspowner)), n.nspowner
      from pg_namespace n
  )
  select o.kind, o.name, o.schema, x.privilege_type as privilege,
         case x.grantee when 0 then 'public' else x.grantee::regrole::text end as grantee
    from objects o cross join aclexplode(o.acl) x
   where o.schema in ('api', 'app') and x.grantee <> o.owner
   order by 1, 2, 5, 4`;

interface Grant {
  kind: string;
  name: string;
  schema: string;
  privilege: string;
  grantee: string;
}

function show({ kind, name, privilege, grantee }: Grant): string {
  return `${grantee} has ${privilege} on ${kind} ${name}`;
}

/** Defines a test with a database of its own. */
function testDatabase(name: string, run: (database: ClonedDatabase) => Promise<void>): void {
  Deno.test({
    name,
    sanitizeOps: false,
    sanitizeResources: false,
    async fn() {
      const database = await cloneDatabase();
      try {
        await run(database);
      } finally {
        await database.drop();
      }
    },
  });
}

testDatabase("every function pins an empty search path", async ({ sql }) => {
  const { rows } = await sql.query<Routine>(ROUTINES);
  assert.ok(rows.some(({ schema }) => schema === "api") && rows.some(({ schema }) => schema === "app"));
  for (const { signature, settings } of rows) {
    assert.ok(settings?.includes('search_path=""'), `${signature}: ${settings?.join() ?? "nothing pinned"}`);
  }
});

testDatabase("functions of api act as their owner, and no function of app does", async ({ sql }) => {
  const { rows } = await sql.query<Routine>(ROUTINES);
  for (const { schema, signature, definer } of rows) assert.equal(definer, schema === "api", signature);
});

testDatabase("nobody but the service holds a privilege, and that only to call api", async ({ sql }) => {
  const { rows } = await sql.query<Grant>(GRANTS);
  const allowed = ({ kind, schema, privilege, grantee }: Grant) =>
    schema === "api" && grantee === "service_role" &&
    (kind === "function" && privilege === "EXECUTE" || kind === "schema" && privilege === "USAGE");
  assert.deepEqual(rows.filter((grant) => !allowed(grant)).map(show), []);
  const { rows: routines } = await sql.query<Routine>(ROUTINES);
  const callable = rows.filter(({ kind }) => kind === "function").length;
  assert.equal(
    callable,
    routines.filter(({ schema }) => schema === "api").length,
    "the service may call all of api",
  );
});

testDatabase(
  "no role has privileges by membership or default that its grants do not show",
  async ({ sql }) => {
    const { rows } = await sql.query<{ role: string; signature: string }>(
      `
    select r.rolname as role, f.signature
      from (${ROUTINES}) f cross join pg_roles r
     where r.rolname = any ($1) and has_function_privilege(r.rolname, f.oid, 'execute')
       and not (f.schema = 'api' and r.rolname = 'service_role')`,
      [ROLES],
    );
    assert.deepEqual(rows, []);
    const { rows: relations } = await sql.query(
      `
    select r.rolname as role, t.name
      from (${RELATIONS}) t cross join pg_roles r
     where r.rolname = any ($1) and case t.kind
       when 'S' then has_sequence_privilege(r.rolname, t.oid, 'usage, select, update')
       else has_any_column_privilege(r.rolname, t.oid, 'select, insert, update, references')
         or has_table_privilege(r.rolname, t.oid, 'delete, truncate, trigger') end`,
      [ROLES],
    );
    assert.deepEqual(relations, []);
  },
);

testDatabase(
  "functions and tables made later are closed by default to all but their owner",
  async ({ sql }) => {
    await sql.query("create table app.later (id bigint generated always as identity primary key)");
    const { rows } = await sql.query<Grant>(GRANTS);
    assert.deepEqual(rows.filter(({ name }) => name.startsWith("app.later")).map(show), []);
  },
);

testDatabase("every table has row level security, and api holds no table at all", async ({ sql }) => {
  const { rows } = await sql.query(RELATIONS);
  assert.ok(rows.length > 0);
  for (const { name, schema, kind, rls } of rows) {
    assert.equal(schema, "app", `${name} lies in schema ${schema}`);
    if (kind !== "S") assert.ok(rls, `${name} has no row level security`);
  }
});

testDatabase("every foreign key says what a delete does, and is indexed on its own side", async ({ sql }) => {
  const { rows } = await sql.query<{ name: string; on_delete: string; indexed: boolean }>(FOREIGN_KEYS);
  assert.ok(rows.length > 0);
  for (const { name, on_delete, indexed } of rows) {
    assert.ok(on_delete !== "a" || name in MAY_FORBID_DELETE, `${name} does not say what a delete does`);
    assert.ok(
      indexed || name in MAY_LACK_INDEX,
      `${name} has no index: each delete would read the whole table`,
    );
  }
});

for (const role of STRANGERS) {
  testDatabase(`${role} is refused at every function and every table`, async ({ url, sql }) => {
    const { rows: routines } = await sql.query<Routine>(ROUTINES);
    const { rows: relations } = await sql.query<{ name: string }>(RELATIONS);
    const attempts = [
      ...routines.filter(({ trigger }) => !trigger).map(({ call }) => call),
      ...relations.flatMap(({ name }) => [`select from ${name}`, `select * from ${name} limit 0`]),
    ];
    await asRole(url, role, async (client) => {
      for (const attempt of attempts) {
        assert.equal(await refusal(client, attempt), INSUFFICIENT_PRIVILEGE, attempt);
      }
    });
  });
}

testDatabase(
  "the service can call api and is refused at every table and every internal",
  async ({ url, sql }) => {
    const { rows: routines } = await sql.query<Routine>(ROUTINES);
    const { rows: relations } = await sql.query<{ name: string }>(RELATIONS);
    await asRole(url, "service_role", async (client) => {
      for (const { schema, call, trigger } of routines) {
        if (trigger) continue;
        const code = await refusal(client, `begin; ${call}; rollback`);
        await client.query("rollback");
        // What nulls lead to is not the point here: being let in is.
        if (schema === "api") assert.notEqual(code, INSUFFICIENT_PRIVILEGE, call);
        else assert.equal(code, INSUFFICIENT_PRIVILEGE, call);
      }
      for (const { name } of relations) {
        assert.equal(await refusal(client, `select * from ${name} limit 0`), INSUFFICIENT_PRIVILEGE, name);
      }
    });
  },
);

/** Runs `work` on a connection that acts as `role`. */
async function asRole(url: string, role: string, work: (client: pg.Client) => Promise<void>): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(`set role ${role}`);
    await work(client);
  } finally {
    await client.end();
  }
}

/** The SQLSTATE that a statement is refused with, or undefined. */
async function refusal(client: pg.Client, statement: string): Promise<string | undefined> {
  try {
    await client.query(statement);
    return undefined;
  } catch (error) {
    return (error as { code?: string }).code;
  }
}

Deno.test("every function in a migration is followed by its revoke, and in api by its grant", () => {
  const wrong: string[] = [];
  for (const migration of readSources("supabase/migrations", ".sql")) {
    const source = { path: migration.path, text: withoutSqlComments(migration.text) };
    const heads = Array.from(
      source.text.matchAll(/^create (?:or replace )?function ((api|app)\.\w+)\s*\(/gm),
    );
    for (const [i, { 1: name, 2: schema, index }] of heads.entries()) {
      const section = source.text.slice(index, heads[i + 1]?.index);
      const revoke = `revoke execute on function ${name}\\([^;]*\\)\\s+from public, anon, authenticated;`;
      const grant = `grant execute on function ${name}\\([^;]*\\)\\s+to service_role;`;
      if (!new RegExp(revoke).test(section)) wrong.push(`${locate(source, index)}: ${name} is not revoked`);
      if (new RegExp(grant).test(section) !== (schema === "api")) {
        wrong.push(
          `${locate(source, index)}: ${name} is ${schema === "api" ? "not " : ""}granted to service_role`,
        );
      }
    }
  }
  assert.deepEqual(wrong, []);
});

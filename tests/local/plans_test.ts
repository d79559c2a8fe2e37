/** Every statement that runs at every request finds its rows by index, in tables large, small and suddenly grown. */

import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
// @deno-types="npm:@types/pg@8.23.1"
import pg from "pg";
import { cloneDatabase, type ClonedDatabase } from "../support/database.ts";

const LOGS = 5_000;
const ENTRIES_EACH = 10;

/** What a request may touch of these it must find by index. */
const HOT = [
  ...["accounts", "agents", "api_keys", "credit_ledger", "devices", "log_entries", "logs"],
  ...["owners", "snapshot_attempts", "snapshots", "usage_cycles", "webhooks"],
];

const PAGED = ["read_log", "list_lineage"];

/** A log is one of few of its member, or the one of its owner and member: either is a look at one row. */
const LOG = "logs_(owner_id_member_id_key|by_member)";
const AGENT = "agents_owner_id_agent_id_key";

/** Each call, and the indexes that it cannot do without (patterns). */
const CALLS: { name: string; sql: string; indexes: string[] }[] = [
  {
    name: "append_log",
    sql:
      `select api.append_log('live', $1, sha256('d'), array[$2::bigint], array[$3::bytea], array[$4::bytea],
            null, null, sha256('r'), 1000000000, 0.1)`,
    indexes: ["api_keys_key_hash_key", LOG, "accounts_pkey", "usage_cycles_pkey"],
  },
  {
    name: "append_logs",
    sql: `select api.append_logs('{live}', array[$1::bytea], array[sha256('d')], array[sha256('r')], '{0.1}',
            array[$2::bigint], array[$2::bigint], '{1}', '{32}', '{1}', array[$2::bigint], array[$3::bytea],
            array[$4::bytea], null, null, 1000000000)`,
    indexes: ["api_keys_key_hash_key", LOG, "accounts_pkey"],
  },
  {
    name: "a repeated append_logs",
    sql: `select api.append_logs('{live}', array[$1::bytea], array[sha256('d')], array[sha256('r')], '{0.1}',
            '{1}', '{1}', '{1}', '{32}', '{1}', '{1}', array[sha256('block')], array[$4::bytea], null, null,
            1000000000) where $2::bigint > 0 and $3::bytea is not null`,
    indexes: ["log_entries_pkey", LOG],
  },
  {
    name: "read_head",
    sql: read("read_head('live', $1)"),
    indexes: ["api_keys_key_hash_key", LOG],
  },
  {
    name: "read_heads",
    sql: read("read_heads('{live}', array[$1::bytea])"),
    indexes: ["api_keys_key_hash_key", LOG],
  },
  {
    name: "read_log",
    sql: read("read_log('live', $1, 0, 1000000, 1000, 1048576)"),
    indexes: ["log_entries_pkey"],
  },
  {
    name: "read_metadatas",
    sql: read("read_metadatas('{live}', array[$1::bytea])"),
    indexes: [LOG, "usage_cycles_pkey", "devices_pkey"],
  },
  {
    name: "begin_snapshot",
    sql:
      `select api.begin_snapshot('live', $1, 'agent', 1, 'p', sha256('p'), $3, 32, 't', 'path', gen_random_uuid(),
            'object ' || $2::bigint || encode($4::bytea, 'hex'), 600, 1000000000)`,
    indexes: [AGENT, "accounts_pkey"],
  },
  {
    name: "read_snapshot",
    sql: read("read_snapshot('live', $1, 'agent', null)"),
    indexes: [AGENT, "snapshots_confirmed"],
  },
  {
    name: "list_lineage",
    sql: read("list_lineage('live', $1, 'agent', 100)"),
    indexes: ["snapshots_confirmed"],
  },
  {
    name: "record_reads",
    sql: read("record_reads('{live}', array[$1::bytea], array[null::bytea], '{1}')"),
    indexes: ["api_keys_key_hash_key", "usage_cycles_pkey"],
  },
];

function read(call: string): string {
  return `select * from api.${call} where $2::bigint > 0 and $3::bytea is not null and $4::bytea is not null`;
}

testPlans("in tables that are large and known to be", async ({ sql, url }) => {
  await fill(sql, 0, LOGS);
  await sql.query("vacuum analyze");
  await withPlans(url, assertByIndex);
});

testPlans("in tables that have grown since the plans were made", async ({ sql, url }) => {
  await fill(sql, 0, 3);
  await sql.query("vacuum analyze");
  await withPlans(url, async (explain) => {
    for (const { sql } of CALLS) for (let i = 0; i < 7; i++) await explain(sql, i % 3);
    // The statistics stay as they are: nobody has analysed anything yet.
    await fill(sql, 3, LOGS);
    await assertByIndex(explain, ["record_reads"]);
  });
});

/** Runs a call as one of the callers and returns the plans of all statements inside it. */
type Explain = (sql: string, caller: number) => Promise<string[]>;

async function assertByIndex(explain: Explain, without: string[] = []): Promise<void> {
  for (const { name, sql, indexes } of CALLS.filter((call) => !without.includes(call.name))) {
    const plans = await explain(sql, 2);
    const text = plans.join("\n");
    assert.ok(plans.length > 1, `${name}: the statements inside it are not seen`);
    for (const table of HOT) {
      assert.ok(
        !new RegExp(`Seq Scan on (app\\.)?${table}\\b`).test(text),
        `${name} reads ${table}:\n${text}`,
      );
    }
    // Pages are read in the index's order: gathering what follows would mean reading all of it.
    if (PAGED.includes(name)) {
      assert.ok(!/Bitmap|Sort/.test(text), `${name} gathers before it answers:\n${text}`);
    }
    for (const index of indexes) {
      assert.match(text, new RegExp(`(using|on) ${index} `), `${name} does not use ${index}:\n${text}`);
    }
  }
}

/** A connection that tells the plan of every statement that it runs. */
async function withPlans(url: string, work: (explain: Explain) => Promise<void>): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  let plans: string[] = [];
  client.on("notice", ({ message }) => plans.push(message ?? ""));
  await client.connect();
  try {
    await client.query(`
      load 'auto_explain';
      set auto_explain.log_min_duration = 0;
      set auto_explain.log_nested_statements = on;
      set auto_explain.log_level = notice;
      set jit = off`);
    const sequence = ENTRIES_EACH;
    await work(async (sql, caller) => {
      plans = [];
      const block = randomBytes(32);
      await client.query("begin");
      const values = [keyHash(caller), sequence, createHash("sha256").update(block).digest(), block];
      await client.query({ name: createHash("md5").update(sql).digest("hex"), text: sql, values });
      await client.query("rollback");
      return plans;
    });
  } finally {
    await client.end();
  }
}

/** Accounts from one number to another, each with a key, a log, an agent with a snapshot, a device and a past. */
async function fill(sql: ClonedDatabase["sql"], from: number, to: number): Promise<void> {
  await sql.query(
    `do $$
     begin
       create temp table people on commit drop as
         select i, gen_random_uuid() as id from generate_series(${from}, ${to - 1}) i;
       insert into app.owners (id, kind) select id, 'user' from people;
       insert into app.accounts (id, subject, credits_milli, stored_bytes)
         select id, 'user-' || i, 1000000000, ${ENTRIES_EACH} * 5 from people;
       insert into app.credit_ledger (account_id, kind, amount_milli, reference)
         select id, 'grant', 1000000000, gen_random_uuid() from people;
       insert into app.api_keys (account_id, name, key_hash, masked_key)
         select id, 'key', sha256(('key ' || i)::bytea), 'masked' from people;
       insert into app.devices (owner_id, device_hash) select id, sha256('d') from people;
       insert into app.usage_cycles (owner_id, cycle_start)
         select id, date_trunc('month', now(), 'UTC') from people;
       insert into app.logs (owner_id, member_id, first_sequence, head_sequence, merkle_root, total_bytes)
         select id, id, 0, ${ENTRIES_EACH - 1}, sha256('r'), ${ENTRIES_EACH} * 5 from people;
       insert into app.log_entries (log_id, sequence_number, block_hash, ciphertext, merkle_root)
         select l.id, s, sha256('block'), 'block', sha256('r')
           from app.logs l join people p on p.id = l.owner_id, generate_series(0, ${ENTRIES_EACH - 1}) s;
       insert into app.agents (owner_id, agent_id, head_sequence) select id, 'agent', 0 from people;
       insert into app.snapshots (agent_ref, account_id, sequence_number, status, storage_path, policy_hash,
           client_payload_hash, byte_size, cost_milli, client_timestamp, object_name, confirmed_at)
         select a.id, a.owner_id, 0, 'confirmed', 'path', sha256('p'), sha256('h'), 1, 0, 't', 'object ' || a.id, now()
           from app.agents a join people p on p.id = a.owner_id;
     end
     $$`,
  );
}

/** The hash that `fill` gives the key of an account. */
function keyHash(caller: number): Uint8Array {
  return createHash("sha256").update(`key ${caller}`).digest();
}

function testPlans(name: string, run: (database: ClonedDatabase) => Promise<void>): void {
  Deno.test({
    name: `hot statements use their indexes ${name}`,
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

/** POST /retention/purge: what is over goes, in small batches; what anybody still needs stays. Spec 4.8. */

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { RETENTION, retentionDays } from "../../supabase/functions/_shared/domain/retention.ts";
import { purge } from "../../supabase/functions/v2-agent-state/flows/purge.ts";
import { newPaidKey, newProjectToken, snapshotBody } from "../support/factories.ts";
import { onEveryBackend, onOneBackend, type World } from "../support/harness.ts";
import { callJob, CRON_SECRET, endLeases, runJob, withJobs } from "../support/jobs.ts";
import { accountIdOf, newPerson } from "../support/people.ts";
import { newTeam } from "../support/teams.ts";

const PURGE = "/retention/purge";
const DRY = `${PURGE}?dry_run=1`;

onEveryBackend((test) => {
  test("only whoever has the cron secret may purge", async (world) => {
    const service = withJobs(world);
    const wrong: Record<string, string>[] = [{}, { authorization: "Bearer wrong" }, {
      authorization: CRON_SECRET,
    }];
    for (const headers of wrong) {
      const answer = await service.request("POST", PURGE, { headers, body: {} });
      assert.deepEqual([answer.status, answer.body.error], [401, "invalid_cron_secret"]);
    }
    const off = await world.request("POST", PURGE, { token: CRON_SECRET });
    assert.deepEqual([off.status, off.body.error], [503, "cron_not_configured"]);
    assert.equal((await service.request("GET", PURGE, { token: CRON_SECRET })).status, 404);
  });

  test("a dry run counts what a run then removes, and changes nothing", async (world) => {
    const rows = await leaveRowsBehind(world);
    const service = withJobs(world);
    const before = await contents(world);
    const dry = await runJob(service, DRY);
    assert.deepEqual(await contents(world), before);
    assert.deepEqual([dry.dry_run, dry.complete], [true, true]);
    assert.deepEqual(dry.purged, rows.expected);

    const { dry_run, complete, purged, lapsed_snapshots } = await runJob(service, PURGE);
    assert.deepEqual([dry_run, complete, lapsed_snapshots], [false, true, dry.lapsed_snapshots]);
    assert.deepEqual(purged, dry.purged);
    for (const [table, id] of rows.gone) {
      assert.equal(await exists(world, table, id), false, `${table} ${id}`);
    }
    for (const [table, id] of rows.kept) assert.equal(await exists(world, table, id), true, `${table} ${id}`);
    const again = await runJob(service, PURGE);
    assert.deepEqual(Object.values(again.purged), Object.values(again.purged).map(() => 0));
  });

  test("a lapsed upload is refunded at once, and its object is removed a day later", async (world) => {
    const service = withJobs(world);
    const { token, accountId } = await newPaidKey(world, 1_000);
    const stored = await abandonUpload(world, token);
    await world.sql.query(
      `update app.snapshot_attempts set lease_expires_at = now() - interval '1 second'
        where snapshot_id in (select id from app.snapshots where account_id = $1)`,
      [accountId],
    );
    assert.equal((await runJob(service, DRY)).lapsed_snapshots, 1);
    const first = await runJob(service, PURGE);
    assert.deepEqual([first.lapsed_snapshots, first.purged.failed_uploads], [1, 0]);
    const { rows } = await world.sql.query("select credits_milli from app.accounts where id = $1", [
      accountId,
    ]);
    assert.equal(Number(rows[0].credits_milli), 1_000);
    assert.equal((await fetch(stored.url)).status, 200);

    await endLeases(world);
    assert.equal((await runJob(service, PURGE)).purged.failed_uploads, 1);
    const gone = await fetch(stored.url);
    await gone.body?.cancel();
    assert.ok(gone.status >= 400, "the object is gone");
  });

  test("a store that is away is 503; rows go all the same, and objects with the next run", async (world) => {
    const { token } = await newPaidKey(world, 1_000);
    await abandonUpload(world, token);
    await endLeases(world);
    await world.sql.query(
      "insert into app.rate_limits (bucket, window_start) values ($1, now() - interval '3 days')",
      [randomBytes(32)],
    );
    const away = withJobs(world, { blobs: { remove: () => Promise.reject(new Error("away")) } });
    const answer = await callJob(away, PURGE);
    assert.deepEqual([answer.status, answer.body.error], [503, "storage_unavailable"]);
    assert.ok(Number(answer.headers.get("retry-after")) >= 1);
    const { purged } = await runJob(withJobs(world), PURGE);
    assert.deepEqual([purged.failed_uploads, purged.rate_limits], [1, 0]);
  });
});

onOneBackend((test) => {
  test("thousands of rows go, and two runs at once remove each of them once", async (world) => {
    await world.sql.query(`
      insert into app.rate_limits (bucket, window_start)
      select sha256(i::text::bytea), now() - interval '3 days' from generate_series(1, 3210) i`);
    const service = withJobs(world);
    const reports = await Promise.all([1, 2, 3, 4].map(() => runJob(service, PURGE)));
    assert.equal(reports.reduce((sum, { purged }) => sum + purged.rate_limits, 0), 3210);
    assert.equal((await runJob(service, DRY)).purged.rate_limits, 0);
  });

  test("a run whose time is over says that it is not complete, and the next one goes on", async (world) => {
    await world.sql.query(
      "insert into app.rate_limits (bucket, window_start) values ($1, now() - interval '3 days')",
      [randomBytes(32)],
    );
    const late = await purge(world.platform, retentionDays({}), 0);
    assert.deepEqual([late.complete, late.purged.rate_limits], [false, 0]);
    const next = await purge(world.platform, retentionDays({}));
    assert.deepEqual([next.complete, next.purged.rate_limits], [true, 1]);
  });

  test("usage of closed cycles is added up: recallRequests never falls", async (world) => {
    const { token, accountId } = await newPaidKey(world);
    await world.sql.query(
      `insert into app.usage_cycles (owner_id, cycle_start, sync_ops, store_ops, recall_requests, bytes_stored)
       select $1, date_trunc('month', now()) - make_interval(months => i), 1, 2, 3, 4 from generate_series(1, 60) i`,
      [accountId],
    );
    const recalls = async () => (await world.request("GET", "/metadata", { token })).body.recallRequests;
    assert.equal(await recalls(), 180);
    const service = withJobs(world);
    const { purged } = await runJob(service, PURGE);
    assert.ok(purged.usage_cycles >= 46, `${purged.usage_cycles}`);
    assert.ok(await recalls() >= 180);
    const { rows } = await world.sql.query(
      `select sum(sync_ops) as sync_ops, sum(bytes_stored) as bytes, count(*) as cycles
         from app.usage_cycles where owner_id = $1 and cycle_start < now() - interval '1 month'`,
      [accountId],
    );
    assert.ok(Number(rows[0].sync_ops) >= 59 && Number(rows[0].bytes) >= 236);
    assert.ok(Number(rows[0].cycles) <= 15);
  });

  test("a cycle that still runs is kept, however long ago it began", async (world) => {
    const { accountId } = await newPaidKey(world);
    await world.sql.query(
      "update app.accounts set period_start = now() - interval '500 days' where id = $1",
      [
        accountId,
      ],
    );
    await world.sql.query(
      `insert into app.usage_cycles (owner_id, cycle_start, sync_ops)
       select id, period_start, 5 from app.accounts where id = $1`,
      [accountId],
    );
    await runJob(withJobs(world), PURGE);
    const { rows } = await world.sql.query(
      `select sync_ops from app.usage_cycles u
         join app.accounts a on a.id = u.owner_id and a.period_start = u.cycle_start where a.id = $1`,
      [accountId],
    );
    assert.deepEqual(rows.map(({ sync_ops }) => Number(sync_ops)), [5]);
  });

  test("what the operator says instead counts, and a parameter that says nothing is refused", async (world) => {
    const { rows } = await world.sql.query(
      `insert into app.mail_outbox (kind, recipient, facts, sent_at)
       values ('seat_added', 'a@example.com', '{}', now() - interval '3 days') returning id`,
    );
    await runJob(withJobs(world), PURGE);
    assert.ok(await exists(world, "mail_outbox", rows[0].id));
    await runJob(withJobs(world, { settings: { retention: retentionDays({ mail_sent: 2 }) } }), PURGE);
    assert.ok(!await exists(world, "mail_outbox", rows[0].id));
    for (const dry_run of ["", "yes", "2"]) {
      const answer = await callJob(withJobs(world), `${PURGE}?dry_run=${dry_run}`);
      assert.deepEqual([answer.status, answer.body.error], [400, "invalid_field:dry_run"]);
    }
  });
});

/** A snapshot whose worker dies once the blob is stored. */
async function abandonUpload(world: World, token: string): Promise<{ url: string }> {
  const { promise, resolve } = Promise.withResolvers<string>();
  const dying = world.with({
    blobs: {
      async put(name, bytes) {
        await world.platform.blobs.put(name, bytes);
        resolve(name);
        await new Promise(() => {});
      },
    },
  });
  void dying.request("POST", "/snapshot", { token, body: snapshotBody({ agent_id: crypto.randomUUID() }) });
  return { url: world.platform.blobs.publicUrl(await promise) };
}

/** For each rule a row that is over for long enough, and beside it those that are not or that somebody needs. */
async function leaveRowsBehind(world: World) {
  const team = await newTeam(world);
  const guest = await newPerson(world);
  const accountId = await accountIdOf(world, team.owner);
  await accountIdOf(world, guest);
  const failedToken = newProjectToken();
  const broken = world.with({ blobs: { put: () => Promise.reject(new Error("away")) } });
  await broken.request("POST", "/snapshot", { token: failedToken, body: snapshotBody() });
  await endLeases(world);
  const expected = Object.fromEntries(Object.keys(RETENTION).map((name) => [name, 1]));
  const gone: [string, string][] = [];
  const kept: [string, string][] = [];
  async function leave(list: [string, string][], table: string, columns: string, select: string) {
    const { rows } = await world.sql.query(
      `insert into app.${table} (${columns}) select ${select} returning ${table}::text as row`,
    );
    list.push([table, rows[0].row]);
  }
  const bytes = () => `'\\x${randomBytes(32).toString("hex")}'`;
  const failed = `'failed', 'x', ${bytes()}, ${bytes()}, 1, 0, ''`;
  const { rows: [agent] } = await world.sql.query("select agent_ref, account_id from app.snapshots limit 1");
  const snapshot =
    "agent_ref, account_id, sequence_number, status, storage_path, policy_hash, client_payload_hash, " +
    "byte_size, cost_milli, client_timestamp, created_at";
  const of = `${agent.agent_ref}, '${agent.account_id}', 0, ${failed}`;
  await leave(gone, "snapshots", snapshot, `${of}, now() - interval '31 days'`);
  await leave(kept, "snapshots", snapshot, `${of}, now() - interval '29 days'`);

  const invitation = "team_id, kind, email, role, invited_by, expires_at, accepted_at";
  const invited = `'${team.id}', 'member', 'a@example.com', 'read', '${accountId}'`;
  await leave(gone, "team_invitations", invitation, `${invited}, now() - interval '31 days', null`);
  await leave(kept, "team_invitations", invitation, `${invited}, now() - interval '29 days', null`);
  await leave(
    kept,
    "team_invitations",
    invitation,
    `${invited}, now() - interval '1 year', now() - interval '1 year'`,
  );

  const mail = "kind, recipient, facts, created_at, sent_at, given_up_at";
  const old = `'seat_added', 'a@example.com', '{}', now() - interval '1 year'`;
  await leave(gone, "mail_outbox", mail, `${old}, now() - interval '31 days', null`);
  await leave(gone, "mail_outbox", mail, `${old}, null, now() - interval '91 days'`);
  await leave(kept, "mail_outbox", mail, `${old}, now() - interval '29 days', null`);
  await leave(kept, "mail_outbox", mail, `${old}, null, now() - interval '89 days'`);
  await leave(kept, "mail_outbox", mail, `${old}, null, null`);

  const hook = "id, account_id, url, events, secret, deleted_at";
  const [live, dead, told] = [1, 2, 3].map(() => crypto.randomUUID());
  const url = `'${accountId}', 'https://a.example', array['*']`;
  await leave(kept, "webhooks", hook, `'${live}', ${url}, ${bytes()}, null`);
  await leave(gone, "webhooks", hook, `'${dead}', ${url}, null, now() - interval '2 days'`);
  await leave(kept, "webhooks", hook, `'${told}', ${url}, null, now() - interval '2 days'`);
  const delivery = "webhook_id, event_type, payload, status, created_at";
  await leave(
    gone,
    "webhook_deliveries",
    delivery,
    `'${live}', 'a.b', '', 'canceled', now() - interval '31 days'`,
  );
  await leave(
    kept,
    "webhook_deliveries",
    delivery,
    `'${live}', 'a.b', '', 'pending', now() - interval '31 days'`,
  );
  await leave(
    kept,
    "webhook_deliveries",
    delivery,
    `'${told}', 'a.b', '', 'canceled', now() - interval '29 days'`,
  );

  const entry = "team_id, agent_key, op, bytes, latency_ms, synced_at";
  await leave(gone, "team_sync_log", entry, `'${team.id}', 'a', 'write', 1, 1, now() - interval '91 days'`);
  await leave(kept, "team_sync_log", entry, `'${team.id}', 'a', 'write', 1, 1, now() - interval '89 days'`);
  await leave(gone, "usage_cycles", "owner_id, cycle_start", `'${accountId}', now() - interval '401 days'`);
  await leave(kept, "usage_cycles", "owner_id, cycle_start", `'${accountId}', now() - interval '399 days'`);
  const device = "owner_id, device_hash, last_seen_at";
  await leave(gone, "devices", device, `'${accountId}', ${bytes()}, now() - interval '91 days'`);
  await leave(kept, "devices", device, `'${accountId}', ${bytes()}, now() - interval '89 days'`);
  await leave(gone, "rate_limits", "bucket, window_start", `${bytes()}, now() - interval '25 hours'`);
  await leave(kept, "rate_limits", "bucket, window_start", `${bytes()}, now() - interval '23 hours'`);
  const contact = "address_hash, email, created_at, confirmed_at";
  const address = () => `${bytes()}, 'a@example.com'`;
  await leave(gone, "marketing_contacts", contact, `${address()}, now() - interval '8 days', null`);
  await leave(kept, "marketing_contacts", contact, `${address()}, now() - interval '6 days', null`);
  await leave(kept, "marketing_contacts", contact, `${address()}, now() - interval '8 days', now()`);
  return { expected, gone, kept };
}

async function exists(world: World, table: string, row: string): Promise<boolean> {
  const column = row.startsWith("(") ? `${table}::text` : "id::text";
  const { rows } = await world.sql.query(`select 1 from app.${table} where ${column} = $1`, [row]);
  return rows.length > 0;
}

/** All rows of all tables, as text. */
async function contents(world: World): Promise<Record<string, string>> {
  const { rows: tables } = await world.sql.query(
    "select tablename from pg_tables where schemaname = 'app' order by 1",
  );
  const all: Record<string, string> = {};
  for (const { tablename } of tables) {
    const { rows } = await world.sql.query(
      `select coalesce(string_agg(t::text, '|' order by t::text), '') as text from app.${tablename} t`,
    );
    all[tablename] = rows[0].text;
  }
  return all;
}

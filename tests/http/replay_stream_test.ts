/** GET /replay over real HTTP: bounded memory, slow and vanishing readers, and never a false end. Spec 4.2. */

import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { randomBytes } from "node:crypto";
import { readSettings } from "../../supabase/functions/_shared/env.ts";
import type { Database } from "../../supabase/functions/_shared/platform/mod.ts";
import { createApp } from "../../supabase/functions/v2-agent-state/app.ts";
import { eventually, settled } from "../support/eventually.ts";
import { newProjectToken, sha256Hex, ZERO_HASH } from "../support/factories.ts";
import { onOneBackend, type World } from "../support/harness.ts";

const BLOCK = randomBytes(262_144);
const MEGABYTE = 1024 * 1024;
/** What a hosted isolate has for everything. */
const MEMORY_MAX = 256 * MEGABYTE;
/** More than the buffers of a connection ever hold. */
const ENOUGH_TO_STALL = 200;
/** Entries of {@link BLOCK} that fit into one call to the database. */
const ENTRIES_A_CALL = 4;
const SLOW_READERS = 8;

onOneBackend((test) => {
  test("GET /replay sends 1000 chunks of 256 KiB in less memory than a hosted isolate has", async (world) => {
    const token = await fillLog(world, 1000);
    await using child = await startChild(world);
    const response = await replay(child.origin, token);
    let received = 0;
    let tail = "";
    for await (const part of response.body!) {
      received += part.length;
      tail = (tail + new TextDecoder().decode(part.subarray(-64))).slice(-64);
    }
    assert.equal(received, replayLength(1000));
    assert.ok(tail.endsWith('"}],"count":1000,"has_more":false}'), tail);
    const peak = await child.memory("VmHWM");
    assert.ok(peak < MEMORY_MAX, `peak of ${Math.round(peak / MEGABYTE)} MB`);
  });

  test("readers that stop reading hold neither memory nor a database connection, and may go on later", async (world) => {
    const token = await fillLog(world, ENOUGH_TO_STALL);
    await using child = await startChild(world);
    const readers = await Promise.all(Array.from({ length: SLOW_READERS }, async () => {
      const reader = (await replay(child.origin, token)).body!.getReader();
      return { reader, received: (await reader.read()).value!.length };
    }));
    await settled("the process's memory", () => child.memory("VmRSS"), MEGABYTE);
    assert.equal(await settled("the count of busy connections", () => busyConnections(world)), 0);
    const head = await fetch(`${child.origin}/head`, { headers: { authorization: `Bearer ${token}` } });
    assert.equal((await head.json()).sequence_number, ENOUGH_TO_STALL - 1);
    const peak = await child.memory("VmHWM");
    assert.ok(peak < MEMORY_MAX, `peak of ${Math.round(peak / MEGABYTE)} MB`);
    for (const { reader, received } of readers) {
      assert.equal(received + await drain(reader), replayLength(ENOUGH_TO_STALL));
    }
  });

  test("a reader that goes away ends the work for it", async (world) => {
    const token = await fillLog(world, ENOUGH_TO_STALL);
    const work = { calls: 0, unfinished: 0 };
    await using server = serve(world, {
      ...world.platform.db,
      async rows<Row>(...args: Parameters<Database["rows"]>) {
        const rows = await world.platform.db.rows<Row>(...args);
        work.calls++;
        return watchEnd(rows, work);
      },
    });
    const abort = new AbortController();
    const response = await replay(server.origin, token, abort.signal);
    const reader = response.body!.getReader();
    await reader.read();
    await settled("the count of calls", () => work.calls);
    assert.equal(work.unfinished, 1);
    abort.abort();
    await eventually("the piece that is being sent is let go of", () => work.unfinished === 0);
    const calls = await settled("the count of calls", () => work.calls);
    assert.ok(calls < ENOUGH_TO_STALL / ENTRIES_A_CALL, `${calls} calls`);
    assert.ok(!world.logs.some((line) => line.event === "stream_broken_off"));
  });

  test("database connections that break between two pieces go unnoticed", async (world) => {
    const token = await fillLog(world, ENOUGH_TO_STALL);
    await using server = serve(world, world.platform.db);
    const reader = (await replay(server.origin, token)).body!.getReader();
    const received = (await reader.read()).value!.length;
    await settled("the count of busy connections", () => busyConnections(world));
    const { rows } = await world.sql.query(
      `select pg_terminate_backend(pid) from pg_stat_activity
        where application_name = 'v2-agent-state' and datname = current_database()`,
    );
    assert.ok(rows.length > 0);
    assert.equal(received + await drain(reader), replayLength(ENOUGH_TO_STALL));
  });

  test("entries that are gone when their turn comes break the connection off, not the JSON", async (world) => {
    const token = await fillLog(world, ENOUGH_TO_STALL);
    await using server = serve(world, world.platform.db);
    await assertBreaksOff(world, server.origin, token, async () => {
      await world.sql.query(
        `delete from app.log_entries e using app.logs l, app.accounts a
          where l.id = e.log_id and a.id = l.owner_id and a.token_hash = $1 and e.sequence_number > 150`,
        [Buffer.from(sha256Hex(token), "hex")],
      );
    });
  });

  test("a database that goes away in the middle breaks the connection off, not the JSON", async (world) => {
    const token = await fillLog(world, ENOUGH_TO_STALL);
    let away = false;
    await using server = serve(world, {
      ...world.platform.db,
      async rows<Row>(...args: Parameters<Database["rows"]>) {
        if (away) throw new Error("gone");
        return await world.platform.db.rows<Row>(...args);
      },
    });
    await assertBreaksOff(world, server.origin, token, () => {
      away = true;
      return Promise.resolve();
    });
  });
});

/** Reads a little, lets something break, reads on: the rest must end in an error. */
async function assertBreaksOff(world: World, origin: string, token: string, breakIt: () => Promise<void>) {
  const brokenOff = () => world.logs.filter((line) => line.event === "stream_broken_off").length;
  const before = brokenOff();
  const response = await replay(origin, token);
  assert.equal(response.status, 200);
  const reader = response.body!.getReader();
  let text = new TextDecoder().decode((await reader.read()).value);
  await breakIt();
  await assert.rejects(async () => {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      text += new TextDecoder().decode(value);
    }
  });
  assert.throws(() => JSON.parse(text), SyntaxError);
  assert.equal(brokenOff(), before + 1);
}

/** A log of `count` equal blocks, written straight into the tables; returns its token. */
async function fillLog(world: World, count: number): Promise<string> {
  const token = newProjectToken();
  // Its blocks are not what their hashes say, and nobody was charged for them.
  world.tampered = true;
  await world.sql.query(
    `with owner as (insert into app.owners (kind) values ('project') returning id),
          account as (insert into app.accounts (id, token_hash) select id, $1 from owner returning id),
          log as (
            insert into app.logs (owner_id, member_id, first_sequence, head_sequence, merkle_root, total_bytes)
            select id, id, 0, $2::int - 1, $3, $2::bigint * octet_length($4::bytea) from account returning id
          )
     insert into app.log_entries (log_id, sequence_number, block_hash, ciphertext, merkle_root)
     select log.id, n, $5, $4, $3 from log, generate_series(0, $2::int - 1) as n`,
    [
      Buffer.from(sha256Hex(token), "hex"),
      count,
      Buffer.from(ZERO_HASH, "hex"),
      BLOCK,
      Buffer.from(sha256Hex(BLOCK), "hex"),
    ],
  );
  return token;
}

/** Length of the whole answer to a replay of `count` blocks. */
function replayLength(count: number): number {
  const chunks = Array.from({ length: count }, (_, i) => ({
    sequence_number: i,
    block_hash: ZERO_HASH,
    ciphertext_b64: "",
    merkle_root: ZERO_HASH,
    created_at: "2026-11-20T12:00:00.000Z",
  }));
  const frame = JSON.stringify({ chunks, count, has_more: false }).length;
  return frame + count * BLOCK.toString("base64").length;
}

function replay(origin: string, token: string, signal?: AbortSignal): Promise<Response> {
  const headers = { authorization: `Bearer ${token}` };
  return fetch(`${origin}/replay?since=-1`, { headers, ...(signal === undefined ? {} : { signal }) });
}

async function drain(reader: ReadableStreamDefaultReader<Uint8Array>): Promise<number> {
  for (let received = 0;;) {
    const { done, value } = await reader.read();
    if (done) return received;
    received += value.length;
  }
}

/** Connections of the service to this world's database that run a query or sit in a transaction. */
async function busyConnections(world: World): Promise<number> {
  const { rows } = await world.sql.query(
    `select count(*)::int as busy from pg_stat_activity
      where application_name = 'v2-agent-state' and datname = current_database() and state <> 'idle'`,
  );
  return rows[0].busy;
}

/** The same rows; `work.unfinished` counts the arrays that are being iterated. */
function watchEnd<Row>(rows: Row[], work: { unfinished: number }): Row[] {
  const iterate = Array.prototype[Symbol.iterator].bind(rows);
  return Object.assign(rows, {
    *[Symbol.iterator]() {
      work.unfinished++;
      try {
        yield* iterate();
      } finally {
        work.unfinished--;
      }
    },
  });
}

/** The world's service over real HTTP, on another database connection. */
function serve(world: World, db: Database): { origin: string } & AsyncDisposable {
  const app = createApp({ ...world.platform, db }, readSettings({}));
  const abort = new AbortController();
  const options = { hostname: "127.0.0.1", port: 0, signal: abort.signal, onListen() {} };
  const server = Deno.serve(options, app.fetch);
  return {
    origin: `http://127.0.0.1:${server.addr.port}`,
    // Not a graceful shutdown: a reader that a failed test left behind would hold it up for ever.
    async [Symbol.asyncDispose]() {
      abort.abort();
      await server.finished;
    },
  };
}

/** The service in its own process. `memory` reads a field of /proc/<pid>/status, in bytes. */
async function startChild(world: World) {
  const script = new URL("../support/serve_child.ts", import.meta.url).pathname;
  const process = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-check", script, world.databaseUrl],
    stdin: "null",
    stdout: "piped",
  }).spawn();
  const stdout = process.stdout.getReader();
  const port = new TextDecoder().decode((await stdout.read()).value).trim();
  assert.match(port, /^[0-9]+$/);
  return {
    origin: `http://127.0.0.1:${port}`,
    async memory(field: "VmRSS" | "VmHWM"): Promise<number> {
      const status = await Deno.readTextFile(`/proc/${process.pid}/status`);
      return Number(new RegExp(`^${field}:\\s+([0-9]+) kB$`, "m").exec(status)![1]) * 1024;
    },
    async [Symbol.asyncDispose]() {
      process.kill("SIGKILL");
      await stdout.cancel();
      await process.status;
    },
  };
}

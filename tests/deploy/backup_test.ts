/** Backup and restore of a running service, as docs/deploy.md tells operators to do it. */

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { join } from "node:path";
// @deno-types="npm:@types/pg@8.23.1"
import pg from "pg";
import type { StackFile } from "../../local/data_dir.ts";
import { dumpDatabase, loadDatabase } from "../../local/backup_database.ts";
import { exists } from "../../local/files.ts";
import { cloneDatabase } from "../support/database.ts";
import { onEveryBackend } from "../support/harness.ts";
import { runCommand, startService, until, withDataDir } from "../support/service.ts";

const BASE = "/functions/v1/v2-agent-state";

interface Stored {
  sequence_number: number;
  sha256: string;
}

/** Runs a test with a directory for backups. */
async function withBackups(run: (root: string) => Promise<void>): Promise<void> {
  const root = await Deno.makeTempDir({ prefix: "agent-state-backups-" });
  try {
    await run(root);
  } finally {
    await Deno.remove(root, { recursive: true });
  }
}

async function send(stack: StackFile, method: string, path: string, token: string, body?: unknown) {
  const response = await fetch(`${stack.url}${BASE}${path}`, {
    method,
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const answer = await response.json();
  assert.ok(response.ok, `${method} ${path}: ${response.status} ${JSON.stringify(answer)}`);
  return answer;
}

async function storeSnapshot(stack: StackFile, token: string, sequence: number): Promise<Stored> {
  const bytes = crypto.getRandomValues(new Uint8Array(5_000));
  const sha256 = createHash("sha256").update(bytes).digest("hex");
  await send(stack, "POST", "/snapshot", token, {
    agent_id: "a/../é",
    sequence_number: sequence,
    parent_snapshot: sequence === 0 ? null : "parent",
    policy_hash: "0".repeat(64),
    client_payload_hash: sha256,
    ciphertext_b64: bytes.toBase64(),
    byte_size: bytes.length,
    timestamp: "2026-11-21T00:00:00.000Z",
  });
  return { sequence_number: sequence, sha256 };
}

async function replicate(stack: StackFile, token: string, sequence: number): Promise<string> {
  const bytes = crypto.getRandomValues(new Uint8Array(3_000));
  const hash = createHash("sha256").update(bytes).digest("hex");
  const chunk = { sequence_number: sequence, block_hash: hash, ciphertext_b64: bytes.toBase64() };
  await send(stack, "POST", "/replicate", token, { chunks: [chunk], merkle_root: hash });
  return hash;
}

/** Downloads every snapshot and compares its bytes. */
async function assertRestored(
  stack: StackFile,
  token: string,
  stored: readonly Stored[],
  blocks: readonly string[],
) {
  for (const { sequence_number, sha256 } of stored) {
    const path = `/snapshot/${encodeURIComponent("a/../é")}/${sequence_number}`;
    const { ciphertextUrl } = await send(stack, "GET", path, token);
    const bytes = await (await fetch(ciphertextUrl)).bytes();
    assert.equal(createHash("sha256").update(bytes).digest("hex"), sha256);
  }
  const { chunks } = await send(stack, "GET", "/replay?since=-1", token);
  const hashes = chunks.map((chunk: { block_hash: string }) => chunk.block_hash);
  assert.deepEqual(hashes.slice(0, blocks.length), blocks);
}

async function backUp(root: string, dataDir: string, ...args: string[]): Promise<string> {
  const { code, output } = await runCommand("backup", [root, ...args], dataDir);
  assert.equal(code, 0, output);
  return /^Backup +(.+)$/m.exec(output)![1]!;
}

Deno.test("backup: what was acknowledged before it began is there after a restore, to the byte", () =>
  withBackups((root) =>
    withDataDir(async (dataDir) => {
      const service = startService(dataDir);
      const stack = await service.ready();
      const session = (await runCommand("session", ["ann"], dataDir)).output.split("\n").at(-1)!;
      const { raw_secret: key } = await send(stack, "POST", "/api-keys", session, { name: "laptop" });
      await runCommand("credits", ["ann", "1000000"], dataDir);
      const token = `sov_proj_${crypto.randomUUID()}`;
      const stored: Stored[] = [];
      const blocks: string[] = [];
      for (let i = 0; i < 5; i++) {
        stored.push(await storeSnapshot(stack, token, i));
        blocks.push(await replicate(stack, token, i));
      }
      const paid = [await storeSnapshot(stack, key, 0)];

      // Agents go on while the backup is made.
      let writing = true;
      let written = 0;
      const writer = (async () => {
        for (let i = 5; writing; i++, written++) {
          await storeSnapshot(stack, token, i);
          await replicate(stack, token, i);
        }
      })();
      const backup = await backUp(root, dataDir);
      writing = false;
      await writer;
      assert.ok(written > 0);
      service.kill("SIGKILL");
      await service.exit;

      await withDataDir(async (other) => {
        const { code, output } = await runCommand("restore", [root], other);
        assert.equal(code, 0, output);
        assert.match(output, /every invariant holds/);
        assert.match(output, new RegExp(`Restored +${other} as of`));
        const restored = startService(other);
        const again = await restored.ready();
        await assertRestored(again, token, stored, blocks);
        await assertRestored(again, key, paid, []);
        // The session's key was restored too, and the account goes on where it was.
        const keys = await send(again, "GET", "/api-keys", session);
        assert.deepEqual(keys.map((each: { label: string }) => each.label), ["laptop"]);
        await storeSnapshot(again, key, 1);
        const next = await send(again, "GET", "/head", token);
        await replicate(again, token, next.sequence_number + 1);
        restored.kill("SIGTERM");
        assert.equal(await restored.exit, 0);
      });
      const sums = new Deno.Command("sha256sum", {
        args: ["--check", "--quiet", join(backup, "blobs.sha256")],
        cwd: join(root, "blobs"),
      });
      assert.equal((await sums.output()).code, 0);
    })
  ));

Deno.test("backup: a second one copies only new blobs, and --keep removes what only older ones need", () =>
  withBackups((root) =>
    withDataDir(async (dataDir) => {
      const service = startService(dataDir);
      const stack = await service.ready();
      const token = `sov_proj_${crypto.randomUUID()}`;
      await storeSnapshot(stack, token, 0);
      const first = await backUp(root, dataDir);
      const stored = await storeSnapshot(stack, token, 1);
      const { output } = await runCommand("backup", [root], dataDir);
      assert.match(output, /^Blobs +2, of which 1 are new$/m);

      // A blob that no row names any more, as after a sweep.
      const client = new pg.Client({ connectionString: stack.databaseUrl });
      await client.connect();
      const { rows: [gone] } = await client.query(
        "select object_name from app.snapshots where sequence_number = 0",
      );
      await client.query("delete from app.snapshots where sequence_number = 0");
      await client.end();
      await Deno.remove(join(dataDir, "blobs", gone.object_name));
      const pruned = await runCommand("backup", [root, "--keep", "1"], dataDir);
      assert.match(pruned.output, /^Removed +2 older backups, 1 blobs that none needs any more$/m);
      assert.equal(await exists(first), false);
      assert.equal(await exists(join(root, "blobs", gone.object_name)), false);
      const [left] = Array.from(Deno.readDirSync(root)).filter(({ name }) => /^\d/.test(name));
      assert.match(await Deno.readTextFile(join(root, left!.name, "blobs.sha256")), /seq-1-/);
      assert.ok(stored);
      service.kill("SIGTERM");
      await service.exit;
    })
  ));

Deno.test("backup: one that would lack a confirmed snapshot's bytes is not made", () =>
  withBackups((root) =>
    withDataDir(async (dataDir) => {
      const service = startService(dataDir);
      const stack = await service.ready();
      await storeSnapshot(stack, `sov_proj_${crypto.randomUUID()}`, 0);
      await Deno.remove(join(dataDir, "blobs"), { recursive: true });
      const { code, output } = await runCommand("backup", [root], dataDir);
      assert.equal(code, 1);
      assert.match(output, /no new backup\. 1 of 1 confirmed snapshots have no whole blob/);
      assert.equal((await runCommand("restore", [root], `${dataDir}/nowhere`)).code, 1);
      service.kill("SIGTERM");
      await service.exit;
      const idle = await runCommand("backup", [root], dataDir);
      assert.match(idle.output, /Nothing is running on/);
      assert.equal(idle.code, 1);
    })
  ));

Deno.test("restore: damage is named before anything is changed, data is never overwritten, a kill is survived", () =>
  withBackups((root) =>
    withDataDir(async (dataDir) => {
      const service = startService(dataDir);
      const stack = await service.ready();
      const token = `sov_proj_${crypto.randomUUID()}`;
      const stored = [await storeSnapshot(stack, token, 0)];
      const blocks = [await replicate(stack, token, 0)];
      const backup = await backUp(root, dataDir);
      service.kill("SIGTERM");
      await service.exit;

      const used = await runCommand("restore", [root], dataDir);
      assert.deepEqual([used.code, /already has accounts/.test(used.output)], [1, true], used.output);

      const file = join(backup, "tables/log_entries.copy");
      const whole = await Deno.readFile(file);
      const flipped = whole.slice();
      flipped[whole.length - 10]! ^= 1;
      await Deno.writeFile(file, flipped);
      await withDataDir(async (other) => {
        const damaged = await runCommand("restore", [root], other);
        assert.equal(damaged.code, 1);
        assert.match(damaged.output, /log_entries\.copy is not what was written/);
        assert.equal(await exists(join(other, "blobs")), false);
      });
      await Deno.writeFile(file, whole);

      await withDataDir(async (other) => {
        const killed = startService(other, {}, undefined, ["run", "-A", "local/restore.ts", root]);
        await until("the database is being made", async () => /Blobs/.test(killed.output()) || undefined);
        killed.kill("SIGKILL");
        await killed.exit;
        const { code, output } = await runCommand("restore", [root], other);
        assert.equal(code, 0, output);
        const restored = startService(other);
        await assertRestored(await restored.ready(), token, stored, blocks);
        restored.kill("SIGTERM");
        await restored.exit;
      });
    })
  ));

Deno.test({
  name: "backup: a table that is read in many parts, some of them empty, comes back row for row",
  sanitizeOps: false,
  sanitizeResources: false,
  fn: () =>
    withBackups(async (root) => {
      const [from, to] = [await cloneDatabase(), await cloneDatabase()];
      const fill =
        "insert into app.job_runs select '/' || g || repeat('x', 400), now() from generate_series(1, 3000) g";
      const read =
        "select count(*)::int as rows, md5(string_agg(r::text, ',' order by path)) as all from app.job_runs r";
      try {
        await from.sql.query(fill);
        await from.sql.query("delete from app.job_runs where path ~ '^/1[0-9]{3}x'");
        await from.sql.query("vacuum app.job_runs");
        const { dump } = await dumpDatabase(from.url, root, 1);
        await loadDatabase(to.url, root, dump);
        const { rows: [expected] } = await from.sql.query(read);
        assert.equal(expected.rows, 2000);
        assert.deepEqual((await to.sql.query(read)).rows, [expected]);
      } finally {
        await from.drop();
        await to.drop();
      }
    }),
});

onEveryBackend((test) => {
  test("backup: a hosted project is taken along, database and bucket, and goes on elsewhere", (world) =>
    withBackups((root) =>
      withDataDir(async (dataDir) => {
        const token = `sov_proj_${crypto.randomUUID()}`;
        const bytes = crypto.getRandomValues(new Uint8Array(2_000));
        const snapshot = {
          agent_id: "moving",
          sequence_number: 0,
          parent_snapshot: null,
          policy_hash: "0".repeat(64),
          client_payload_hash: createHash("sha256").update(bytes).digest("hex"),
          ciphertext_b64: bytes.toBase64(),
          byte_size: bytes.length,
          timestamp: "2026-11-21T00:00:00.000Z",
        };
        assert.equal((await world.request("POST", "/snapshot", { token, body: snapshot })).status, 200);
        const stored = await world.request("GET", "/snapshot/moving/latest", { token });
        const storage = new URL(stored.body.ciphertextUrl).origin;

        await backUp(root, dataDir, "--db", world.databaseUrl, "--storage", storage);
        const restored = await runCommand("restore", [root], dataDir);
        assert.equal(restored.code, 0, restored.output);
        const service = startService(dataDir);
        const { url } = await service.ready();
        const response = await fetch(`${url}${BASE}/snapshot/moving/latest`, {
          headers: { authorization: `Bearer ${token}` },
        });
        const { ciphertextUrl } = await response.json();
        assert.deepEqual(await (await fetch(ciphertextUrl)).bytes(), bytes);
        service.kill("SIGTERM");
        assert.equal(await service.exit, 0);
      })
    ));
});

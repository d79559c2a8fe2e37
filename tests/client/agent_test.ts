/** The command, as a process of its own: what it does, what it says, and that a kill at any point costs nothing. */

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { Assembler } from "../../client/entries.ts";
import { Replicator } from "../../client/replicator.ts";
import { createMemoryStore } from "../../client/store.ts";
import { eventually } from "../support/eventually.ts";
import { onOneBackend } from "../support/harness.ts";
import { serve, type Served } from "./support.ts";

const MAIN = new URL("../../client/command/main.ts", import.meta.url).pathname;

/** Starts the command on a home and a service. */
function spawn(served: Served, home: string, args: string[]): Deno.ChildProcess {
  return new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-check", MAIN, ...args],
    env: { AGENT_STATE_HOME: home, AGENT_STATE_URL: served.baseUrl, AGENT_STATE_TOKEN: "", NO_COLOR: "1" },
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
}

/** Runs the command to its end; with `--json`, its one line as a value. */
async function run(served: Served, home: string, ...args: string[]) {
  const { code, stdout, stderr } = await spawn(served, home, args).output();
  const [out, err] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes).trim());
  // deno-lint-ignore no-explicit-any
  const json: any = args.includes("--json") ? JSON.parse(out!) : undefined;
  return { code, out: out!, err: err!, json };
}

async function withDirectory(test: (directory: string) => Promise<void>): Promise<void> {
  const directory = await Deno.makeTempDir();
  try {
    await test(directory);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}

async function writeFolder(folder: string, files: Record<string, Uint8Array | string>): Promise<void> {
  for (const [path, content] of Object.entries(files)) {
    await Deno.mkdir(`${folder}/${path}`.replace(/\/[^/]*$/, ""), { recursive: true });
    const bytes = typeof content === "string" ? new TextEncoder().encode(content) : content;
    await Deno.writeFile(`${folder}/${path}`, bytes);
  }
}

async function readFolder(folder: string, below = ""): Promise<Record<string, string>> {
  const found: Record<string, string> = {};
  for await (const { name, isDirectory } of Deno.readDir(`${folder}/${below}`)) {
    const path = below + name;
    if (isDirectory) Object.assign(found, await readFolder(folder, `${path}/`));
    else found[path] = (await Deno.readFile(`${folder}/${path}`)).toBase64();
  }
  return found;
}

/** What the log of a home holds, file by file, in order. */
async function versionsIn(served: Served, home: string): Promise<{ path: string; hash: string | null }[]> {
  const { token } = JSON.parse(await Deno.readTextFile(`${home}/config.json`));
  const key = Uint8Array.fromHex((await Deno.readTextFile(`${home}/key`)).trim());
  const log = await Replicator.open({ baseUrl: served.baseUrl, token, key, store: createMemoryStore() });
  const assembler = new Assembler((kind) => kind === "file");
  const versions = [];
  for await (const block of log.pull()) {
    for (const record of block.records) {
      const entry = assembler.add(record);
      if (entry !== undefined) versions.push(entry.value as { path: string; hash: string | null });
    }
  }
  assert.ok(assembler.complete, "a file in the log is not whole");
  return versions;
}

function kill9(child: Deno.ChildProcess): void {
  try {
    child.kill("SIGKILL");
  } catch (error) {
    // It had ended already.
    assert.ok(error instanceof TypeError);
  }
}

/** The files in the outbox of a home. */
function outboxOf(home: string): { name: string; writtenAt: number }[] {
  const [state] = [...Deno.readDirSync(home)].filter(({ isDirectory }) => isDirectory);
  const outbox = `${home}/${state!.name}/outbox`;
  return [...Deno.readDirSync(outbox)].flatMap(({ name }) => {
    try {
      return [{ name, writtenAt: Deno.statSync(`${outbox}/${name}`).mtime!.getTime() }];
    } catch {
      return []; // It has gone since the folder was read.
    }
  });
}

/** Blocks that were written since. */
function countBlocks(home: string, since: number): number {
  return outboxOf(home).filter(({ name, writtenAt }) => name.startsWith("value-block") && writtenAt >= since)
    .length;
}

/** Takes token and key to another device, and nothing else. */
async function moveTo(home: string, device: string): Promise<void> {
  await Deno.mkdir(device);
  for (const name of ["config.json", "key"]) await Deno.copyFile(`${home}/${name}`, `${device}/${name}`);
}

onOneBackend((test) => {
  test("agent: a folder that was pushed is pulled by another device, byte for byte", (world) =>
    withDirectory(async (directory) => {
      await using served = serve(world);
      const [home, memory] = [`${directory}/home`, `${directory}/memory`];
      const files = { "a.md": "one", "b/c.bin": randomBytes(200_000), "b/ü 🦉.txt": "", "z.md": "last" };
      await writeFolder(memory, files);
      const pushed = await run(served, home, "push", memory, "--json");
      assert.deepEqual([pushed.code, pushed.json.files, pushed.json.folder], [0, 4, "memory"], pushed.out);
      for (const name of ["key", "config.json"]) {
        assert.equal((await Deno.stat(`${home}/${name}`)).mode! & 0o777, 0o600);
      }

      const again = await run(served, home, "push", memory, "--json");
      assert.deepEqual([again.json.files, again.json.unchanged, again.json.blocks], [0, 4, 0]);
      await Deno.remove(`${memory}/z.md`);
      await writeFolder(memory, { "a.md": "two" });
      const changed = await run(served, home, "push", memory, "--json");
      assert.deepEqual([changed.json.files, changed.json.deleted, changed.json.unchanged], [1, 1, 2]);
      await writeFolder(memory, { "a.md": "one" });
      assert.equal((await run(served, home, "push", memory, "--json")).json.files, 1, "back to what it was");

      await moveTo(home, `${directory}/device`);
      const copy = `${directory}/copy`;
      const pulled = await run(served, `${directory}/device`, "pull", copy);
      assert.equal(pulled.code, 0, pulled.err);
      assert.match(pulled.out, /^Pulled memory: 3 files written/);
      assert.deepEqual(await readFolder(copy), await readFolder(memory));

      await writeFolder(copy, { "a.md": "mine" });
      assert.deepEqual((await run(served, home, "pull", copy, "--json")).json.kept, ["a.md"]);
      assert.equal(await Deno.readTextFile(`${copy}/a.md`), "mine");
      await run(served, home, "pull", copy, "--force");
      assert.equal(await Deno.readTextFile(`${copy}/a.md`), "one");
    }));

  test("agent: a push that is killed anywhere and pushed again loses nothing and doubles nothing", (world) =>
    withDirectory(async (directory) => {
      await using served = serve(world);
      const [home, memory] = [`${directory}/home`, `${directory}/memory`];
      const sizes = [0, 10, 70_000, 300_000, 5_500_000, 40_000, 1_000, 900_000];
      await writeFolder(
        memory,
        Object.fromEntries(sizes.map((size, i) => [`f${i}.bin`, randomBytes(size)])),
      );
      // Killed before the service has heard, after it has acted and before it has answered, and between requests.
      const kills = ["before 1", "after 1", "before 3", "after 2", "after 3", "between 1", "between 2"];
      for (const kill of kills) {
        const [moment, count] = kill.split(" ");
        const child = spawn(served, home, ["push", memory]);
        let seen = 0;
        served.meddle(async (request, forward) => {
          const mine = request.method === "POST" && ++seen === Number(count);
          if (mine && moment === "before") kill9(child);
          const response = await forward(request);
          if (mine && moment === "after") kill9(child);
          if (mine && moment === "between") setTimeout(() => kill9(child), 4);
          return response;
        });
        const { code, stderr } = await child.output();
        assert.ok(code === 137 || code === 0, new TextDecoder().decode(stderr));
        // The next push also has something new to say.
        await writeFolder(memory, { [`${kill}.md`]: kill, "f1.bin": randomBytes(10) });
      }
      // Killed while it encrypts and writes its outbox, before anything is sent.
      for (const blocks of [1, 5, 20]) {
        served.meddle((request, forward) => {
          if (request.method === "POST") kill9(child);
          return forward(request);
        });
        await writeFolder(memory, { "f3.bin": randomBytes(2_000_000), [`${blocks}.md`]: String(blocks) });
        // The last push may have left some, which this one removes or writes anew.
        const startedAt = Date.now();
        const child = spawn(served, home, ["push", memory]);
        await eventually("so many blocks are written", () => countBlocks(home, startedAt) >= blocks, 60_000);
        kill9(child);
        await child.output();
      }
      served.meddle(undefined);
      const last = await run(served, home, "push", memory, "--json");
      assert.equal(last.code, 0, last.out);

      const versions = await versionsIn(served, home);
      const seen = new Map<string, string | null>();
      for (const { path, hash } of versions) {
        assert.notEqual(seen.get(path), hash, `${path} is in the log twice in a row`);
        seen.set(path, hash);
      }
      assert.equal(versions.filter(({ path }) => path === "f4.bin").length, 1);
      await moveTo(home, `${directory}/device`);
      assert.equal((await run(served, `${directory}/device`, "pull", `${directory}/copy`)).code, 0);
      assert.deepEqual(await readFolder(`${directory}/copy`), await readFolder(memory));
      assert.deepEqual(outboxOf(home).map(({ name }) => name), ["value-state"]);
    }));

  test("agent: another token is another log, and the way back is open", (world) =>
    withDirectory(async (directory) => {
      await using served = serve(world);
      const [home, memory] = [`${directory}/home`, `${directory}/memory`];
      await writeFolder(memory, { "a.md": "one" });
      const other = ["--token", `sov_proj_${crypto.randomUUID()}`];
      for (const token of [[], other, []]) {
        const { code, err } = await run(served, home, "push", memory, ...token);
        assert.equal(code, 0, err);
        assert.equal((await run(served, home, "snapshot", `${memory}/a.md`, ...token)).code, 0);
      }
      assert.deepEqual(
        [await run(served, home, "verify"), await run(served, home, "verify", ...other)].map(({ out }) =>
          out
        ),
        ["VALID: 1 blocks, 2 snapshots", "VALID: 1 blocks, 1 snapshots"],
      );
    }));

  test("agent: a file that was snapshotted is restored, and what differs is not replaced unasked", (world) =>
    withDirectory(async (directory) => {
      await using served = serve(world);
      const home = `${directory}/home`;
      const state = `${directory}/state.json`;
      for (const text of ["first", "second"]) {
        await Deno.writeTextFile(state, text);
        const { code, err } = await run(served, home, "--", "snapshot", state);
        assert.equal(code, 0, err);
      }
      const output = `${directory}/back.json`;
      const restored = await run(served, home, "restore", "--output", output, "--json");
      assert.deepEqual([restored.json.sequence_number, await Deno.readTextFile(output)], [1, "second"]);
      const refused = await run(served, home, "restore", "--sequence", "0", "--output", output);
      assert.equal(refused.code, 2);
      assert.equal(await Deno.readTextFile(output), "second");
      await run(served, home, "restore", "--sequence", "0", "--output", output, "--force");
      assert.equal(await Deno.readTextFile(output), "first");

      const status = await run(served, home, "status", "--json");
      assert.deepEqual([status.json.latest_snapshot, status.json.log, status.json.waiting_blocks], [
        1,
        null,
        0,
      ]);
    }));

  test("agent: verify says what is valid, and ends with 1 when something was changed", (world) =>
    withDirectory(async (directory) => {
      await using served = serve(world);
      const [home, memory] = [`${directory}/home`, `${directory}/memory`];
      await writeFolder(memory, { "a.md": "one" });
      await run(served, home, "push", memory);
      await run(served, home, "snapshot", `${memory}/a.md`);
      const valid = await run(served, home, "verify");
      assert.deepEqual([valid.code, valid.out], [0, "VALID: 1 blocks, 1 snapshots"]);
      served.meddle(async (request, forward) => {
        const text = await (await forward(request)).text();
        return new Response(text.replace(/"ciphertext_b64":"..../, '"ciphertext_b64":"AAAA'));
      });
      const broken = await run(served, home, "verify", "--json");
      assert.deepEqual([broken.code, broken.json.valid, broken.json.code], [1, false, "block_hash_mismatch"]);
    }));

  test("agent: mistakes are named, and a key that others can read is refused", (world) =>
    withDirectory(async (directory) => {
      await using served = serve(world);
      const home = `${directory}/home`;
      const mistakes = [[], ["nothing"], ["push"], ["push", "a", "b"], ["restore", "--sequence", "x"], [
        "--wrong",
      ]];
      for (const args of mistakes) assert.equal((await run(served, home, ...args)).code, 2, args.join(" "));
      await run(served, home, "status");
      await Deno.chmod(`${home}/key`, 0o644);
      const refused = await run(served, home, "status", "--json");
      assert.deepEqual([refused.code, refused.json.error], [2, "usage"]);
      assert.match(refused.json.message, /can be read by others/);
      await Deno.chmod(`${home}/key`, 0o600);
      const missing = await run(served, home, "snapshot", `${directory}/missing`, "--json");
      assert.deepEqual([missing.code, missing.json.error], [1, "failed"]);
    }));
});

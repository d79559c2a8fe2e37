/** The store in a directory: atomic, private, and held by one process at a time. */

import assert from "node:assert/strict";
import { StoreInUseError } from "../../client/errors.ts";
import { createPrivateFile, openFileStore } from "../../client/store_file.ts";
import { eventually } from "../support/eventually.ts";
import { openStore } from "./support.ts";

const HOLDER = `
  import { openFileStore } from "${new URL("../../client/store_file.ts", import.meta.url)}";
  await openFileStore(Deno.args[0]);
  console.log("held");
  setInterval(() => {}, 1000);
`;

async function withDirectory(run: (directory: string) => Promise<void>): Promise<void> {
  const directory = await Deno.makeTempDir();
  try {
    await run(`${directory}/store`);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}

Deno.test("file store: what was written is read, under any name, by the next one to open it", () =>
  withDirectory(async (directory) => {
    const names = ["state", "a/b", "..", "ü", "x y", "lock-1", "temporary-1"];
    {
      await using store = await openStore(directory);
      for (const name of names) await store.write(name, new TextEncoder().encode(name));
      await store.write("state", new Uint8Array([1, 2]));
      await store.remove("x y");
      await store.remove("never there");
    }
    await using store = await openStore(directory);
    assert.deepEqual(await store.read("state"), new Uint8Array([1, 2]));
    assert.deepEqual(new TextDecoder().decode(await store.read("a/b")), "a/b");
    assert.equal(await store.read("x y"), undefined);
    for await (const { name, isFile } of Deno.readDir(directory)) {
      assert.ok(isFile);
      assert.equal((await Deno.stat(`${directory}/${name}`)).mode! & 0o777, 0o600, name);
    }
    assert.equal((await Deno.stat(directory)).mode! & 0o777, 0o700);
  }));

Deno.test("file store: it has one holder at a time; another may wait", () =>
  withDirectory(async (directory) => {
    const first = await openFileStore(directory);
    await assert.rejects(openFileStore(directory), StoreInUseError);
    const waiting = openFileStore(directory, { waitMs: 20_000 });
    await first.close();
    await (await waiting).close();
    const racing = await Promise.allSettled(Array.from({ length: 8 }, () => openFileStore(directory)));
    assert.ok(racing.filter(({ status }) => status === "fulfilled").length <= 1);
    for (const each of racing) if (each.status === "fulfilled") await each.value.close();
  }));

Deno.test("file store: a living process keeps it, and one that was killed does not", () =>
  withDirectory(async (directory) => {
    const child = new Deno.Command(Deno.execPath(), {
      args: ["eval", HOLDER, directory],
      stdout: "piped",
      stderr: "inherit",
    }).spawn();
    const reader = child.stdout.getReader();
    await reader.read();
    await assert.rejects(openFileStore(directory), StoreInUseError);
    await Deno.writeTextFile(`${directory}/temporary-${crypto.randomUUID()}`, "half");
    child.kill("SIGKILL");
    await child.status;
    await reader.cancel();
    await (await openFileStore(directory)).close();
    assert.deepEqual([...Deno.readDirSync(directory)], [], "what the killed process left is removed");
  }));

Deno.test("file store: a lock of another machine counts while it is touched", () =>
  withDirectory(async (directory) => {
    await Deno.mkdir(directory, { recursive: true });
    const lock = `${directory}/lock-1-elsewhere`;
    await Deno.writeTextFile(lock, JSON.stringify({ host: "elsewhere", pid: 1, started: "" }));
    await assert.rejects(openFileStore(directory), StoreInUseError);
    const old = new Date(Date.now() - 60_000);
    await Deno.utime(lock, old, old);
    const store = await eventually("the abandoned lock is passed over", () => openFileStore(directory));
    await store.close();
  }));

Deno.test("createPrivateFile() never replaces a file, and one of many wins", () =>
  withDirectory(async (directory) => {
    await Deno.mkdir(directory, { recursive: true });
    const path = `${directory}/key`;
    const made = await Promise.all(
      [1, 2, 3, 4].map((byte) => createPrivateFile(path, new Uint8Array([byte]))),
    );
    assert.equal(made.filter(Boolean).length, 1);
    assert.equal((await Deno.stat(path)).mode! & 0o777, 0o600);
    assert.equal(await createPrivateFile(path, new Uint8Array([9])), false);
    assert.notEqual((await Deno.readFile(path))[0], 9);
  }));

/** The running stack: what `deno task start` promises to the one who runs it. */

import assert from "node:assert/strict";
import { exists } from "../../local/files.ts";
import { isAlive } from "../../local/postgres_process.ts";
import {
  findBlock,
  postmasterOf,
  replicateBlock,
  runCommand,
  startService,
  until,
  withDataDir,
} from "../support/service.ts";

const isRoot = Deno.uid() === 0;
const REPOSITORY = new URL("../..", import.meta.url).pathname;

Deno.test("start: SIGTERM stops it cleanly, and Postgres with it", () =>
  withDataDir(async (dataDir) => {
    const service = startService(dataDir);
    const { url } = await service.ready();
    const block = await replicateBlock(url);
    const postmaster = await postmasterOf(dataDir);
    service.kill("SIGTERM");
    assert.equal(await service.exit, 0, service.output());
    assert.equal(await isAlive(postmaster), false);
    assert.equal(await exists(`${dataDir}/stack.json`), false);

    const second = startService(dataDir);
    assert.equal(await findBlock((await second.ready()).url, block), true);
    second.kill("SIGINT");
    assert.equal(await second.exit, 0, second.output());
  }));

Deno.test("start: a signal that arrives twice, as Ctrl-C does under deno task, still stops Postgres", () =>
  withDataDir(async (dataDir) => {
    const service = startService(dataDir);
    await service.ready();
    const postmaster = await postmasterOf(dataDir);
    for (const signal of ["SIGINT", "SIGINT", "SIGTERM"] as const) service.kill(signal);
    assert.equal(await service.exit, 0, service.output());
    assert.equal(await isAlive(postmaster), false);
  }));

Deno.test("start: it prints the base address and a curl that answers 200 when pasted", () =>
  withDataDir(async (dataDir) => {
    const service = startService(dataDir);
    const { url } = await service.ready();
    const command = await until("the command is printed", async () => {
      return /^curl -X POST [^]*?\}'$/m.exec(service.output())?.[0];
    });
    assert.match(service.output(), new RegExp(`^${url}/functions/v1/v2-agent-state$`, "m"));
    const pasted = `${command} -s -o /dev/null -w '%{http_code}'`;
    const { stdout } = await new Deno.Command("/bin/sh", { args: ["-c", pasted] }).output();
    assert.equal(new TextDecoder().decode(stdout), "200");
    service.kill("SIGTERM");
    assert.equal(await service.exit, 0);
  }));

Deno.test("start: a second start on the same DATA_DIR says so and exits 1", () =>
  withDataDir(async (dataDir) => {
    const first = startService(dataDir);
    const { url } = await first.ready();
    const second = startService(dataDir);
    assert.equal(await second.exit, 1);
    assert.match(second.output(), new RegExp(`Already running on .*process ${first.pid} at ${url}`));
    assert.equal((await first.ready()).url, url);
    first.kill("SIGTERM");
    assert.equal(await first.exit, 0);
  }));

Deno.test("start: a taken port is named in one line, before Postgres is touched", () =>
  withDataDir(async (dataDir) => {
    using taken = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const service = startService(dataDir, { PORT: String(taken.addr.port) });
    assert.equal(await service.exit, 1);
    assert.match(service.output(), new RegExp(`^Port ${taken.addr.port} on 127.0.0.1 is taken`, "m"));
    assert.equal(await exists(`${dataDir}/postgres`), false);
  }));

Deno.test("start: after a kill -9 of the service, the next start has everything acknowledged", () =>
  withDataDir(async (dataDir) => {
    const first = startService(dataDir);
    const block = await replicateBlock((await first.ready()).url);
    first.kill("SIGKILL");
    await first.exit;
    assert.equal(await isAlive(await postmasterOf(dataDir)), true);

    const second = startService(dataDir);
    assert.equal(await findBlock((await second.ready()).url, block), true);
    second.kill("SIGTERM");
    assert.equal(await second.exit, 0);
  }));

Deno.test("start: after a kill -9 of the service and of Postgres, the next start recovers", () =>
  withDataDir(async (dataDir) => {
    const first = startService(dataDir);
    const block = await replicateBlock((await first.ready()).url);
    const postmaster = await postmasterOf(dataDir);
    first.kill("SIGKILL");
    Deno.kill(postmaster, "SIGKILL");
    await first.exit;

    const second = startService(dataDir);
    assert.equal(await findBlock((await second.ready()).url, block), true);
    second.kill("SIGTERM");
    assert.equal(await second.exit, 0);
  }));

Deno.test("start: a Postgres that is killed while serving comes back by itself", () =>
  withDataDir(async (dataDir) => {
    const service = startService(dataDir);
    const { url } = await service.ready();
    const block = await replicateBlock(url);
    Deno.kill(await postmasterOf(dataDir), "SIGKILL");
    await until("Postgres was restarted", async () => /Postgres has died/.test(service.output()));
    await until("the block is served again", () => findBlock(url, block));
    service.kill("SIGTERM");
    assert.equal(await service.exit, 0, service.output());
  }));

Deno.test("start: a kill -9 in the middle of the first start is recovered from", () =>
  withDataDir(async (dataDir) => {
    const first = startService(dataDir);
    await until("initdb has begun", async () => {
      for await (const { name } of Deno.readDir(dataDir)) if (name.includes("unfinished")) return true;
    });
    first.kill("SIGKILL");
    await first.exit;
    assert.equal(await exists(`${dataDir}/postgres`), false);

    const second = startService(dataDir);
    await replicateBlock((await second.ready()).url);
    second.kill("SIGTERM");
    assert.equal(await second.exit, 0);
  }));

Deno.test("start: an exported locale that the machine does not have changes nothing", () =>
  withDataDir(async (dataDir) => {
    const service = startService(dataDir, { LC_ALL: "xx_YY.UTF-8", LANG: "xx_YY.UTF-8" });
    await replicateBlock((await service.ready()).url);
    service.kill("SIGTERM");
    assert.equal(await service.exit, 0);
  }));

Deno.test("start: a clone and a DATA_DIR that only their owner can enter work, also for root", async () => {
  const clone = await Deno.makeTempDir({ prefix: "agent-state-clone-" });
  try {
    for (const path of ["local", "supabase", "deno.json"]) {
      const { success } = await new Deno.Command("cp", { args: ["-R", REPOSITORY + path, clone] }).output();
      assert.ok(success);
    }
    await withDataDir(async (dataDir) => {
      const first = startService(dataDir, {}, clone);
      const block = await replicateBlock((await first.ready()).url);
      // Only root needs a place that another user can reach.
      assert.equal(await exists(`${dataDir}/postgres_cluster`), isRoot);
      first.kill("SIGKILL");
      await first.exit;

      const second = startService(dataDir, {}, clone);
      assert.equal(await findBlock((await second.ready()).url, block), true);
      second.kill("SIGTERM");
      assert.equal(await second.exit, 0);
    }, 0o700);
  } finally {
    await Deno.remove(clone, { recursive: true });
  }
});

Deno.test("session and credits: they work on the running stack, and say so when there is none", () =>
  withDataDir(async (dataDir) => {
    const early = await runCommand("session", ["user-1", "--email", "a@b.example"], dataDir);
    assert.equal(early.code, 0);
    assert.match(early.output.split("\n").at(-1)!, /^eyJ[\w-]+\.[\w-]+\.[\w-]+$/);
    const none = await runCommand("credits", ["user-1", "5000"], dataDir);
    assert.equal(none.code, 1);
    assert.match(none.output, /Nothing is running/);

    const service = startService(dataDir);
    const { url } = await service.ready();
    const jwks = await (await fetch(`${url}/auth/v1/.well-known/jwks.json`)).json();
    const [header] = early.output.split("\n").at(-1)!.split(".");
    const { kid } = JSON.parse(atob(header!.replaceAll("-", "+").replaceAll("_", "/")));
    assert.deepEqual(jwks.keys.map((key: { kid: string }) => key.kid), [kid]);
    assert.equal("d" in jwks.keys[0], false);

    const added = await runCommand("credits", ["user-1", "5000"], dataDir);
    assert.match(added.output, /user-1 now has 5000 milli-cents/);
    assert.match((await runCommand("credits", ["user-1"], dataDir)).output, /user-1 has 5000 milli-cents/);
    for (const args of [["user-1", "-5"], ["user-1", "1.5"], ["user-1", "0"]]) {
      assert.equal((await runCommand("credits", args, dataDir)).code, 1);
    }
    service.kill("SIGTERM");
    assert.equal(await service.exit, 0);
  }));

/** The functions as they are deployed: alone with their own deno.json, on the hosted runtime's Deno. */

import assert from "node:assert/strict";
import { join } from "node:path";
import { cloneDatabase } from "../support/database.ts";
import { openSupabaseStandIn } from "../support/supabase_stand_in.ts";

const FLOOR = "2.1.4";
const FUNCTIONS = new URL("../../supabase/functions", import.meta.url).pathname;

/** Serves an entry point on a free port, until its input ends: `npx` would not pass a signal on. */
const LAUNCHER = `
const serve = Deno.serve;
const onListen = ({ port }) => console.log("listening on " + port + " with Deno " + Deno.version.deno);
Object.defineProperty(Deno, "serve", {
  value: (handler) => serve({ hostname: "127.0.0.1", port: 0, onListen }, handler),
});
await import(Deno.args[0]);
for await (const _ of Deno.stdin.readable);
Deno.exit(0);
`;

for (const name of ["v2-agent-state", "vault"]) {
  Deno.test({
    name: `functions: ${name} answers on Deno ${FLOOR} from its own deno.json alone`,
    sanitizeOps: false,
    sanitizeResources: false,
    async fn() {
      const directory = await Deno.makeTempDir({ prefix: "agent-state-function-" });
      const database = await cloneDatabase();
      const supabase = await openSupabaseStandIn(database, () => {});
      try {
        await new Deno.Command("cp", { args: ["-R", FUNCTIONS, directory] }).output();
        const launcher = join(directory, "launcher.js");
        await Deno.writeTextFile(launcher, LAUNCHER);
        await using running = await start(join(directory, "functions", name), launcher, {
          SUPABASE_URL: supabase.url,
          SUPABASE_SECRET_KEYS: JSON.stringify({ default: supabase.key }),
        });
        const health = await fetch(`http://127.0.0.1:${running.port}/${name}/health`);
        assert.deepEqual([health.status, await health.json()], [200, { status: "ok" }]);
        const missing = await fetch(`http://127.0.0.1:${running.port}/${name}/nothing-here`);
        assert.deepEqual([missing.status, (await missing.json()).error], [404, "route_not_found"]);
      } finally {
        await supabase[Symbol.asyncDispose]();
        await database.drop();
        await Deno.remove(directory, { recursive: true });
      }
    },
  });
}

async function start(directory: string, launcher: string, env: Record<string, string>) {
  const child = new Deno.Command("npx", {
    args: [
      ...["-y", `deno@${FLOOR}`, "run", "-A", "--no-lock", "--node-modules-dir=none"],
      ...["--config", join(directory, "deno.json"), launcher, join(directory, "index.ts")],
    ],
    cwd: directory,
    env: {
      NO_COLOR: "1",
      DENO_TLS_CA_STORE: Deno.env.get("DENO_TLS_CA_STORE") ?? "system,mozilla",
      ...env,
    },
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const errors = new Response(child.stderr).text();
  let output = "";
  const listening = Promise.withResolvers<number>();
  const reading = (async () => {
    for await (const text of child.stdout.pipeThrough(new TextDecoderStream())) {
      output += text;
      const [, port, version] = /listening on (\d+) with Deno (\S+)/.exec(output) ?? [];
      if (version !== undefined) listening.resolve(version === FLOOR ? Number(port) : NaN);
    }
    listening.reject(new Error(`It ended:\n${output}${await errors}`));
  })();
  // Whoever waits for the port hears of it; later it is only the end.
  listening.promise.catch(() => {});
  return {
    port: await listening.promise,
    async [Symbol.asyncDispose]() {
      await child.stdin.close();
      await Promise.all([reading, child.status]);
    },
  };
}

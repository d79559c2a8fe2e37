/** How long a cold function takes to its first answer, on the hosted runtime's Deno, against its libraries alone. */

import { ROOT } from "./bench_service.ts";
import { median, type Row, timeInTurn, timeRow } from "./rounds.ts";

const FLOOR = "2.1.4";
const CONFIG = "supabase/functions/v2-agent-state/deno.json";

const LIBRARIES = `
import "hono";
import "zod";
import "@supabase/supabase-js";
`;

const FUNCTION = `
import { readSettings } from "${ROOT}supabase/functions/_shared/env.ts";
import { createPlatform } from "${ROOT}supabase/functions/_shared/platform/live.ts";
import { createApp } from "${ROOT}supabase/functions/v2-agent-state/app.ts";
const settings = readSettings({ SUPABASE_URL: "http://127.0.0.1:9", SUPABASE_SERVICE_ROLE_KEY: "key" });
const answer = await createApp(createPlatform(settings), settings).request("/head");
if (answer.status !== 401) throw new Error(await answer.text());
Deno.exit(0);
`;

/** Processes of both in turn; what npx and the runtime itself need is in both. */
export async function measureStartup(runs: number): Promise<Row[]> {
  const folder = await Deno.makeTempDir({ prefix: "agent-state-bench-start-" });
  try {
    const deno = await locateFloor();
    const [libraries, service] = [`${folder}/libraries.ts`, `${folder}/service.ts`];
    await Deno.writeTextFile(libraries, LIBRARIES);
    await Deno.writeTextFile(service, FUNCTION);
    // What is deployed has its packages resolved. Without a lock file each start would do that again.
    const lock = `--lock=${folder}/deno.lock`;
    await run(deno, ["cache", lock, libraries, service]);
    const start = (file: string) => () => run(deno, ["run", lock, "--no-check", "-A", file]);
    const times = await timeInTurn({ libraries: start(libraries), service: start(service) }, runs);
    const what = `start to first answer, Deno ${FLOOR}`;
    return [
      timeRow(what, "hono + zod + supabase-js", median(times.service), median(times.libraries), "≤ 1.5"),
    ];
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

async function run(deno: string, [command, ...rest]: string[]): Promise<void> {
  const args = [command!, "--node-modules-dir=none", "--config", CONFIG, ...rest];
  const { success, stderr } = await new Deno.Command(deno, {
    args,
    cwd: ROOT,
    stdout: "null",
    stderr: "piped",
  }).output();
  if (!success) throw new Error(new TextDecoder().decode(stderr));
}

/** The program itself: npx would cost more than what is measured. Away from a configuration too new for it. */
async function locateFloor(): Promise<string> {
  const { stdout } = await new Deno.Command("npx", {
    args: ["-y", `deno@${FLOOR}`, "eval", "console.log(Deno.execPath())"],
    cwd: "/",
    stderr: "null",
  }).output();
  return new TextDecoder().decode(stdout).trim();
}

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
    const start = async (name: string, code: string) => {
      const file = `${folder}/${name}.ts`;
      await Deno.writeTextFile(file, code);
      return () => run(deno, file);
    };
    const sides = {
      libraries: await start("libraries", LIBRARIES),
      service: await start("service", FUNCTION),
    };
    const { service, libraries } = await timeInTurn(sides, runs);
    const what = `start to first answer, Deno ${FLOOR}`;
    return [timeRow(what, "hono + zod + supabase-js", median(service), median(libraries), "≤ 1.5")];
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

async function run(deno: string, file: string): Promise<void> {
  const args = ["run", "--no-lock", "--node-modules-dir=none", "--no-check", "--config", CONFIG, "-A", file];
  const { success, stderr } = await new Deno.Command(deno, {
    args,
    cwd: ROOT,
    stdout: "null",
    stderr: "piped",
  })
    .output();
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

/** Nothing that makes things go wrong is in what runs in production, so nothing there can switch it on. */

import assert from "node:assert/strict";
import { readSources, REPOSITORY, withoutComments } from "./sources.ts";

/** What is deployed, and what people run on their own machines. */
const ENTRY_POINTS = [
  "supabase/functions/v2-agent-state/index.ts",
  "supabase/functions/vault/index.ts",
  "local/start.ts",
];

/** What may load code that is named only as it runs, and why. */
const MAY_LOAD: Record<string, string> = { "local/postgres_home.ts": "the Postgres of this machine's kind" };

interface Module {
  specifier: string;
  error?: string;
}

/** Every module that an entry point loads, as Deno itself resolves them. */
async function modulesOf(entryPoint: string): Promise<string[]> {
  const { stdout, success } = await new Deno.Command(Deno.execPath(), {
    args: ["info", "--json", entryPoint],
    cwd: REPOSITORY,
    stdin: "null",
    stderr: "null",
  }).output();
  assert.ok(success, entryPoint);
  const { modules } = JSON.parse(new TextDecoder().decode(stdout)) as { modules: Module[] };
  assert.deepEqual(modules.filter(({ error }) => error !== undefined), []);
  return modules.map(({ specifier }) => specifier);
}

for (const entryPoint of ENTRY_POINTS) {
  Deno.test(`${entryPoint} loads nothing of the tests, and so no failpoint`, async () => {
    const modules = await modulesOf(entryPoint);
    const ours = modules.filter((specifier) =>
      specifier.startsWith("file:") && !specifier.includes("/node_modules/")
    );
    assert.ok(ours.length > 10, "the reader of modules finds hardly any");
    const strays = ours.filter((specifier) => !/\/(?:supabase\/functions|local)\/[^?#]+$/.test(specifier));
    assert.deepEqual(strays, []);
  });
}

Deno.test("no file of production knows of failpoints, or loads code that is named only as it runs", () => {
  for (const directory of ["supabase/functions", "local"]) {
    for (const { path, text } of readSources(directory, ".ts")) {
      const code = withoutComments(text);
      assert.doesNotMatch(code, /fail_?points?/i, path);
      assert.doesNotMatch(code, /\bnew Worker\b|\bnew Function\b|\beval\s*\(/, path);
      if (!(path in MAY_LOAD)) assert.doesNotMatch(code, /\bimport\s*\((?!"\.\.?\/[^"]+"[,)])/, path);
    }
  }
});

Deno.test("no migration carries anything that makes a call fail on purpose", () => {
  for (const { path, text } of readSources("supabase/migrations", ".sql")) {
    assert.doesNotMatch(text, /fail_?points?|pg_sleep|pg_terminate_backend/i, path);
  }
});

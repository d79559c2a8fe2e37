/**
 * `deno task proof`: everything that the service claims, tried thoroughly, and one table: claim, number of cases, held
 * or not. The tests are those of `deno task test`, which tries a part of each.
 */

import { print } from "../local/print.ts";
import type { ClaimLine } from "./support/claims.ts";

const REPOSITORY = new URL("..", import.meta.url).pathname;
const SOAK_MINUTES = "1";
const TESTS = [
  "tests/proof/",
  "tests/contract/failpoints_test.ts",
  "tests/domain/public_address_test.ts",
  "tests/http/generated_requests_test.ts",
  "tests/http/session_auth_test.ts",
  "tests/http/team_model_test.ts",
  "tests/http/vault_model_test.ts",
  "tests/http/webhook_model_test.ts",
  "tests/http/team_audit_tampering_test.ts",
];

async function main(): Promise<number> {
  const report = await Deno.makeTempFile({ prefix: "proof-" });
  const started = performance.now();
  const env = { PROOF: "thorough", PROOF_REPORT: report };
  // Under faults there is more waiting than work.
  const jobs = { DENO_JOBS: String(3 * navigator.hardwareConcurrency) };
  const tested = await run(["tests/run.ts", ...TESTS], { ...env, ...jobs });
  const soaked = await run(["tests/soak.ts", "--minutes", SOAK_MINUTES], env);
  const lines = (await Deno.readTextFile(report)).trim().split("\n").map((line) =>
    JSON.parse(line) as ClaimLine
  );
  await Deno.remove(report);

  const rows = summarize(lines);
  const table = rows.map(({ claim, cases, held }) =>
    `| ${claim} | ${cases} | ${held ? "held" : "NOT HELD"} |`
  );
  print(["", "| Claim | Cases | |", "|---|---:|---|", ...table, ""].join("\n"));
  const total = rows.reduce((sum, { cases }) => sum + cases, 0);
  const seconds = Math.round((performance.now() - started) / 1000);
  const held = tested && soaked && rows.every((row) => row.held);
  print(`${total} cases in ${seconds} s: ${held ? "everything held" : "NOT everything held"}`);
  return held ? 0 : 1;
}

async function run(args: string[], env: Record<string, string>): Promise<boolean> {
  const { success } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", ...args],
    cwd: REPOSITORY,
    env,
    stdin: "null",
  }).spawn().status;
  return success;
}

/** One row for each claim, in the order in which they were made; several files may make one claim together. */
function summarize(lines: ClaimLine[]): { claim: string; cases: number; held: boolean }[] {
  return [...Map.groupBy(lines, ({ claim }) => claim)].map(([claim, all]) => {
    const kept = all.filter(({ cases }) => cases !== undefined);
    return {
      claim,
      cases: kept.reduce((sum, { cases }) => sum + cases!, 0),
      held: kept.length === all.length - kept.length,
    };
  });
}

Deno.exit(await main());

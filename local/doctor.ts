/**
 * `deno task doctor`: looks at a deployment from outside and inside, and says what is wrong and how to mend it.
 *
 * Exits with 0 when it is fit, 1 when something failed, 2 when there is nothing to look at. Without arguments it looks at
 * the stack that runs on DATA_DIR.
 */

import { parseArgs } from "node:util";
// @deno-types="npm:@types/pg@8.23.1"
import pg from "pg";
import { findRunningStack } from "./data_dir.ts";
import { lookInside } from "./doctor_inside.ts";
import { checkRoutes, checkScheduleSecret, lookFromOutside, type Outside } from "./doctor_outside.ts";
import { fail, type Finding, show, summarise } from "./doctor_report.ts";
import { makeRoundTrip } from "./doctor_round_trip.ts";
import { lookAtSchedule, readSchedule, readScheduleSecret } from "./doctor_schedule.ts";
import { lookAtSettings } from "./doctor_settings.ts";
import { exists } from "./files.ts";
import { print, printError } from "./print.ts";

const USAGE =
  "Usage: deno task doctor [--url https://<ref>.supabase.co] [--db postgresql://…] [--env FILE] [--jwks URL] [--write]";
const UNFIT = 1;
const UNUSABLE = 2;
const STATEMENT_TIMEOUT_MS = 120_000;

/** What to look at; at least one of them. */
export interface Patient {
  outside?: Outside | undefined;
  databaseUrl?: string | undefined;
  /** Text of a file of settings. */
  settings?: string | undefined;
  /** Also stores something and takes it out again. */
  write?: boolean | undefined;
}

/** Looks at everything that was named. */
export async function examine({ outside, databaseUrl, settings, write }: Patient): Promise<Finding[]> {
  const findings: Finding[] = [];
  if (settings !== undefined) findings.push(...lookAtSettings(settings));
  if (outside !== undefined) findings.push(...await lookFromOutside(outside));
  const reached = !findings.some(({ check, state }) => check === "function state" && state === "fail");
  if (outside !== undefined && write && reached) findings.push(...await makeRoundTrip(outside));
  if (databaseUrl !== undefined) findings.push(...await lookAtDatabase(databaseUrl, outside));
  return findings;
}

async function lookAtDatabase(url: string, outside: Outside | undefined): Promise<Finding[]> {
  const client = new pg.Client({
    connectionString: url,
    connectionTimeoutMillis: 15_000,
    application_name: "agent-state-doctor",
  });
  client.on("error", () => {});
  try {
    await client.connect();
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    return [
      fail(
        "database",
        `cannot be reached: ${reason}`,
        "Is the address right, and this machine's network let in?",
      ),
    ];
  }
  try {
    await client.query(`set statement_timeout = ${STATEMENT_TIMEOUT_MS}`);
    await client.query("set default_transaction_read_only = on");
    const findings = await lookInside(client);
    if (findings.some(({ check }) => check === "grants")) findings.push(...await lookAtJobs(client, outside));
    return findings;
  } finally {
    await client.end().catch(() => {});
  }
}

/** The schedule, from both sides where both can be seen. */
async function lookAtJobs(client: pg.Client, outside: Outside | undefined): Promise<Finding[]> {
  const jobs = await readSchedule(client);
  if (outside === undefined) return await lookAtSchedule(client, jobs, undefined);
  const { finding, served } = await checkRoutes(outside, jobs);
  const findings = [finding, ...await lookAtSchedule(client, served, outside.origin)];
  const secret = await readScheduleSecret(client);
  return secret === undefined ? findings : [...findings, await checkScheduleSecret(outside, secret)];
}

async function main(): Promise<void> {
  const patient = await readPatient();
  const findings = await examine(patient);
  for (const finding of findings) print(show(finding));
  print(`\n${summarise(findings)}`);
  Deno.exit(findings.some(({ state }) => state === "fail") ? UNFIT : 0);
}

async function readPatient(): Promise<Patient> {
  const { url, db, env, jwks, write } = parse();
  const settings = env === undefined
    ? undefined
    : await Deno.readTextFile(env).catch(() => unusable(`Cannot read ${env}.`));
  if (url !== undefined || db !== undefined || settings !== undefined) {
    return {
      outside: url === undefined ? undefined : { origin: originOf(url), jwksUrl: jwks },
      databaseUrl: db,
      settings,
      write,
    };
  }
  const dataDir = Deno.env.get("DATA_DIR") || ".data";
  const stack = await exists(dataDir) ? await findRunningStack(dataDir) : undefined;
  if (stack === undefined) {
    return unusable(`Nothing is running on ${dataDir}; name what to look at.\n${USAGE}`);
  }
  return { outside: { origin: stack.url, jwksUrl: jwks }, databaseUrl: stack.databaseUrl, write };
}

function parse() {
  const one = { type: "string" } as const;
  try {
    return parseArgs({
      args: Deno.args,
      options: { url: one, db: one, env: one, jwks: one, write: { type: "boolean" } },
    }).values;
  } catch (error) {
    return unusable(`${error instanceof Error ? error.message : error}\n${USAGE}`);
  }
}

/** The deployment's origin, whatever address of it was pasted. */
function originOf(address: string): string {
  const url = URL.canParse(address) ? address : `https://${address}`;
  if (!URL.canParse(url)) return unusable(`Not an address: ${address}\n${USAGE}`);
  return url.replace(/\/+$/, "").replace(/\/functions\/v1(\/[^/]+)?$/, "");
}

function unusable(message: string): never {
  printError(message);
  Deno.exit(UNUSABLE);
}

if (import.meta.main) await main();

/**
 * `deno task verify-audit FILE [--head SEQ:HASH]`: rechecks an export of a team's audit ledger, without the service.
 *
 * Exits with 0 when the chain holds, 1 at the first entry that is broken, 2 when there is nothing to check.
 */

import { parseArgs } from "node:util";
import { type AuditExport, type AuditHead, type ChainVerdict, verifyAudit } from "../client/verify.ts";
import { print, printError } from "./print.ts";

const USAGE =
  "Usage: deno task verify-audit FILE [--head SEQ:HASH]   (FILE: an export, or - for standard input)";
const BROKEN = 1;
const UNUSABLE = 2;

async function main(): Promise<void> {
  const { file, earlier } = readArguments();
  const exported = parseExport(await readInput(file), file);
  const verdict = verifyAudit(exported, earlier);
  if (verdict.valid) {
    print(describe(exported as AuditExport, verdict, earlier));
  } else if (verdict.brokenSeq === undefined) {
    fail(UNUSABLE, `Cannot check ${file}: ${verdict.reason}.`);
  } else {
    fail(BROKEN, `BROKEN at entry ${verdict.brokenSeq}: ${verdict.reason}.`);
  }
}

function describe(chain: AuditExport, { checked, whole }: ChainVerdict, earlier?: AuditHead): string {
  const times = checked === 0
    ? ""
    : `, ${chain.entries[0]!.created_at} to ${chain.entries.at(-1)!.created_at}`;
  return [
    `${whole ? "VALID" : "VALID SEGMENT"}: ${checked} ${checked === 1 ? "entry" : "entries"}${times}`,
    `Team ${chain.team_id}`,
    `Head ${chain.head_seq}:${chain.head_hash}`,
    ...(whole ? [] : ["This export is of a period: what was before and after it was not checked."]),
    earlier === undefined
      ? "Keep the head elsewhere and pass it as --head next time: only that shows that nothing was rewritten."
      : `Begins with the earlier ledger that ended at entry ${earlier.head_seq}.`,
  ].join("\n");
}

/** Parses JSON in which no object has a field twice: readers differ in which of the two they believe. */
function parseExport(text: string, file: string): unknown {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    fail(UNUSABLE, `Cannot check ${file}: it is not JSON.`);
  }
  const written = text.matchAll(/"(?:[^"\\]+|\\.)*"(\s*:)?/g).filter(([, colon]) => colon !== undefined);
  if ([...written].length !== countFields(value)) {
    fail(UNUSABLE, `Cannot check ${file}: an object in it has a field twice.`);
  }
  return value;
}

/** Fields of all objects in a value, however deep. */
function countFields(value: unknown): number {
  let count = 0;
  for (const open = [value]; open.length > 0;) {
    const each = open.pop();
    if (typeof each !== "object" || each === null) continue;
    if (!Array.isArray(each)) count += Object.keys(each).length;
    for (const inner of Object.values(each)) open.push(inner);
  }
  return count;
}

async function readInput(file: string): Promise<string> {
  try {
    const bytes = file === "-" ? await new Response(Deno.stdin.readable).bytes() : await Deno.readFile(file);
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch (error) {
    fail(
      UNUSABLE,
      `Cannot read ${file}: ${error instanceof Error ? error.message : error}`,
    );
  }
}

function readArguments(): { file: string; earlier: AuditHead | undefined } {
  try {
    const { positionals, values } = parseArgs({
      args: Deno.args,
      allowPositionals: true,
      options: { head: { type: "string" } },
    });
    const [file, ...rest] = positionals;
    if (file === undefined || file === "" || rest.length > 0) {
      throw new Error("Name one file.");
    }
    return {
      file,
      earlier: values.head === undefined ? undefined : readHead(values.head),
    };
  } catch (error) {
    fail(
      UNUSABLE,
      `${error instanceof Error ? error.message : error}\n${USAGE}`,
    );
  }
}

function readHead(text: string): AuditHead {
  const [, seq, hash] = /^(-1|0|[1-9][0-9]{0,14}):([0-9a-f]{64})$/.exec(text) ??
    [];
  if (seq === undefined) throw new Error(`Not a head: ${text}`);
  return { head_seq: Number(seq), head_hash: hash! };
}

function fail(code: number, message: string): never {
  printError(message);
  Deno.exit(code);
}

await main();

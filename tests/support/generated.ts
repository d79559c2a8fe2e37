/** The files that are made from others: what each should hold now, and whether it does. */

import { join } from "node:path";
import { CATALOGUE } from "../../supabase/functions/_shared/errors.ts";
import { referencePage } from "./reference_page.ts";
import { DOCUMENTED, type Documented, documentOf } from "./references.ts";
import { describeSchema, type Queryable } from "./schema.ts";

const REPOSITORY = join(import.meta.dirname!, "../..");
const README = "README.md";
const ERRORS_START = "<!-- errors:start -->";
const ERRORS_END = "<!-- errors:end -->";

/** What a file should hold, by its path from the root of the repository. */
export interface GeneratedFile {
  path: string;
  text: string;
}

/** Makes every generated file from the code and a migrated database. Writes nothing. */
export async function generateFiles(sql: Queryable): Promise<GeneratedFile[]> {
  return [
    { path: "supabase/schema.sql", text: await describeSchema(sql) },
    { path: README, text: withErrorTable(await read(README) ?? newReadme()) },
    ...DOCUMENTED.flatMap(generateReference),
    { path: "docs/reference.html", text: referencePage(DOCUMENTED.map(documentOf)) },
  ];
}

/** The document for people, and the copy that is deployed with the function and served by it. */
function generateReference(documented: Documented): GeneratedFile[] {
  const document = documentOf(documented);
  return [
    { path: documented.path, text: `${JSON.stringify(document, null, 2)}\n` },
    { path: `supabase/functions/${documented.name}/openapi.json`, text: `${JSON.stringify(document)}\n` },
  ];
}

/** Writes the files that are not as they should be. Returns their paths. */
export async function writeFiles(files: readonly GeneratedFile[]): Promise<string[]> {
  const stale = await findStale(files);
  for (const { path, text } of stale) await Deno.writeTextFile(join(REPOSITORY, path), text);
  return stale.map(({ path }) => path);
}

/** The files that are missing or hold something else. */
export async function findStale(files: readonly GeneratedFile[]): Promise<GeneratedFile[]> {
  const current = await Promise.all(files.map(({ path }) => read(path)));
  return files.filter(({ text }, i) => current[i] !== text);
}

/** Puts the table of errors between its markers. Throws when they are not there. */
export function withErrorTable(readme: string): string {
  const start = readme.indexOf(ERRORS_START);
  const end = readme.indexOf(ERRORS_END);
  if (start < 0 || end < start) {
    throw new Error(`${README} needs a line ${ERRORS_START} and, after it, a line ${ERRORS_END}`);
  }
  return `${readme.slice(0, start)}${ERRORS_START}\n\n${errorTable()}\n\n${readme.slice(end)}`;
}

function errorTable(): string {
  const rows = Object.entries(CATALOGUE).map(([code, { status, when }]) =>
    `| ${status} | \`${code}\` | ${when} |`
  );
  return ["| Status | Code | When |", "|---|---|---|", ...rows].join("\n");
}

function newReadme(): string {
  return `# v2-agent-state\n\n## Errors\n\n${ERRORS_START}\n${ERRORS_END}\n`;
}

async function read(path: string): Promise<string | undefined> {
  try {
    return await Deno.readTextFile(join(REPOSITORY, path));
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}

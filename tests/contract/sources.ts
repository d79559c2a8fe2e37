/** The project's own source files as text, for the tests that hold them to the rules they share. */

import { join, relative } from "node:path";

/** The root of the repository. */
export const REPOSITORY = join(import.meta.dirname!, "../..");

/** Directories whose files are made from others; some are made anew while tests run. */
const MADE = ["node_modules", "dist"];

/** One file: its path from the root of the repository, and its text. */
export interface Source {
  path: string;
  text: string;
}

/** Reads every file below `directory` whose name ends in `suffix`, in order of their paths. */
export function readSources(directory: string, suffix: string): Source[] {
  return [...walk(join(REPOSITORY, directory))]
    .filter((path) => path.endsWith(suffix))
    .map((path) => ({ path: relative(REPOSITORY, path), text: Deno.readTextFileSync(path) }))
    .sort((a, b) => a.path < b.path ? -1 : 1);
}

/** TypeScript without its comments: what is left is what runs. Line breaks stay where they were. */
export function withoutComments(text: string): string {
  return text
    .replace(/\/\*[\s\S]*?\*\//g, (comment) => comment.replace(/[^\n]/g, ""))
    .replace(/(^|[^:"'`\\])\/\/.*$/gm, "$1");
}

/** SQL without its comments. */
export function withoutSqlComments(text: string): string {
  return text.replace(/--.*$/gm, "");
}

/** `path:line` of a position in a text. */
export function locate({ path, text }: Source, position: number): string {
  return `${path}:${text.slice(0, position).split("\n").length}`;
}

function* walk(directory: string): Generator<string> {
  for (const entry of Deno.readDirSync(directory)) {
    const path = join(directory, entry.name);
    if (entry.isFile) yield path;
    else if (entry.isDirectory && !entry.name.startsWith(".") && !MADE.includes(entry.name)) {
      yield* walk(path);
    }
  }
}

/** Writes a defect back into a copy of the repository. */

import { join } from "node:path";
import type { Defect, Patch } from "./defect.ts";

/** Files by path, as they are in the repository and as they are to be. */
export type Changes = Map<string, { before: string; after: string }>;

/** What a defect changes below `root`. Throws when one of its patches does not fit: then it is the patch that is wrong. */
export async function changesOf(root: string, { id, patches }: Defect): Promise<Changes> {
  const changes: Changes = new Map();
  for (const patch of patches) {
    const path = await pathOf(root, patch);
    const text = path === undefined ? "" : changes.get(path)?.after ?? await Deno.readTextFile(path);
    const after = applyPatch(text, patch);
    if (path === undefined || after === text) {
      throw new Error(`${id}: a patch does not fit: ${JSON.stringify(patch).slice(0, 200)}`);
    }
    changes.set(path, { before: changes.get(path)?.before ?? text, after });
  }
  return changes;
}

/** The file that a patch is for; of migrations, the newest that has what it looks for, if any has. */
async function pathOf(root: string, patch: Patch): Promise<string | undefined> {
  if ("file" in patch) return join(root, patch.file);
  const migrations = await readMigrations(root);
  return migrations.findLast(({ text }) =>
    "migration" in patch ? text.includes(patch.migration) : definitionOf(patch.sql).test(text)
  )?.path;
}

/** The text with the patch; as it was when what the patch looks for is not there exactly once. */
function applyPatch(text: string, patch: Patch): string {
  if ("file" in patch) return replaceOnce(text, patch.find, patch.replace);
  if ("migration" in patch) return replaceOnce(text, patch.migration, patch.replace);
  const body = definitionOf(patch.sql).exec(text)?.[0] ?? "";
  return text.replace(body, () => replaceOnce(body, patch.find, patch.replace));
}

function definitionOf(name: string): RegExp {
  return new RegExp(`create (?:or replace )?function ${name.replace(".", "\\.")}\\([\\s\\S]*?\\n\\$\\$;`);
}

function replaceOnce(text: string, find: string, replace: string): string {
  return text.split(find).length === 2 ? text.replace(find, () => replace) : text;
}

async function readMigrations(root: string): Promise<{ path: string; text: string }[]> {
  const directory = join(root, "supabase/migrations");
  const names = [];
  for await (const { name } of Deno.readDir(directory)) if (name.endsWith(".sql")) names.push(name);
  return await Promise.all(
    names.sort().map(async (name) => {
      const path = join(directory, name);
      return { path, text: await Deno.readTextFile(path) };
    }),
  );
}

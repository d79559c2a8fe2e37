/** Rewrites the generated files: `deno task generate`. */

import { print } from "../local/print.ts";
// @deno-types="npm:@types/pg@8.23.1"
import pg from "pg";
import { generateFiles, writeFiles } from "./support/generated.ts";
import { withMigratedDatabase } from "./support/throwaway.ts";

const files = await withMigratedDatabase(async (url) => {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return await generateFiles(client, url);
  } finally {
    await client.end();
  }
});
const written = new Set(await writeFiles(files));
for (const { path } of files) print(`${written.has(path) ? "written" : "unchanged"}  ${path}`);

/** The generated files are what `deno task generate` would write. Asked for by `deno task ok`. */

import assert from "node:assert/strict";
import { cloneDatabase } from "../support/database.ts";
import { findStale, generateFiles, withErrorTable } from "../support/generated.ts";
import { SCALAR, sha256Of, VENDORED } from "../support/reference_page.ts";

/** While code is being written they may lag behind; before a hand-over they may not. */
const ignore = Deno.env.get("CHECK_GENERATED") !== "1";

Deno.test({
  name: "the generated files are up to date",
  ignore,
  sanitizeOps: false,
  sanitizeResources: false,
  async fn() {
    const database = await cloneDatabase();
    try {
      const stale = await findStale(await generateFiles(database.sql, database.url));
      const names = stale.map(({ path }) => path).join(" and ");
      assert.equal(stale.length, 0, `${names} would be written differently now. Run: deno task generate`);
    } finally {
      await database.drop();
    }
  },
});

Deno.test("the error table replaces what is between its markers and nothing else", () => {
  const readme = "before\n<!-- errors:start -->\nSTALE\n<!-- errors:end -->\nafter\n";
  const written = withErrorTable(readme);
  assert.ok(written.startsWith("before\n<!-- errors:start -->\n\n| Status | Code | When |\n"));
  assert.ok(written.endsWith(" |\n\n<!-- errors:end -->\nafter\n"));
  assert.ok(!written.includes("STALE"));
  assert.equal(withErrorTable(written), written);
});

Deno.test("a README without markers is refused, not rewritten", () => {
  assert.throws(() => withErrorTable("# Title\n"), /README\.md needs a line/);
  assert.throws(() => withErrorTable("<!-- errors:end --><!-- errors:start -->"), /README\.md needs a line/);
});

Deno.test("the script that draws the reference is the one that is named, letter for letter", async () => {
  const script = await Deno.readTextFile(new URL(`../../${VENDORED}`, import.meta.url));
  assert.equal(await sha256Of(script), SCALAR.sha256, "Run: deno task vendor-reference");
});

/**
 * What the client may use: itself, hashes, and what every runtime has. It stands alone: of the service it carries one
 * pure file, the audit verifier.
 */

import assert from "node:assert/strict";
import { dirname, join } from "node:path/posix";
import { locate, readSources, withoutComments } from "./sources.ts";

const SOURCES = readSources("client", ".ts").map(({ path, text }) => ({ path, text: withoutComments(text) }))
  .filter(({ path }) => !path.startsWith("client/npm/"));
const OWNED_BY_THE_SERVICE = "supabase/functions/_shared/domain/audit_chain.ts";
/** Files that need Node or Deno, and adapters with the frameworks that they are for. */
const MAY_IMPORT: [path: RegExp, specifier: RegExp][] = [
  [/./, /^@noble\/hashes\//],
  [/^client\/(store_file\.ts|command\/|adapters\/mcp\/)/, /^node:/],
  [/^client\/adapters\/langgraph\//, /^@langchain\/(core|langgraph-checkpoint)(\/|$)/],
  [/^client\/adapters\/openai_agents\//, /^@openai\/agents-core$/],
  [/^client\/adapters\/mcp\//, /^(@modelcontextprotocol\/sdk\/|zod$)/],
];

Deno.test("the client imports itself, hashes, and nothing of the service but the audit verifier", () => {
  assert.ok(SOURCES.length > 30);
  const wrong = SOURCES.flatMap((source) =>
    Array.from(source.text.matchAll(/\b(?:from|import)\s*\(?\s*"([^"]+)"/g)).flatMap((match) => {
      const specifier = match[1]!;
      const target = join(dirname(source.path), specifier);
      const allowed = specifier.startsWith(".")
        ? target.startsWith("client/") ||
          (source.path === "client/audit_chain.ts" && target === OWNED_BY_THE_SERVICE)
        : MAY_IMPORT.some(([path, name]) => path.test(source.path) && name.test(specifier));
      return allowed ? [] : [`${locate(source, match.index)}: ${specifier}`];
    })
  );
  assert.deepEqual(wrong, []);
});

Deno.test("the client asks nothing of Deno, and uses no engine's newest wishes", () => {
  const patterns = [
    /\bDeno\s*\./g,
    /\bBuffer\s*\./g,
    /\bTemporal\s*\./g,
    /\bimport\.meta\.(?:main|dirname)\b/g,
  ];
  const wrong = SOURCES.flatMap((source) =>
    patterns.flatMap((pattern) =>
      Array.from(source.text.matchAll(pattern), (match) => locate(source, match.index))
    )
  );
  assert.deepEqual(wrong, []);
});

Deno.test("the audit verifier needs nothing but hashes", () => {
  const [verifier] = readSources("supabase/functions/_shared/domain", "audit_chain.ts");
  const imports = Array.from(verifier!.text.matchAll(/\bfrom\s+"([^"]+)"/g), ([, specifier]) => specifier!);
  const needed = imports.filter((specifier) => !specifier.startsWith("@noble/hashes/"));
  assert.deepEqual([...new Set(needed)], ["./audit_format.ts"]);
  const [format] = readSources("supabase/functions/_shared/domain", "audit_format.ts");
  assert.doesNotMatch(format!.text, /\b(?:from|import)\s+"/);
});

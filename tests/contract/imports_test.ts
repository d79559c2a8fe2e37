/**
 * Who may import whom inside `supabase/functions`, and what code there may use at all.
 *
 * index → app → handlers → {middleware, flows, domain}; flows → {domain, interfaces of the platform};
 * platform → {vendor SDKs}; domain → itself. Between the two functions there is only `_shared`. The reference may look
 * at all that answers requests, and nothing that runs may load it: only the document that is made from it.
 */

import assert from "node:assert/strict";
import { dirname, join } from "node:path/posix";
import { locate, readSources, type Source, withoutComments } from "./sources.ts";

const ROOT = "supabase/functions/";
const SOURCES = readSources(ROOT, ".ts");

type Layer =
  | "index"
  | "app"
  | "handlers"
  | "middleware"
  | "flows"
  | "domain"
  | "reference"
  | "openapi.json"
  | "platform"
  | "platform/live"
  | "platform/mod"
  | "context"
  | "env"
  | "errors";

/** What the files of a layer may import. A name followed by ` (types)` stands for `import type` only. */
const ALLOWED: Record<Layer, readonly string[]> = {
  "index": ["app", "env", "platform/live"],
  "app": [
    ...["handlers", "middleware", "flows", "domain", "errors"],
    ...["context (types)", "env (types)", "platform/mod (types)", "hono"],
  ],
  "handlers": [
    ...["middleware", "flows", "domain", "errors", "openapi.json"],
    ...["context (types)", "env (types)", "platform/mod (types)", "hono", "zod"],
  ],
  "middleware": [
    ...["middleware", "domain", "errors"],
    ...["context (types)", "env (types)", "platform/mod (types)", "hono", "zod"],
  ],
  "flows": ["flows", "domain", "errors", "platform/mod (types)"],
  // Parsers of other people's formats are as pure as a hash.
  "domain": ["domain", "@noble/hashes", "node:buffer", "node:crypto", "saxes", "scim2-parse-filter"],
  "reference": ["reference", "handlers", "middleware", "domain", "errors", "zod"],
  "openapi.json": [],
  "platform": [
    ...["platform", "domain", "errors", "env (types)", "platform/mod (types)"],
    ...["@supabase/supabase-js", "pg", "jose", "standardwebhooks", "zod", "node:buffer", "node:crypto"],
  ],
  "platform/live": ["platform", "env (types)", "platform/mod (types)", "@supabase/supabase-js"],
  "platform/mod": ["domain (types)"],
  "context": ["domain (types)", "env (types)", "errors (types)", "platform/mod (types)", "hono (types)"],
  "env": ["domain", "zod"],
  "errors": [],
};

/** Outside of flows and platform, the places that may catch, and why. */
const MAY_CATCH: Record<string, string> = {
  "v2-agent-state/domain/saml_metadata.ts": "what is no certificate makes the reader of certificates throw",
  "v2-agent-state/domain/scim_filter.ts": "what is no filter makes the parser throw",
  "_shared/domain/bytes.ts": "text that is no base64 has no bytes, whatever the runtime makes of it",
  "_shared/env.ts": "a malformed secret must not be quoted",
  "_shared/middleware/parse.ts": "malformed JSON becomes a wire code",
  "_shared/middleware/stream_json.ts":
    "an answer that is under way can only be broken off, and that is logged",
};

/** All that code on the hosted runtime asks of Deno; both are older than 2.1. */
const DENO_MEMBERS = ["env", "serve"];

/** Outside of the entry points, what else asks something of Deno, and what. */
const MAY_ASK_DENO: Record<string, string> = {
  "_shared/platform/guarded_fetch.ts": "resolveDns",
  "_shared/platform/name_service.ts": "resolveDns",
};

/** Newer than the hosted runtime's Deno 2.1. The type-check on that version finds most; this names them. */
const TOO_NEW = [
  /\bUint8Array\s*\.\s*from(?:Base64|Hex)\b/,
  /\.\s*(?:toBase64|toHex|setFromBase64|setFromHex)\s*\(/,
  /\bRegExp\s*\.\s*escape\b/,
  /\bError\s*\.\s*isError\b/,
  /\bTemporal\s*\./,
  /\bIterator\s*\.\s*(?:concat|zip|zipKeyed)\b/,
  /\bMath\s*\.\s*(?:sumPrecise|f16round)\b/,
  /\bFloat16Array\b/,
  /\.\s*getOrInsert(?:Computed)?\s*\(/,
  /\bsubtle\s*\.\s*timingSafeEqual\b/,
];

interface Import {
  specifier: string;
  typeOnly: boolean;
  position: number;
}

function findImports(text: string): Import[] {
  const statements = text.matchAll(/^(?:import|export)\s+(type\s+)?([^;"]*?)\s*from\s+"([^"]+)"/gm);
  const bare = text.matchAll(/(?:^import\s+|\bimport\(\s*)"([^"]+)"/gm);
  return [
    ...Array.from(statements, ({ 1: type, 2: names, 3: specifier, index }) => ({
      specifier: specifier!,
      typeOnly: type !== undefined || hasTypesOnly(names!),
      position: index,
    })),
    ...Array.from(
      bare,
      ({ 1: specifier, index }) => ({ specifier: specifier!, typeOnly: false, position: index }),
    ),
  ];
}

/** Whether every name in `{ type A, type B }` is a type. */
function hasTypesOnly(names: string): boolean {
  const inside = /^\{([^}]*)\}$/.exec(names)?.[1];
  return inside !== undefined && inside.split(",").filter((name) => name.trim() !== "")
    .every((name) => name.trim().startsWith("type "));
}

/** The layer of a file of ours, by its path below `supabase/functions`. */
function layerOf(path: string): Layer | undefined {
  const [, ...rest] = path.split("/");
  const inside = rest.join("/");
  if (inside === "platform/live.ts") return "platform/live";
  if (inside === "platform/mod.ts") return "platform/mod";
  const directory = /^(handlers|middleware|flows|domain|platform|reference)\//.exec(inside)?.[1];
  if (directory !== undefined) return directory as Layer;
  if (inside === "openapi.json") return inside;
  return /^(index|app|context|env|errors)\.ts$/.exec(inside)?.[1] as Layer | undefined;
}

/** The package of `hono/cors`, `@noble/hashes/sha2.js`, `node:buffer`. */
function packageOf(specifier: string): string {
  return specifier.split("/").slice(0, specifier.startsWith("@") ? 2 : 1).join("/");
}

/** Says what is wrong with one import, or nothing. */
function judge(path: string, { specifier, typeOnly }: Import): string | undefined {
  const allowed = ALLOWED[layerOf(path)!];
  let target: string;
  if (specifier.startsWith(".")) {
    const imported = join(dirname(path), specifier);
    const [from, to] = [path.split("/")[0], imported.split("/")[0]];
    if (to !== "_shared" && to !== from) return `${from} reaches into ${imported}`;
    const layer = layerOf(imported);
    if (layer === undefined) return `${imported} is in no layer`;
    target = layer;
  } else {
    target = packageOf(specifier);
  }
  if (allowed.includes(target) || (typeOnly && allowed.includes(`${target} (types)`))) return undefined;
  return `${layerOf(path)} may not import ${specifier}${typeOnly ? "" : " (other than as types)"}`;
}

Deno.test("every file of a function is in a layer", () => {
  const strays = SOURCES.filter(({ path }) => layerOf(path.slice(ROOT.length)) === undefined);
  assert.deepEqual(strays.map(({ path }) => path), []);
});

Deno.test("imports run in one direction", () => {
  const wrong = SOURCES.flatMap((source) =>
    findImports(withoutComments(source.text)).flatMap((each) => {
      const problem = judge(source.path.slice(ROOT.length), each);
      return problem === undefined ? [] : [`${locate(source, each.position)}: ${problem}`];
    })
  );
  assert.deepEqual(wrong, []);
});

Deno.test("no import escapes the checks of this file", () => {
  for (const { path, text } of SOURCES) {
    const code = withoutComments(text);
    const statements =
      code.match(/\bfrom ["'][^"']+["'](?: with \{ type: "json" \})?;$|\bimport\s*["'`(]|\brequire\s*\(/gm) ??
        [];
    assert.equal(findImports(code).length, statements.length, path);
  }
});

Deno.test("only what answers requests knows Hono", () => {
  const allowed = /\/(?:middleware|handlers)\/|\/app\.ts$|\/context\.ts$/;
  const wrong = SOURCES.filter(({ path, text }) =>
    !allowed.test(path) &&
    findImports(withoutComments(text)).some((each) => packageOf(each.specifier) === "hono")
  );
  assert.deepEqual(wrong.map(({ path }) => path), []);
});

Deno.test("only the entry points touch Deno, and only what Deno 2.1 has", () => {
  const wrong = findAll(
    /\bDeno\s*(?:\.\s*(\w+)|\[)/g,
    (source, [, member]) =>
      MAY_ASK_DENO[source.path.slice(ROOT.length)] !== member &&
      (!/\/index\.ts$/.test(source.path) || !DENO_MEMBERS.includes(member ?? "")),
  );
  assert.deepEqual(wrong, []);
});

Deno.test("nothing reads the environment behind the entry points' back", () => {
  assert.deepEqual(findAll(/\bprocess\s*\.\s*env\b|"node:process"|\bBun\b|import\.meta\.env/g), []);
});

Deno.test("nothing is used that the hosted runtime does not have", () => {
  assert.deepEqual(TOO_NEW.flatMap((pattern) => findAll(new RegExp(pattern, "g"))), []);
});

Deno.test("exceptions are caught where the outside world ends, and nowhere else", () => {
  const allowed = (path: string) =>
    /\/(?:flows|platform)\//.test(path) || path.slice(ROOT.length) in MAY_CATCH;
  assert.deepEqual(findAll(/(?<!\.)\bcatch\s*[({]/g, (source) => !allowed(source.path)), []);
  for (const path of Object.keys(MAY_CATCH)) {
    assert.ok(SOURCES.some((source) => source.path === ROOT + path), `${path} is gone: take it off the list`);
  }
});

Deno.test("domain rules know no clock, no chance and no network", () => {
  const impure =
    /\bDate\.now\b|\bnew Date\(\s*\)|\bperformance\b|\bMath\.random\b|\bfetch\(|\bcrypto\.|\bsetTimeout\b/g;
  assert.deepEqual(findAll(impure, (source) => source.path.includes("/domain/")), []);
});

/** Where a pattern occurs in code (not in comments), as `path:line`. */
function findAll(
  pattern: RegExp,
  counts: (source: Source, match: RegExpExecArray) => boolean = () => true,
): string[] {
  return SOURCES.flatMap((source) => {
    const code = { path: source.path, text: withoutComments(source.text) };
    return Array.from(code.text.matchAll(pattern))
      .filter((match) => counts(code, match))
      .map((match) => `${locate(code, match.index)}: ${match[0]}`);
  });
}

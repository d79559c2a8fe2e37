/**
 * Builds the npm package: `deno task build:client`. ESM by esbuild, types and a type-check by TypeScript, a tarball by
 * npm pack. The package needs nothing at run time; the frameworks of the adapters are optional peers.
 */

import { execFileSync } from "node:child_process";
import { cp, mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const HERE = dirname(fileURLToPath(import.meta.url));
const CLIENT = dirname(HERE);
const SOURCE = join(HERE, ".source");
const OUT = join(HERE, "dist");
const DOMAIN = join(CLIENT, "../supabase/functions/_shared/domain");
const VERIFIER = ["audit_chain.ts", "audit_format.ts"];
const ENTRIES = [
  "mod.ts",
  "store_file.ts",
  "store_indexeddb.ts",
  "command/main.ts",
  "adapters/langgraph/checkpointer.ts",
  "adapters/openai_agents/session.ts",
  "adapters/mcp/server.ts",
  "adapters/mcp/main.ts",
];
const PEERS = ["@langchain/*", "@modelcontextprotocol/*", "@openai/*", "zod"];

await rm(OUT, { recursive: true, force: true });
await copySource();
await build({
  absWorkingDir: SOURCE,
  entryPoints: ENTRIES,
  outdir: OUT,
  bundle: true,
  splitting: true,
  format: "esm",
  target: "es2022",
  platform: "neutral",
  mainFields: ["module", "main"],
  external: [...PEERS, "node:*"],
  chunkNames: "shared/[name]-[hash]",
  legalComments: "none",
  logLevel: "warning",
});
await emitTypes();
await cp(join(CLIENT, "README.md"), join(HERE, "README.md"));
const [packed] = JSON.parse(run("npm", ["pack", "--json", "--ignore-scripts"]));
process.stdout.write(
  `Package   ${packed.filename}: ${kib(packed.size)} packed, ${kib(packed.unpackedSize)} unpacked\n`,
);
process.stdout.write(`Browser   ${kib(await browserSize())} minified and gzipped, with everything\n`);

/**
 * Copies the sources to where the frameworks are installed. The audit verifier, which the service owns, comes along: the
 * package depends on nothing of the service's.
 */
async function copySource() {
  await rm(SOURCE, { recursive: true, force: true });
  await mkdir(SOURCE);
  for (const name of await readdir(CLIENT)) {
    if (name.endsWith(".ts") || ["adapters", "command"].includes(name)) {
      await cp(join(CLIENT, name), join(SOURCE, name), { recursive: true });
    }
  }
  for (const name of VERIFIER) await cp(join(DOMAIN, name), join(SOURCE, name));
  await writeFile(
    join(SOURCE, "tsconfig.json"),
    JSON.stringify({
      compilerOptions: {
        strict: true,
        noUncheckedIndexedAccess: true,
        noImplicitOverride: true,
        target: "es2022",
        module: "esnext",
        moduleResolution: "bundler",
        lib: ["esnext", "dom", "dom.iterable", "dom.asynciterable"],
        types: ["node"],
        skipLibCheck: true,
        allowImportingTsExtensions: true,
        declaration: true,
        emitDeclarationOnly: true,
        outDir: join(OUT, "types"),
        rootDir: ".",
      },
      files: ENTRIES,
    }),
  );
}

/** Emits declarations. Their imports name `.ts` files, of which the package has none. */
async function emitTypes() {
  run("node", [join(HERE, "node_modules/typescript/bin/tsc"), "-p", join(SOURCE, "tsconfig.json")]);
  const types = join(OUT, "types");
  for (const name of await readdir(types, { recursive: true })) {
    if (!name.endsWith(".d.ts")) continue;
    const text = await readFile(join(types, name), "utf8");
    await writeFile(join(types, name), text.replaceAll(/((?:from|import\()\s*"\.[^"]*)\.ts"/g, '$1.js"'));
  }
}

async function browserSize() {
  const { outputFiles } = await build({
    entryPoints: [join(OUT, "mod.js")],
    bundle: true,
    minify: true,
    format: "esm",
    write: false,
  });
  return gzipSync(outputFiles[0].contents).length;
}

function run(program, args) {
  try {
    return execFileSync(program, args, { cwd: HERE, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
  } catch (error) {
    process.stderr.write(`${error.stdout}\n${error.stderr}\n`);
    process.exit(1);
  }
}

function kib(bytes) {
  return `${(bytes / 1024).toFixed(1)} KiB`;
}

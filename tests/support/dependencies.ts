/** The list of what the functions are made of: every package that is deployed, its version and its licence. */

import { join } from "node:path";

const REPOSITORY = join(import.meta.dirname!, "../..");
const FUNCTION = "supabase/functions/v2-agent-state/deno.json";

interface Lock {
  specifiers: Record<string, string>;
  npm: Record<string, { dependencies?: string[]; integrity: string }>;
}

interface Package {
  name: string;
  version: string;
  licence: string;
  direct: boolean;
}

/** Makes docs/dependencies.md from the lock file and the installed packages. */
export async function describeDependencies(): Promise<string> {
  const lock: Lock = JSON.parse(await read("deno.lock"));
  const { imports } = JSON.parse(await read(FUNCTION)) as { imports: Record<string, string> };
  const direct = [
    ...new Set(Object.values(imports).map((specifier) => specifier.replace(/^npm:\/?|\/$/g, ""))),
  ];
  const keys = closure(lock, direct.map((each) => keyOf(lock, each)));
  const packages = await Promise.all(keys.map((key) => describe(key, direct)));
  const rows = packages.sort((a, b) => a.name < b.name ? -1 : 1).map(({ name, version, licence, direct }) =>
    `| ${direct ? `**${name}**` : name} | ${version} | ${licence} |`
  );
  return [
    "# Dependencies",
    "",
    "Every package that is deployed with the functions, from `deno.lock`; in bold those that our code imports. Made by",
    "`deno task generate`. What only tests and the local stack use is pinned in the same file and is not deployed.",
    "",
    "| Package | Version | Licence |",
    "|---|---|---|",
    ...rows,
    "",
  ].join("\n");
}

/** The lock's key of `name@version`, which may go on with the versions of its peers. */
function keyOf({ npm }: Lock, wanted: string): string {
  const keys = Object.keys(npm).filter((key) =>
    key === wanted || key.startsWith(`${wanted}_`) || key.startsWith(`${wanted}@`)
  );
  if (keys.length === 0) throw new Error(`deno.lock has no ${wanted}`);
  return keys[0]!;
}

/** These packages and all that they need, once each. */
function closure(lock: Lock, keys: string[]): string[] {
  const all = new Set<string>();
  function add(key: string): void {
    if (all.has(key)) return;
    all.add(key);
    for (const dependency of lock.npm[key]!.dependencies ?? []) add(keyOf(lock, dependency));
  }
  keys.forEach(add);
  return [...all];
}

async function describe(key: string, direct: string[]): Promise<Package> {
  const [, name, version] = /^(@?[^@]+)@([^_]+)/.exec(key)!;
  const installed = join(
    "node_modules/.deno",
    `${name!.replace("/", "+")}@${version}`,
    "node_modules",
    name!,
  );
  const { license } = JSON.parse(await read(join(installed, "package.json"))) as { license?: string };
  if (license === undefined) throw new Error(`${name} names no licence`);
  return { name: name!, version: version!, licence: license, direct: direct.includes(`${name}@${version}`) };
}

async function read(path: string): Promise<string> {
  return await Deno.readTextFile(join(REPOSITORY, path));
}

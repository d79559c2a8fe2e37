/**
 * The npm package: built, installed where there is nothing else, and used by Node, by a browser and by the frameworks
 * that it has adapters for. The README's first lines are run as they stand.
 */

import assert from "node:assert/strict";
import { join } from "node:path";
import { exists } from "../../local/files.ts";
import { onOneBackend } from "../support/harness.ts";
import { serve } from "./support.ts";

const NPM = new URL("../../client/npm", import.meta.url).pathname;
const README = new URL("../../client/README.md", import.meta.url).pathname;
const CHROMIUM = Deno.env.get("CHROMIUM") ?? "/usr/bin/chromium";
const hasChromium = await exists(CHROMIUM);
const TYPES: Record<string, string> = { js: "text/javascript", html: "text/html" };

/** Runs a program to its end; fails with what it said. */
async function run(cwd: string, program: string, args: string[], env: Record<string, string> = {}) {
  const { success, stdout, stderr } = await new Deno.Command(program, { args, cwd, env, stdin: "null" })
    .output();
  const [out, err] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes).trim());
  assert.ok(success, `${program} ${args.join(" ")}\n${out}\n${err}`);
  return out!;
}

let built: Promise<string> | undefined;

/** Installs the tools, builds the package once, and returns the tarball. */
function buildPackage(): Promise<string> {
  return built ??= (async () => {
    if (!(await isInstalled())) await run(NPM, "npm", ["ci", "--prefer-offline"]);
    const said = await run(NPM, "node", ["build.mjs"]);
    const [, name] = /^Package {3}(\S+\.tgz): [0-9.]+ KiB packed/m.exec(said)!;
    return join(NPM, name!);
  })();
}

/** Whether the tools are those of the lock file: npm notes what it installed, after it has. */
async function isInstalled(): Promise<boolean> {
  const timeOf = async (path: string) =>
    (await Deno.stat(join(NPM, path)).catch(() => undefined))?.mtime ?? 0;
  return await timeOf("node_modules/.package-lock.json") > await timeOf("package-lock.json");
}

/** An empty project with the package in it, and nothing else. */
async function inEmptyProject(test: (project: string) => Promise<void>): Promise<void> {
  const project = await Deno.makeTempDir();
  try {
    const tarball = await buildPackage();
    await Deno.writeTextFile(`${project}/package.json`, '{"type":"module","private":true}');
    await run(project, "npm", ["install", "--offline", "--no-audit", "--no-fund", tarball]);
    await test(project);
  } finally {
    await Deno.remove(project, { recursive: true });
  }
}

onOneBackend((test) => {
  test("package: in an empty Node project it needs nothing else, and the README's first lines run", (world) =>
    inEmptyProject(async (project) => {
      await using served = serve(world);
      const installed = [...Deno.readDirSync(`${project}/node_modules`)].map(({ name }) => name)
        .filter((name) => !name.startsWith("."));
      assert.deepEqual(installed, ["v2-agent-state-client"]);

      const [, lines] = /```ts\n([\s\S]*?)```/.exec(await Deno.readTextFile(README))!;
      assert.ok(lines!.trim().split("\n").length <= 10, "the README promises ten lines");
      const local = "http://127.0.0.1:8787/functions/v1/v2-agent-state";
      assert.ok(lines!.includes(local));
      await Deno.writeTextFile(`${project}/main.js`, lines!.replace(local, served.baseUrl));
      assert.equal(await run(project, "node", ["main.js"]), "{ goal: 'write the report' }");

      const env = { AGENT_STATE_HOME: `${project}/home`, AGENT_STATE_URL: served.baseUrl };
      const pushed = await run(project, "npx", ["agent-state", "push", "node_modules", "--json"], env);
      assert.ok(JSON.parse(pushed).files > 10);
      await run(project, "npx", ["agent-state", "pull", "copy", "--json"], env);
      const path = "v2-agent-state-client/dist/mod.js";
      assert.equal(
        await Deno.readTextFile(`${project}/copy/${path}`),
        await Deno.readTextFile(`${project}/node_modules/${path}`),
      );
    }));

  test("package: its types are what a strict TypeScript project needs, without the frameworks", () =>
    inEmptyProject(async (project) => {
      await Deno.writeTextFile(
        `${project}/main.ts`,
        `import { AgentStateClient, generateKey, type SnapshotReceipt, TeamClient } from "v2-agent-state-client";
         import { openFileStore } from "v2-agent-state-client/file-store";
         import { openIndexedDbStore } from "v2-agent-state-client/indexeddb-store";
         const client = new AgentStateClient({ baseUrl: "http://x", token: "t", agentId: "a" });
         const receipt: Promise<SnapshotReceipt> = client.snapshot({ key: generateKey(), payload: [1, "a", null] });
         // @ts-expect-error: a Map is no JSON
         client.snapshot({ key: generateKey(), payload: new Map() });
         export { openFileStore, openIndexedDbStore, receipt, TeamClient };`,
      );
      const flags = "--noEmit --strict --target es2022 --module nodenext --lib es2022,dom".split(" ");
      await run(project, "node", [`${NPM}/node_modules/typescript/bin/tsc`, ...flags, "main.ts"]);
    }));

  const inBrowser: typeof test = (name, drive) => {
    if (hasChromium) return test(name, drive);
    const how = `no browser at ${CHROMIUM}: apt-get install chromium, or set CHROMIUM`;
    Deno.test.ignore(`${name} (SKIPPED: ${how})`, () => {});
  };

  inBrowser("package: a page of another origin, its workers and IndexedDB, in Chromium", async (world) => {
    await buildPackage();
    await using served = serve(world);
    await using pages = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
      const { pathname } = new URL(request.url);
      if (pathname === "/") {
        return new Response("<!doctype html>", { headers: { "content-type": "text/html" } });
      }
      const file = `${NPM}${pathname === "/page.js" ? "/tests" : ""}${pathname}`;
      if (!(await exists(file))) return new Response(null, { status: 404 });
      const type = TYPES[pathname.split(".").at(-1)!] ?? "application/octet-stream";
      return new Response(await Deno.readFile(file), { headers: { "content-type": type } });
    });
    const env = {
      CHROMIUM,
      AGENT_STATE_URL: served.baseUrl,
      PAGE_URL: `http://127.0.0.1:${pages.addr.port}/`,
    };
    assert.deepEqual(JSON.parse(await run(NPM, "node", ["tests/browser.mjs"], env)), {
      snapshots: {
        payload: { from: "a page", text: "ü 🦉" },
        missing: { code: "no_snapshots_for_agent", request: "string" },
      },
      append: { waiting: 1, second: true },
      flush: { sent: 1, texts: ["written before the tab was closed"] },
      worker: 1,
      team: { extractable: false, publicKey: "-----BEGIN PUBLIC KEY-----" },
    });
    assert.ok(served.requests.some((each) => each.startsWith("OPTIONS")), "the browser has asked first");
  });

  test("package: the checkpointer passes LangGraph's conformance suite", async (world) => {
    await buildPackage();
    await using served = serve(world);
    const args = ["vitest", "run", "--globals", "--reporter=json", "tests/checkpointer.test.mjs"];
    const said = await run(NPM, "npx", args, { AGENT_STATE_URL: served.baseUrl, NO_COLOR: "1" });
    const report = JSON.parse(said.slice(said.indexOf("{")));
    assert.equal(report.numFailedTests, 0);
    assert.ok(report.numPassedTests > 500, `only ${report.numPassedTests} ran`);
  });

  test("package: the session does what the OpenAI Agents SDK asks of one", async (world) => {
    await buildPackage();
    await using served = serve(world);
    assert.match(
      await run(NPM, "node", ["tests/session.mjs"], { AGENT_STATE_URL: served.baseUrl }),
      /session: ok$/,
    );
  });

  test("package: the MCP server answers the SDK's client over stdio", async (world) => {
    await buildPackage();
    await using served = serve(world);
    assert.match(await run(NPM, "node", ["tests/mcp.mjs"], { AGENT_STATE_URL: served.baseUrl }), /mcp: ok$/);
  });
});

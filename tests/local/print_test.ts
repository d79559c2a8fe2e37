/** Lines of the log are written together, a moment later: none is lost or out of order, however the process ends. */

import assert from "node:assert/strict";

const PRINT = new URL("../../local/print.ts", import.meta.url).href;

async function outputOf(code: string): Promise<string[]> {
  const program = `import { print, printSoon } from "${PRINT}";\n${code}`;
  const { stdout } = await new Deno.Command(Deno.execPath(), { args: ["eval", program] }).output();
  return new TextDecoder().decode(stdout).split("\n").slice(0, -1);
}

Deno.test("lines that wait are written before the process exits, and before a line that does not wait", async () => {
  assert.deepEqual(await outputOf(`printSoon("one"); printSoon("two"); print("three"); printSoon("four");`), [
    ...["one", "two", "three", "four"],
  ]);
  assert.deepEqual(await outputOf(`printSoon("last words"); Deno.exit(3);`), ["last words"]);
  for (const fall of ["setTimeout(() => { throw new Error(); }, 1);", "Promise.reject(new Error());"]) {
    assert.deepEqual(await outputOf(`printSoon("before a fall"); ${fall}`), ["before a fall"]);
  }
});

Deno.test("lines that wait are written while the process goes on, and all of very many", async () => {
  const lines = await outputOf(`
    for (let i = 0; i < 50_000; i++) printSoon("line " + i);
    await new Promise((resolve) => setTimeout(resolve, 100));
    Deno.kill(Deno.pid, "SIGKILL");`);
  assert.equal(lines.length, 50_000);
  assert.equal(lines.at(-1), "line 49999");
});

/** What the pages tell people to type exists: tasks, files, and functions of the database. */

import assert from "node:assert/strict";
import { dirname, join } from "node:path";
import { readSources, REPOSITORY } from "./sources.ts";

const PAGES = [
  { path: "README.md", text: Deno.readTextFileSync(join(REPOSITORY, "README.md")) },
  ...readSources("docs", ".md"),
];

Deno.test("every task that a page names exists", () => {
  const { tasks } = JSON.parse(Deno.readTextFileSync(join(REPOSITORY, "deno.json")));
  const unknown = PAGES.flatMap(({ path, text }) =>
    Array.from(text.matchAll(/\b(?:deno(?:@[\d.]+)? |`)task ([a-z][a-z:-]*)/g), ([, name]) => name!)
      .filter((name) => !(name in tasks)).map((name) => `${path}: ${name}`)
  );
  assert.deepEqual(unknown, []);
});

Deno.test("every file that a page links or runs exists", () => {
  const missing = PAGES.flatMap(({ path, text }) => {
    const links = Array.from(
      text.matchAll(/\]\((?!https?:|#)([^)#\s]+)/g),
      ([, to]) => join(dirname(path), to!),
    );
    const run = Array.from(text.matchAll(/(?<!\/)\b(local\/\w+\.ts)\b/g), ([, file]) => file!);
    return [...links, ...run].filter((file) => !exists(file)).map((file) => `${path}: ${file}`);
  });
  assert.deepEqual(missing, []);
});

Deno.test("every unit of docs/self-hosting runs a file that exists", () => {
  for (const { path, text } of readSources("docs/self-hosting", ".service")) {
    const [, file] = /^ExecStart=\/usr\/local\/bin\/deno run -A (\S+\.ts)/m.exec(text) ?? [];
    assert.ok(file !== undefined && exists(file), `${path} runs ${file}`);
  }
});

function exists(path: string): boolean {
  try {
    Deno.statSync(join(REPOSITORY, path));
    return true;
  } catch {
    return false;
  }
}

/** The references that tests hold answers against, and the list of what was answered in a whole run. */

import { join } from "node:path";
import { Book } from "./documented.ts";
import { DOCUMENTED } from "./references.ts";

export const AGENT_STATE_BOOK = new Book(DOCUMENTED.find(({ name }) => name === "v2-agent-state")!);
export const VAULT_BOOK = new Book(DOCUMENTED.find(({ name }) => name === "vault")!);
const BOOKS = [AGENT_STATE_BOOK, VAULT_BOOK];

/** Names the directory where test files leave what they have seen. */
export const SEEN_DIRECTORY = "REFERENCE_SEEN";

/** Leaves what this test file has seen, when the runner asks for it. */
export async function noteSeen(): Promise<void> {
  const directory = Deno.env.get(SEEN_DIRECTORY);
  if (!directory) return;
  const lines = BOOKS.flatMap((book) => [...book.seen].map((each) => `${titleOf(book)}: ${each}\n`)).join("");
  await Deno.writeTextFile(join(directory, `${crypto.randomUUID()}.txt`), lines);
}

/** What no test file has seen answered, of all that the references list. */
export async function listUnseen(directory: string): Promise<string[]> {
  const seen = new Set<string>();
  for await (const { name } of Deno.readDir(directory)) {
    for (const line of (await Deno.readTextFile(join(directory, name))).split("\n")) seen.add(line);
  }
  return BOOKS.flatMap((book) => book.listAnswers().map((answer) => `${titleOf(book)}: ${answer}`))
    .filter((answer) => !seen.has(answer));
}

/** The function that a book is about: two have a `GET /health`. */
function titleOf({ document }: Book): string {
  return document.info.title;
}

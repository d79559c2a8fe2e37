/** The reference: every route has a description and every description a route, and the document is good OpenAPI. */

import assert from "node:assert/strict";
import { createConfig, lintFromString } from "npm:@redocly/openapi-core@2.64.0";
import { AGENT_STATE_BOOK, listUnseen, VAULT_BOOK } from "../support/books.ts";
import { DOCUMENTED, documentOf } from "../support/references.ts";

for (const documented of DOCUMENTED) {
  const { name, reference, mounted } = documented;

  Deno.test(`every route of ${name} has a description in ${name}/reference`, () => {
    const missing = mounted.map(({ route }) => route).filter((route) => !(route in reference.operations));
    assert.deepEqual(missing, [], "mounted in app.ts, not described");
  });

  Deno.test(`every description of ${name} has a route`, () => {
    const routes = mounted.map(({ route }) => route);
    const stray = Object.keys(reference.operations).filter((route) => !routes.includes(route));
    assert.deepEqual(stray, [], "described, not mounted in app.ts");
  });

  Deno.test(`every description of ${name} has the parameters of its path, and a limit to its body`, () => {
    for (const { route, chain } of mounted) {
      const operation = reference.operations[route];
      if (operation === undefined) continue;
      const inPath = Array.from(route.matchAll(/:(\w+)/g), (match) => match[1]);
      assert.deepEqual(Object.keys(operation.path?.shape ?? {}).sort(), inPath.sort(), route);
      const limited = chain.some(({ maxBytes }) => maxBytes !== undefined);
      assert.ok(limited || operation.body === undefined, `${route}: app.ts does not limit its body`);
    }
  });

  Deno.test(`the document of ${name} passes Redocly's strict rules`, async () => {
    const config = await createConfig({
      extends: ["recommended-strict"],
      rules: {
        "operation-description": "off",
        "operation-tag-defined": "error",
        "no-server-example.com": "off",
        "info-license": "off",
        // What takes nothing, /health and the document itself, has nothing to refuse.
        "operation-4xx-response": "off",
      },
    });
    const source = JSON.stringify(documentOf(documented));
    const problems = await lintFromString({ source, config, absoluteRef: `/${name}/openapi.json` });
    assert.deepEqual(
      problems.map(({ ruleId, message, location }) => `${ruleId}: ${message} at ${location[0]?.pointer}`),
      [],
    );
  });
}

Deno.test("an answer that one function lists and no test has got is named, though the other gave one like it", async () => {
  const directory = await Deno.makeTempDir();
  const all = [AGENT_STATE_BOOK, VAULT_BOOK].flatMap((book) =>
    book.listAnswers().map((answer) => `${book.document.info.title}: ${answer}`)
  );
  const missed = "vault: GET /health 200";
  await Deno.writeTextFile(`${directory}/seen.txt`, all.filter((answer) => answer !== missed).join("\n"));
  assert.deepEqual(await listUnseen(directory), [missed]);
  await Deno.remove(directory, { recursive: true });
});

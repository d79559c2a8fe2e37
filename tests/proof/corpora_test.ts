/**
 * Every operation with everything that people, broken clients and attackers send: no answer is a 500, every refusal is a
 * code of the catalogue in the envelope of the specification, and nobody gives themselves what they name.
 */

import assert from "node:assert/strict";
import fc from "npm:fast-check@4.10.2";
import { findCode } from "../../supabase/functions/_shared/errors.ts";
import { openClaim, THOROUGH } from "../support/claims.ts";
import { newSeed } from "../support/chance.ts";
import { BASE64, BODIES, COLUMNS, HEADERS, PARAMETERS, SEGMENTS, TEXTS, VALUES } from "../support/corpora.ts";
import { codeOf } from "../support/refusals.ts";
import { withEverything } from "../support/everything.ts";
import { type Answer, onOneBackend, type RequestOptions, type World } from "../support/harness.ts";
import { assertInvariants } from "../support/invariants.ts";
import { methodOf, type Operation, OPERATIONS, type Prepared, sendTo } from "../support/operations/mod.ts";
import { sign } from "../support/polar.ts";
import { newAddress } from "../support/teams.ts";

/** A run sends one in this many of each operation's requests, another one each time. */
const SHARE = THOROUGH ? 2 : 8;
/** What is made of the reference's own schemas is tried elsewhere (generated_requests_test.ts), and more of it. */
const RANDOM = THOROUGH ? 150 : 30;
const AT_ONCE = 4;
const PROOF_OF_NAMING = "5ca1ab1e-0000-4000-8000-00000000c0de";

interface Attempt {
  what: string;
  path: string;
  options: RequestOptions;
}

const held = openClaim("Nothing that a client sends is a 500, and every refusal is in the catalogue");

onOneBackend((test) => {
  const seed = newSeed();
  let sent = 0;

  for (const operation of OPERATIONS) {
    test(`nothing that is sent to it is a 500: ${operation.route}, ${operation.name} (seed ${seed})`, async (world) => {
      const before = unexpectedErrors(world).length;
      const prepared = await operation.prepare(world);
      const attempts = attemptsOn(operation, prepared, seed);
      const chosen = attempts.filter((_, i) => (i + seed) % SHARE === 0);
      await withEverything(world, async (service) => {
        const queue = chosen.values();
        async function work(): Promise<void> {
          for (const { what, path, options } of queue) {
            const send = () =>
              sendTo(service, operation, path, elsewhere(operation, signed(operation, options)));
            const first = await send();
            // A busy machine may answer 503 once; it says nothing of what was sent.
            const answer = first.status === 503 ? await send() : first;
            assertProper(what, answer);
            sent++;
          }
        }
        await Promise.all(Array.from({ length: AT_ONCE }, work));
      });
      assert.deepEqual(unexpectedErrors(world).slice(before), []);
    });
  }

  test("nobody has given themselves what they named, and the books are right", async (world) => {
    const { rows: tables } = await world.sql.query(
      "select relname from pg_class where relnamespace = 'app'::regnamespace and relkind = 'r'",
    );
    const queries = tables.map(({ relname }) =>
      `select '${relname}' as of from app.${relname} t where t::text ~ $1`
    );
    const { rows } = await world.sql.query(queries.join(" union all "), [PROOF_OF_NAMING]);
    assert.deepEqual(rows, []);
    await assertInvariants(world.sql);
    assert.ok(sent > OPERATIONS.length * 10);
    held(sent);
  });
});

/** Whatever the service logged as something that should not have happened. */
function unexpectedErrors({ logs }: World): unknown[] {
  return logs.filter(({ event, level }) =>
    event === "unexpected_error" || (event === "database_error" && level === "error")
  );
}

/** A refusal is the envelope with a known code, and says nothing of what is inside. */
function assertProper(what: string, answer: Answer): void {
  const { status, text, headers } = answer;
  const said = `${what}: ${status} ${text.slice(0, 300)}`;
  assert.ok(status < 500, said);
  if (status < 400) return;
  assert.equal(findCode(codeOf(answer) ?? "")?.status, status, said);
  assert.ok(headers.get("x-request-id"), said);
  assert.match(headers.get("content-type") ?? "", /^application\/(scim\+)?json/, said);
  assert.doesNotMatch(
    text,
    /\bat \w+ \(|node_modules|supabase\/functions|select |insert into|SQLSTATE|\bpg_/i,
    said,
  );
}

/** A body of the payment provider is known by its signature, whatever is in it. */
function signed(operation: Operation, options: RequestOptions): RequestOptions {
  const { body } = options;
  if (operation.opens !== "signature" || body === undefined || body instanceof Uint8Array) return options;
  const text = typeof body === "string" ? body : JSON.stringify(body);
  return { ...options, body: text, headers: { ...options.headers, ...sign(text) } };
}

/** Whoever needs no credential is limited by network: each comes from another one, so that none is turned away for that. */
function elsewhere({ opens }: Operation, options: RequestOptions): RequestOptions {
  if (!["the public", "signed link", "vault token"].includes(opens)) return options;
  return { ...options, headers: { ...newAddress(), ...options.headers } };
}

function attemptsOn(operation: Operation, { path, options }: Prepared, seed: number): Attempt[] {
  const body = readBody(options.body);
  const withBody = (what: string, changed: unknown): Attempt => ({
    what,
    path,
    options: { ...options, body: changed },
  });
  const fields = body === undefined ? [] : listFields(body);
  const inFields = fields.flatMap((field) =>
    [...VALUES, ...TEXTS, ...(String(field.at(-1)).endsWith("b64") ? BASE64 : [])].map((value) =>
      withBody(`${field.join(".")} = ${show(value)}`, replaceAt(body!, field, value))
    )
  );
  const without = fields.map((field) =>
    withBody(`no ${field.join(".")}`, replaceAt(body!, field, undefined))
  );
  const named = COLUMNS.filter((column) => body !== undefined && !(column in body))
    .map((column) => withBody(`a column: ${column}`, { ...body, [column]: PROOF_OF_NAMING }));
  const whole = methodOf(operation) === "GET"
    ? []
    : BODIES.map((each) => withBody(`the body ${show(each)}`, each));
  const headers = HEADERS.map((each): Attempt => ({
    what: `headers ${show(each)}`,
    path,
    options: { ...options, headers: { ...options.headers, ...each } },
  }));
  return [
    ...inFields,
    ...without,
    ...named,
    ...whole,
    ...headers,
    ...pathsLike(path).map((other): Attempt => ({
      what: `the path ${other.slice(0, 80)}`,
      path: other,
      options,
    })),
    ...(body === undefined
      ? []
      : randomBodies(body, fields, seed).map((each, i) => withBody(`random body ${i}`, each))),
  ];
}

/** The path with each of its names replaced, and with parameters of every kind. */
function pathsLike(path: string): string[] {
  const [plain, query = ""] = path.split("?") as [string, string?];
  const segments = plain.split("/").slice(1);
  const changed = segments.flatMap((_, i) => SEGMENTS.map((each) => `/${segments.with(i, each).join("/")}`));
  const texts = TEXTS.filter((text) => text.isWellFormed()).map(encodeURIComponent);
  const parameters = PARAMETERS.flatMap((name, i) =>
    // A few texts for each parameter; together they see all.
    texts.filter((_, j) => j % PARAMETERS.length === i).map((text) =>
      `${plain}?${name}=${text.slice(0, 4_000)}`
    )
  );
  const numbers = PARAMETERS.flatMap((name) =>
    ["", "-1", "0", "1e3", "0x1", "1.5", "9007199254740993", "4294967297", "%00", "%zz", "%ff"]
      .map((value) => `${plain}?${name}=${value}`)
  );
  const odd = [
    `${plain}/`,
    `/${plain}`,
    `${plain}//`,
    `${plain}?${query}&${query}`,
    `${plain}?=`,
    `${plain}?%`,
    `${plain};x=1`,
  ];
  return [...changed, ...parameters, ...numbers, ...odd];
}

function randomBodies(body: object, fields: (string | number)[][], seed: number): unknown[] {
  const value = fc.oneof(
    fc.anything({ withBoxedValues: false, withNullPrototype: false, maxDepth: 3 }),
    fc.string({ unit: "binary" }),
    fc.double(),
    fc.base64String(),
  );
  const change = fc.tuple(fc.constantFrom(...fields), value);
  return fc.sample(
    fc.array(change, { minLength: 1, maxLength: 3 }).map((changes) =>
      changes.reduce<unknown>((changed, [field, to]) => replaceAt(changed as object, field, to), body)
    ),
    { numRuns: RANDOM, seed },
  ).filter(isJson);
}

function isJson(value: unknown): boolean {
  try {
    return typeof JSON.stringify(value) === "string";
  } catch {
    return false;
  }
}

function readBody(body: unknown): Record<string, unknown> | undefined {
  if (typeof body === "string") return JSON.parse(body);
  return body as Record<string, unknown> | undefined;
}

/** The way to each value in a body; of arrays, to the first. */
function listFields(value: unknown, at: (string | number)[] = []): (string | number)[][] {
  if (typeof value !== "object" || value === null) return at.length === 0 ? [] : [at];
  const inside = Object.entries(value).slice(0, Array.isArray(value) ? 1 : undefined);
  const deeper = inside.flatMap(([name, each]) =>
    listFields(each, [...at, Array.isArray(value) ? Number(name) : name])
  );
  return at.length === 0 ? deeper : [at, ...deeper];
}

function replaceAt(body: object, [first, ...rest]: (string | number)[], value: unknown): object {
  const copy: Record<string | number, unknown> = Array.isArray(body) ? [...body] as never : { ...body };
  const inner = copy[first!];
  // What was replaced by something without an inside has none to replace.
  copy[first!] = rest.length === 0 || typeof inner !== "object" || inner === null
    ? value
    : replaceAt(inner, rest, value);
  return copy;
}

function show(value: unknown): string {
  return (JSON.stringify(value) ?? String(value)).slice(0, 60);
}

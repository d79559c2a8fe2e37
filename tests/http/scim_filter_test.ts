/** Filters: what the database finds is what an oracle in memory finds, and what is hostile is refused quickly. */

import assert from "node:assert/strict";
import fc from "npm:fast-check@4.10.2";
import {
  assertScimError,
  type Directory,
  ENTERPRISE_SCHEMA,
  newDirectory,
  newGroup,
} from "../support/directory.ts";
import { onEveryBackend, onOneBackend } from "../support/harness.ts";

type Resource = Record<string, unknown>;
type Op = "eq" | "ne" | "co" | "sw" | "ew" | "gt" | "ge" | "lt" | "le";

/** A filter, as a tree that prints itself and knows what it means. */
interface Node {
  text: string;
  test(resource: Resource): boolean;
}

const WORDS = [
  "a",
  "A",
  "ab",
  "Ab",
  "b",
  "%",
  "_",
  "\\",
  "'",
  '"',
  "a.b@c",
  "urn:x:y",
  "or",
  "é",
  "a b",
  "]",
  "$1",
];
const SINGLE = [
  "userName",
  "externalId",
  "title",
  "name.familyName",
  "displayName",
  `${ENTERPRISE_SCHEMA}:department`,
];
const EXACT = ["externalId"];
const PARTS = ["value", "type", "display"];
const OPS: Op[] = ["eq", "ne", "co", "sw", "ew", "gt", "ge", "lt", "le"];

function holds(op: Op, left: string | undefined, right: string, exact: boolean): boolean {
  const fold = (text: string) => exact ? text : text.replace(/[A-Z]/g, (letter) => letter.toLowerCase());
  if (left === undefined) return op === "ne";
  const [a, b] = [fold(left), fold(right)];
  const order = Buffer.compare(Buffer.from(a), Buffer.from(b));
  return {
    eq: a === b,
    ne: a !== b,
    co: a.includes(b),
    sw: a.startsWith(b),
    ew: a.endsWith(b),
    gt: order > 0,
    ge: order >= 0,
    lt: order < 0,
    le: order <= 0,
  }[op];
}

function read(resource: Resource, path: string): string | undefined {
  const steps = path.startsWith("urn:")
    ? [ENTERPRISE_SCHEMA, path.slice(ENTERPRISE_SCHEMA.length + 1)]
    : path.split(".");
  const value = steps.reduce<unknown>((inner, step) => (inner as Resource | undefined)?.[step], resource);
  return value as string | undefined;
}

const word = fc.constantFrom(...WORDS);
const op = fc.constantFrom(...OPS);
/** Names are written in any case. */
const cased = (name: string) => fc.boolean().map((upper) => upper ? name.toUpperCase() : name);

const single = fc.tuple(fc.constantFrom(...SINGLE), op, word).chain(([path, op, value]) =>
  cased(path).map((name): Node => ({
    text: `${name} ${op} ${JSON.stringify(value)}`,
    test: (resource) => holds(op, read(resource, path), value, EXACT.includes(path)),
  }))
);
const present = fc.constantFrom(...SINGLE).map((path): Node => ({
  text: `${path} pr`,
  test: (resource) => (read(resource, path) ?? "") !== "",
}));
const active = fc.tuple(fc.constantFrom("eq", "ne"), fc.boolean()).map(([op, value]): Node => ({
  text: `active ${op} ${value}`,
  test: (resource) => (resource.active === value) === (op === "eq"),
}));
const part = fc.tuple(fc.constantFrom(...PARTS), op, word).map(([name, op, value]): Node => ({
  text: `${name} ${op} ${JSON.stringify(value)}`,
  test: (element) => holds(op, read(element, name), value, false),
}));
const emails = (resource: Resource) => (resource.emails ?? []) as Resource[];
const element = combined(part, 2).map((node): Node => ({
  text: `emails[${node.text}]`,
  test: (resource) => emails(resource).some(node.test),
}));
const elementPart = fc.tuple(part, part).map(([selection, compared]): Node => ({
  text: `emails[${selection.text}].${compared.text}`,
  test: (resource) => emails(resource).some((each) => selection.test(each) && compared.test(each)),
}));
const anyPart = fc.tuple(fc.constantFrom(...PARTS), op, word).map(([name, op, value]): Node => ({
  text: `emails.${name} ${op} ${JSON.stringify(value)}`,
  test: (resource) =>
    op === "ne"
      ? !emails(resource).some((each) => holds("eq", read(each, name), value, false))
      : emails(resource).some((each) => holds(op, read(each, name), value, false)),
}));

const filters = combined(fc.oneof(single, present, active, element, elementPart, anyPart), 3);

function combined(leaf: fc.Arbitrary<Node>, depth: number): fc.Arbitrary<Node> {
  if (depth === 0) return leaf;
  const inner = combined(leaf, depth - 1);
  const list = fc.array(inner, { minLength: 2, maxLength: 3 });
  return fc.oneof(
    { weight: 3, arbitrary: leaf },
    { weight: 1, arbitrary: list.map((all) => joined("and", all)) },
    { weight: 1, arbitrary: list.map((all) => joined("or", all)) },
    {
      weight: 1,
      arbitrary: inner.map((node): Node => ({
        text: `not (${node.text})`,
        test: (resource) => !node.test(resource),
      })),
    },
  );
}

function joined(word: "and" | "or", all: Node[]): Node {
  return {
    text: all.map((node) => `(${node.text})`).join(` ${word} `),
    test: (resource) =>
      word === "and" ? all.every((n) => n.test(resource)) : all.some((n) => n.test(resource)),
  };
}

const users = fc.record({
  title: fc.option(word, { nil: undefined }),
  displayName: fc.option(word, { nil: undefined }),
  externalId: fc.option(word, { nil: undefined }),
  name: fc.option(fc.record({ familyName: word }), { nil: undefined }),
  active: fc.boolean(),
  emails: fc.array(fc.record({ value: word, type: word, display: fc.option(word, { nil: undefined }) }), {
    maxLength: 3,
  }),
  [ENTERPRISE_SCHEMA]: fc.option(fc.record({ department: word }), { nil: undefined }),
});

async function populate(directory: Directory): Promise<Resource[]> {
  const bodies = fc.sample(users, { numRuns: WORDS.length, seed: 7 });
  for (const [i, body] of bodies.entries()) {
    const made = await directory.scim("POST", "/Users", { ...body, userName: `${WORDS[i]}${i}` });
    assert.equal(made.status, 201, made.text);
  }
  return (await directory.scim("GET", "/Users?count=200")).body.Resources;
}

onOneBackend((test) => {
  test("generated filters find exactly what an oracle in memory finds", async (world) => {
    const directory = await newDirectory(world);
    const all = await populate(directory);
    let found = 0;
    await fc.assert(
      fc.asyncProperty(filters, async (filter) => {
        const answer = await directory.scim(
          "GET",
          `/Users?count=200&filter=${encodeURIComponent(filter.text)}`,
        );
        assert.equal(answer.status, 200, `${filter.text}\n${answer.text}`);
        const expected = all.filter(filter.test).map(({ id }) => id);
        assert.deepEqual(answer.body.Resources.map(({ id }: Resource) => id), expected, filter.text);
        assert.equal(answer.body.totalResults, expected.length);
        found += expected.length;
      }),
      { numRuns: 300 },
    );
    assert.ok(found > 100, "most filters find nothing: they prove little");
  });
});

onEveryBackend((test) => {
  test("filters by id, group, time and in any spelling find what they name", async (world) => {
    const directory = await newDirectory(world);
    const made = await directory.scim("POST", "/Users", {
      userName: "x",
      emails: [{ value: "a@b.example" }],
    });
    const { id, meta } = made.body;
    const group = await newGroup(directory, "Group", [id]);
    const found = async (path: string, filter: string) => {
      const answer = await directory.scim("GET", `/${path}?filter=${encodeURIComponent(filter)}`);
      assert.equal(answer.status, 200, answer.text);
      return answer.body.totalResults;
    };
    for (
      const filter of [
        `id eq "${id}"`,
        `ID Eq "${id}" AND userName PR`,
        `groups eq "${group}"`,
        `groups.display sw "gro"`,
        `meta.created ge "${meta.created}"`,
        'meta.lastModified gt "2011-05-13T04:42:34Z"',
        'meta.lastModified lt "2999-01-01T00:00:00+02:00"',
        'emails eq "A@B.example"',
        "emails pr and not (title pr)",
        'urn:ietf:params:scim:schemas:core:2.0:User:userName eq "X"',
        'active eq "True"',
      ]
    ) {
      assert.equal(await found("Users", filter), 1, filter);
    }
    assert.equal(await found("Groups", `members[value eq "${id}" and type eq "User"]`), 1);
    assert.equal(await found("Groups", `members ne "${id}"`), 0);
    assert.equal(await found("Users", `id eq "${id.toUpperCase()}"`), 0, "an id is compared exactly");
  });

  test("what is no filter, or one that is too long, too deep or about what is not there, is refused at once", async (world) => {
    const directory = await newDirectory(world);
    const hostile = [
      ...[
        "",
        " ",
        "x",
        "userName",
        "userName eq",
        'userName eq "',
        "userName eq x",
        "userName xx 1",
        'eq "x"',
      ],
      ...[
        'userName eq "x" and',
        'userName eq "x" or or',
        "(",
        ")",
        "[]",
        "not",
        "not not",
        'userName[x eq "y"]',
      ],
      ...[
        'nothing eq "x"',
        "userName eq 1",
        "userName eq null",
        "active gt true",
        'active eq "maybe"',
        "active co true",
      ],
      ...[
        'password eq "x"',
        'meta.version eq "x"',
        'name eq "x"',
        'addresses eq "x"',
        'emails[nothing eq "x"]',
      ],
      ...[
        'meta.created eq "yesterday"',
        'meta.created co "2026"',
        'userName eq "\u0000"',
        'userName eq "\ud800"',
      ],
      ...[
        'userName eq "x"; drop table app.scim_users',
        "userName eq 'x'",
        'userName eq "x" -- ',
        "1 eq 1",
        "true",
      ],
      ...['__proto__ eq "x"', "constructor.prototype pr", 'emails[value pr].$ref eq "x"', "userName eq {}"],
      `${"(".repeat(1_000)}userName pr${")".repeat(1_000)}`,
      `${"not ".repeat(500)}userName pr`,
      `${"(".repeat(40)}userName pr${")".repeat(40)} and ${"not (".repeat(30)}userName pr${")".repeat(30)}`,
      Array(101).fill("active eq true").join(" and "),
      `userName eq "${"x".repeat(2_048)}"`,
      Array(50_000).fill("a").join(" and "),
      "emails[".repeat(300),
    ];
    for (const filter of hostile) {
      const start = performance.now();
      const answer = await directory.scim("POST", "/Users/.search", { filter });
      assertScimError(answer, 400, "invalidFilter");
      assert.ok(
        performance.now() - start < 1_000,
        `${filter.slice(0, 40)} took ${performance.now() - start} ms`,
      );
    }
    assertScimError(await directory.scim("POST", "/Users/.search", { filter: 7 }), 400, "invalidValue");
    assert.equal(
      (await directory.scim("GET", "/Users?filter=" + encodeURIComponent('userName co "%"'))).status,
      200,
    );
  });
});

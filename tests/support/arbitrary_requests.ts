/**
 * Requests to any operation of the reference: as it is described, wrong in one place, or wrong altogether.
 *
 * They stand on the operation's example, which names things that exist, so that most of them get past the first checks.
 */

import fc from "npm:fast-check@4.10.2";
import type { Example } from "../../supabase/functions/_shared/reference/operation.ts";
import { fitting, stumblingText, stumblingValue } from "./arbitrary_values.ts";
import type { Book, DescribedOperation } from "./documented.ts";
import type { Json } from "./openapi_schemas.ts";

/** A request without its credential. */
export interface ArbitraryRequest {
  method: string;
  /** With its query. */
  path: string;
  headers: Record<string, string>;
  body?: string | Uint8Array<ArrayBuffer>;
}

/** Bodies that are no JSON object, or one that nobody meant. */
const RAW_BODIES: (string | Uint8Array<ArrayBuffer>)[] = [
  ...[
    "",
    " ",
    "{",
    "}",
    "null",
    "true",
    "7",
    '"text"',
    "[]",
    "[{}]",
    "{}",
    "{} {}",
    "{,}",
    "{'a':1}",
    "\ufeff{}",
  ],
  ...['{"a":1,"a":2}', '{"__proto__":{"a":1}}', '{"a":1e999}', '{"a":"\\ud800"}', '{"\\u0000":"\\u0000"}'],
  ...["[".repeat(5_000), `{"a":${"[".repeat(2_000)}${"]".repeat(2_000)}}`, "a=1&b=2"],
  new Uint8Array([0x7b, 0x22, 0xff, 0xfe, 0x22, 0x3a, 0x31, 0x7d]),
  new Uint8Array([0x7b, 0x00, 0x7d, 0x00]),
  new Uint8Array([0x1f, 0x8b, 0x08, 0x00]),
];

/** An example as it goes out. */
export function exampleRequest({ method, template }: DescribedOperation, example: Example): ArbitraryRequest {
  const path = template.replaceAll(
    /\{(\w+)\}/g,
    (_, name) => encodeURIComponent(String(example.path![name])),
  );
  const query = new URLSearchParams(
    Object.entries(example.query ?? {}).map(([name, value]) => [name, String(value)]),
  );
  const body = example.body === undefined ? undefined : JSON.stringify(example.body);
  return {
    method,
    path: query.size === 0 ? path : `${path}?${query}`,
    headers: { ...(body === undefined ? {} : { "content-type": "application/json" }), ...example.headers },
    ...(body === undefined ? {} : { body }),
  };
}

/** Requests to an operation. `example` is one that works. */
export function arbitraryRequest(
  book: Book,
  { method, template, operation }: DescribedOperation,
  example: Example,
): fc.Arbitrary<ArbitraryRequest> {
  const schemas = book.document.components.schemas as Record<string, Json>;
  const parameters = (operation.parameters as Json[]).map((each) =>
    each.$ref === undefined ? each : book.document.components.parameters[each.$ref.split("/").at(-1)]
  );
  const inPlace = (place: string) => parameters.filter((each) => each.in === place);
  const path = fc.tuple(...inPlace("path").map((each) => pathValue(each, example, schemas)))
    .map((values) => values.reduce<string>((text, value) => text.replace(/\{\w+\}/, () => value), template));
  return fc.record({
    method: fc.constant(method),
    path: fc.tuple(path, arbitraryQuery(inPlace("query"), example, schemas)).map(([left, query]) =>
      left + query
    ),
    headers: arbitraryHeaders(inPlace("header"), example, operation.requestBody !== undefined),
    body: arbitraryBody(operation, example, schemas),
  }).map(({ body, ...rest }) => ({ ...rest, ...(body === undefined ? {} : { body }) }));
}

function pathValue(
  { name, schema }: Json,
  example: Example,
  schemas: Record<string, Json>,
): fc.Arbitrary<string> {
  const encode = (value: unknown) => encodeURIComponent(String(value).toWellFormed());
  return fc.oneof(
    { weight: 8, arbitrary: fc.constant(encode(example.path![name])) },
    { weight: 2, arbitrary: fitting(schema, schemas).map(encode) },
    { weight: 1, arbitrary: stumblingText.map(encode) },
    {
      weight: 1,
      arbitrary: fc.constantFrom("%00", "%ff", "%", "%zz", "%2e%2e", "%2F", ";a=b", "*", "%f0%9f%94%91"),
    },
  );
}

function arbitraryQuery(
  parameters: Json[],
  example: Example,
  schemas: Record<string, Json>,
): fc.Arbitrary<string> {
  const good = Object.entries(example.query ?? {}).map(([name, value]) => [name, String(value)]);
  const names = [...parameters.map(({ name }) => name as string), "unknown"];
  const entry = fc.oneof(
    ...parameters.map(({ name, schema }) => fitting(schema, schemas).map((value) => [name, String(value)])),
    fc.tuple(fc.constantFrom(...names), stumblingText).map(([name, value]) => [name, value]),
  );
  return fc.oneof(fc.constant(good), fc.array(entry, { maxLength: 3 }), entry.map((one) => [...good, one]))
    .map((entries) =>
      new URLSearchParams(entries.map(([name, value]) => [name!, value!.toWellFormed()])).toString()
    )
    .map((query) => query === "" ? "" : `?${query}`);
}

function arbitraryHeaders(parameters: Json[], example: Example, hasBody: boolean) {
  const text = fc.string({ unit: fc.constantFrom(..."abcXYZ019-_=/ .;,\"'<>"), maxLength: 300 }).map((each) =>
    each.trim()
  );
  const types = [
    "application/json",
    "text/plain",
    "application/json; charset=utf-16",
    "multipart/form-data",
    "*/*",
  ];
  const others = parameters.filter(({ name }) => !(name in (example.headers ?? {})));
  return fc.record(
    {
      ...Object.fromEntries(others.map(({ name }) => [name as string, text])),
      ...(hasBody ? { "content-type": fc.constantFrom(...types) } : {}),
    },
    { requiredKeys: [] },
  ).map((made) => ({ ...example.headers, ...made as Record<string, string> }));
}

function arbitraryBody(operation: Json, example: Example, schemas: Record<string, Json>) {
  if (operation.requestBody === undefined) return fc.constant(undefined);
  const [content] = Object.values(operation.requestBody.content as Record<string, Json>);
  const object: fc.Arbitrary<unknown> = fc.oneof(
    { weight: 2, arbitrary: fc.constant(example.body) },
    { weight: 4, arbitrary: changed(example.body, schemas, content!.schema) },
    { weight: 4, arbitrary: fitting(content!.schema, schemas) },
  );
  return fc.oneof(
    { weight: 9, arbitrary: object.map((value) => JSON.stringify(value)) },
    { weight: 1, arbitrary: fc.constantFrom(...RAW_BODIES) },
  );
}

/** The example with another value in one or two places: one that may fit there, one that does not, or none. */
function changed(body: unknown, schemas: Record<string, Json>, schema: Json): fc.Arbitrary<unknown> {
  const places = listPlaces(body);
  if (places.length === 0) return stumblingValue;
  const change = fc.tuple(
    fc.constantFrom(...places),
    fc.oneof(stumblingValue, fc.constant(undefined), fitting(schema, schemas)),
  );
  return fc.array(change, { minLength: 1, maxLength: 2 }).map((changes) =>
    changes.reduce<unknown>((whole, [place, value]) => replaceAt(whole, place, value), body)
  );
}

/** Every place inside a value, as the steps to it. */
function listPlaces(value: unknown, steps: string[] = []): string[][] {
  if (typeof value !== "object" || value === null) return steps.length === 0 ? [] : [steps];
  const inside = Object.entries(value).flatMap(([key, inner]) => listPlaces(inner, [...steps, key]));
  return steps.length === 0 ? inside : [steps, ...inside];
}

function replaceAt(whole: unknown, [step, ...rest]: string[], value: unknown): unknown {
  if (step === undefined) return value;
  // An earlier change may have put something else where the steps led.
  if (typeof whole !== "object" || whole === null) return whole;
  const inner = replaceAt(Reflect.get(whole, step), rest, value);
  if (Array.isArray(whole)) return whole.map((each, i) => String(i) === step ? inner : each);
  return { ...whole, [step]: inner };
}

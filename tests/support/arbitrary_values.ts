/** Values for properties: ones that fit a JSON Schema of the reference, and ones that no schema expects. */

import { Buffer } from "node:buffer";
import fc from "npm:fast-check@4.10.2";
import type { Json } from "./openapi_schemas.ts";

/** The longest text or list that is made where a schema allows more. */
const LENGTH_MAX = 40;

/** Ciphertexts are as large as they may be now and then. */
const BYTES_MAX = 300;

/** A value that fits a schema. What JSON Schema cannot say, that a hash is of a block, it does not know. */
export function fitting(schema: Json, schemas: Record<string, Json>): fc.Arbitrary<unknown> {
  if (schema.$ref !== undefined) return fitting(schemas[schema.$ref.split("/").at(-1)]!, schemas);
  if (schema.const !== undefined) return fc.constant(schema.const);
  if (schema.enum !== undefined) return fc.constantFrom(...schema.enum);
  if (schema.anyOf !== undefined) {
    return fc.oneof(...schema.anyOf.map((each: Json) => fitting(each, schemas)));
  }
  switch (schema.type) {
    case "null":
      return fc.constant(null);
    case "boolean":
      return fc.boolean();
    case "integer":
      return fittingInteger(schema);
    case "number":
      return fc.double({ noNaN: true, noDefaultInfinity: true });
    case "string":
      return fittingText(schema);
    case "array":
      return fc.array(fitting(schema.items, schemas), {
        minLength: schema.minItems ?? 0,
        maxLength: Math.min(schema.maxItems ?? LENGTH_MAX, Math.max(schema.minItems ?? 0, 5)),
      });
    case "object":
      return fittingObject(schema, schemas);
    default:
      return fc.jsonValue({ maxDepth: 2 });
  }
}

function fittingInteger({ minimum = -1_000_000, maximum = Number.MAX_SAFE_INTEGER }: Json) {
  const near = { min: minimum, max: Math.min(maximum, minimum + 10) };
  return fc.oneof(
    { weight: 4, arbitrary: fc.integer(near) },
    fc.maxSafeInteger().map(clamp(minimum, maximum)),
  );
}

function clamp(minimum: number, maximum: number) {
  return (value: number) => Math.min(Math.max(value, minimum), maximum);
}

function fittingText({ format, pattern, contentEncoding, minLength = 0, maxLength = Infinity }: Json) {
  if (format === "uuid") return fc.uuid({ version: 4 });
  if (format === "email") return fc.stringMatching(/^[a-z0-9]{1,20}@[a-z0-9]{1,20}\.(?:test|example)$/);
  if (format === "date-time") {
    const range = { min: new Date("1971-01-01"), max: new Date("9998-01-01"), noInvalidDate: true };
    return fc.date(range).map((date) => date.toISOString());
  }
  if (contentEncoding === "base64") {
    return fc.uint8Array({ minLength: 1, maxLength: BYTES_MAX }).map((bytes) =>
      Buffer.from(bytes).toString("base64")
    );
  }
  if (pattern !== undefined) {
    // What lookaheads and lengths demand besides is looked at afterwards.
    const whole = new RegExp(pattern);
    const fits = (text: string) => whole.test(text) && text.length >= minLength && text.length <= maxLength;
    return fc.stringMatching(new RegExp(pattern.replaceAll(/\(\?[=!][^()]*\)/g, ""))).filter(fits);
  }
  return fc.string({ unit: "grapheme", minLength, maxLength: Math.min(maxLength, LENGTH_MAX) });
}

function fittingObject(schema: Json, schemas: Record<string, Json>): fc.Arbitrary<unknown> {
  const properties = Object.entries((schema.properties ?? {}) as Record<string, Json>);
  const model = Object.fromEntries(properties.map(([name, each]) => [name, fitting(each, schemas)]));
  const known = fc.record(model, { requiredKeys: schema.required ?? [] });
  if (schema.additionalProperties === false) return known;
  const extra = fc.dictionary(fc.string({ minLength: 1, maxLength: 10 }), fc.jsonValue({ maxDepth: 1 }), {
    maxKeys: 2,
  });
  return fc.tuple(extra, known).map(([more, all]) => ({ ...more, ...all as Json }));
}

/** Texts that programs stumble over. */
const STUMBLING = [
  ...[
    "",
    " ",
    "\0",
    "a\0b",
    "\ud800",
    "\udc00x",
    "\u{1f511}",
    "\u202e",
    "\ufeff",
    "e\u0301",
    "\n",
    "\\",
    '"',
  ],
  ...[
    "'; drop table app.accounts; --",
    "%00",
    "%",
    "%ff",
    "../..",
    "..",
    ".",
    "/",
    "__proto__",
    "constructor",
  ],
  ...["null", "undefined", "NaN", "true", "-0", "0x10", "1e3", "01", "+1", " 1", "1.0", "9007199254740993"],
  ...[
    "2026-02-30",
    "2026-11-20T25:00:00Z",
    "0000-00-00",
    "+275760-09-13T00:00:00.000Z",
    "${1}",
    "{{7*7}}",
    "<b>",
  ],
  ...["=", "====", "AAA", "AA==", "A===", "-_-_", "QUJD\n", "x".repeat(1_100), "🔑".repeat(300)],
];

/** Numbers that are not what they seem. */
const NUMBERS = [-1, -0, 0, 0.5, 1e21, 1e308, -1e308, 2 ** 31, 2 ** 53, 2 ** 63, 5e-324, 1e-7];

/** Any text, with a liking for what programs stumble over. */
export const stumblingText = fc.oneof(
  fc.constantFrom(...STUMBLING),
  fc.string({ unit: "binary", maxLength: 30 }),
  fc.string({ maxLength: 30 }),
);

/** Any JSON value, with a liking for the same. */
export const stumblingValue: fc.Arbitrary<unknown> = fc.oneof(
  stumblingText,
  fc.constantFrom<unknown>(...NUMBERS, null, true, false, [], {}, [[]], [null], { toString: 1 }, { "": 0 }),
  fc.jsonValue({ maxDepth: 3, stringUnit: "binary" }),
  fc.array(stumblingText, { maxLength: 3 }),
);

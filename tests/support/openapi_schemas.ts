/** From zod to the JSON Schema of OpenAPI 3.1, and from that to a value to show. */

import { z } from "zod";

// deno-lint-ignore no-explicit-any
export type Json = Record<string, any>;

/** The parts that a document's operations refer to. */
export type Components = Record<
  "schemas" | "responses" | "parameters" | "headers" | "examples" | "securitySchemes",
  Record<string, Json>
>;

/**
 * The JSON Schema of what a client sends (`input`) or is answered (`output`); schemas with an id become components.
 * Answers may get new fields, so their objects are not said to be closed.
 */
export function convert(schema: z.ZodType, io: "input" | "output", components: Components): Json {
  const { properties, $defs = {} } = z.toJSONSchema(z.object({ root: asDocumented(schema) }), {
    io,
    unrepresentable: "any",
    override: ({ jsonSchema }) => tidy(jsonSchema as Json, io),
  }) as Json;
  for (const [name, part] of Object.entries($defs as Record<string, Json>)) {
    const { id: _, ...rest } = part;
    components.schemas[name] = pointAtComponents(rest);
  }
  return pointAtComponents(properties.root);
}

/** Of a schema that looks at the keys before it looks at the values: which keys there may be, and what they hold. */
function asDocumented(schema: z.ZodType): z.ZodType {
  if (!(schema instanceof z.ZodPipe)) return schema;
  const { in: keys, out: values } = schema.def;
  return keys instanceof z.ZodObject && values instanceof z.ZodObject ? z.strictObject(values.shape) : schema;
}

function tidy(schema: Json, io: "input" | "output"): void {
  if (schema.wire !== undefined) {
    const { wire } = schema;
    for (const key of Object.keys(schema)) delete schema[key];
    Object.assign(schema, wire);
  }
  if (schema.format === "uuid") delete schema.pattern;
  delete schema.propertyNames;
  if (io === "output") {
    if (schema.additionalProperties === false) delete schema.additionalProperties;
    if (schema.maximum === Number.MAX_SAFE_INTEGER) delete schema.maximum;
  }
}

function pointAtComponents<T>(value: T): T {
  return JSON.parse(JSON.stringify(value).replaceAll('"#/$defs/', '"#/components/schemas/'));
}

/** Puts in what fields mean, at whatever depth they are. */
export function describeFields(schema: Json | undefined, fields: Record<string, string>): void {
  if (typeof schema !== "object" || schema === null) return;
  for (const [name, property] of Object.entries((schema.properties ?? {}) as Record<string, Json>)) {
    if (fields[name] !== undefined) property.description ??= fields[name];
  }
  for (const inner of Object.values(schema)) {
    if (typeof inner === "object") describeFields(inner as Json, fields);
  }
}

/** A value of a schema, made of the examples of its parts. */
export function compose(schema: Json, components: Components): unknown {
  if (schema.$ref !== undefined) {
    return compose(components.schemas[schema.$ref.split("/").at(-1)]!, components);
  }
  if (schema.examples !== undefined) return schema.examples[0];
  if (schema.const !== undefined) return schema.const;
  if (schema.enum !== undefined) return schema.enum[0];
  if (schema.anyOf !== undefined) return compose(schema.anyOf[0], components);
  if (schema.type === "array") return schema.maxItems === 0 ? [] : [compose(schema.items, components)];
  if (schema.type === "object") {
    const required: string[] = schema.required ?? [];
    return Object.fromEntries(required.map((name) => [name, compose(schema.properties[name], components)]));
  }
  throw new Error(`There is nothing to show for ${JSON.stringify(schema)}`);
}

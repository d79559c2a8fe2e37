/** The refusals of an operation: which there are, and how each is written. */

import { z } from "zod";
import { CATALOGUE, type ErrorCode, findCode } from "../../supabase/functions/_shared/errors.ts";
import { ERROR_DETAILS, REQUEST_ID } from "../../supabase/functions/_shared/reference/error_details.ts";
import type { Operation } from "../../supabase/functions/_shared/reference/operation.ts";
import type { Mounted } from "./openapi.ts";
import { type Components, compose, convert, type Json } from "./openapi_schemas.ts";

type CatalogueKey = keyof typeof CATALOGUE;

/** An example of each family's field. */
const FAMILY_FIELD = "name";

/** The parts that refusals and every operation refer to. */
export function refusalParts(): Pick<Components, "parameters" | "headers" | "examples"> {
  return {
    parameters: {
      RequestId: {
        name: "x-request-id",
        in: "header",
        required: false,
        description: "A name for this request: up to 255 letters, digits, `-`, `_` or `=`. It is given back",
        schema: { type: "string", maxLength: 255, pattern: "^[\\w\\-=]+$" },
      },
    },
    headers: {
      RequestId: {
        description: "The request's own `x-request-id`, else one that was made for it",
        schema: { type: "string" },
      },
      RetryAfter: {
        description: "Seconds to wait before trying again",
        schema: { type: "integer", minimum: 0 },
      },
      WwwAuthenticate: {
        description: "The scheme that is expected",
        schema: { type: "string", const: "Bearer" },
      },
    },
    examples: {},
  };
}

/** The codes that an operation can answer, in the order of the catalogue. */
export function listCodes<Scene>(
  operation: Operation<Scene>,
  chain: Mounted["chain"],
  ofCredential: readonly ErrorCode[],
  body: Json | undefined,
): CatalogueKey[] {
  const limit = chain.find(({ maxBytes }) => maxBytes !== undefined);
  const codes: string[] = [
    ...ofCredential,
    ...(limit === undefined ? [] : [limit.code!]),
    ...(body === undefined ? [] : ["invalid_json"]),
    ...(operation.readsItself || body === undefined || !hasRequired(body) ? [] : ["missing_field:<field>"]),
    ...(operation.readsItself || !takesText(operation) ? [] : ["invalid_field:<field>"]),
    ...operation.errors ?? [],
    // Whatever is asked, it can be asked too often.
    "rate_limited",
    ...(operation.offline ? [] : ["internal_error", "service_unavailable"]),
  ];
  return (Object.keys(CATALOGUE) as CatalogueKey[]).filter((key) => codes.includes(key));
}

/** Whether a field may be wrong in a way that has no code of its own: ids in paths are as unknown as any other. */
function takesText<Scene>({ path, query, body }: Operation<Scene>): boolean {
  const ids = Object.values(path?.shape ?? {}).every((part) => Reflect.get(part, "format") === "uuid");
  return query !== undefined || body !== undefined || !ids;
}

function hasRequired(schema: Json): boolean {
  if ((schema.required ?? []).length > 0) return true;
  return Object.values(schema).some((inner) =>
    typeof inner === "object" && inner !== null && hasRequired(inner)
  );
}

/** The responses of an operation that are refusals, by status. */
export function describeRefusals<Scene>(
  route: string,
  operation: Operation<Scene>,
  chain: Mounted["chain"],
  ofCredential: readonly ErrorCode[],
  body: Json | undefined,
  components: Components,
): Record<string, Json> {
  for (const code of operation.errors ?? []) {
    if (findCode(code) === undefined) throw new Error(`${route}: ${code} is not in the catalogue`);
  }
  const byStatus = Map.groupBy(
    listCodes(operation, chain, ofCredential, body),
    (code) => CATALOGUE[code].status,
  );
  return Object.fromEntries(
    [...byStatus].sort(([a], [b]) => a - b).map(([status, codes]) => {
      if (operation.refusals !== undefined) return [status, foreignRefusal(operation, codes, components)];
      const name = codes.map(componentName).join(".");
      components.responses[name] ??= describeRefusal(status, codes, components);
      return [status, { $ref: `#/components/responses/${name}` }];
    }),
  );
}

function describeRefusal(status: number, codes: readonly CatalogueKey[], components: Components): Json {
  const schemas = codes.map((code) => ({ $ref: `#/components/schemas/${refer(code, components)}` }));
  return {
    description: explain(codes),
    headers: headersOf(status),
    content: {
      "application/json": {
        schema: schemas.length === 1 ? schemas[0] : { anyOf: schemas },
        examples: Object.fromEntries(
          codes.map((
            code,
          ) => [componentName(code), { $ref: `#/components/examples/${componentName(code)}` }]),
        ),
      },
    },
  };
}

function foreignRefusal<Scene>(
  operation: Operation<Scene>,
  codes: readonly CatalogueKey[],
  components: Components,
) {
  const { media, body } = operation.refusals!;
  return {
    description: explain(codes),
    headers: headersOf(CATALOGUE[codes[0]!].status),
    content: { [media]: { schema: convert(body, "output", components) } },
  };
}

function explain(codes: readonly CatalogueKey[]): string {
  const lines = codes.map((code) => `\`${code}\`: ${CATALOGUE[code].when}`);
  return lines.length === 1 ? lines[0]! : lines.map((line) => `- ${line}`).join("\n");
}

function headersOf(status: number): Json {
  return {
    "x-request-id": { $ref: "#/components/headers/RequestId" },
    ...(status === 401 ? { "www-authenticate": { $ref: "#/components/headers/WwwAuthenticate" } } : {}),
    ...(status === 429 || status === 503
      ? { "retry-after": { $ref: "#/components/headers/RetryAfter" } }
      : {}),
  };
}

/** Puts a code's schema and example among the components. */
function refer(code: CatalogueKey, components: Components): string {
  const name = `Error_${componentName(code)}`;
  if (components.schemas[name] === undefined) {
    const error = code.endsWith(":<field>")
      ? z.string().regex(new RegExp(`^${code.split(":")[0]}:.+$`)).meta({
        examples: [code.replace("<field>", FAMILY_FIELD)],
      })
      : z.literal(code);
    const shape = { error, request_id: REQUEST_ID, ...ERROR_DETAILS[code] };
    const schema = convert(z.object(shape).describe(CATALOGUE[code].when), "output", components);
    components.schemas[name] = schema;
    components.examples[componentName(code)] = { value: compose(schema, components) };
  }
  return name;
}

function componentName(code: CatalogueKey): string {
  return code.replace(":<field>", "");
}

/** Makes the OpenAPI document of a function from its reference, its schemas and what its app mounts. */

import type { Hono } from "hono";
import { z } from "zod";
import {
  CREDENTIALS,
  FRAME_ERRORS,
  SCHEMES,
} from "../../supabase/functions/_shared/reference/credentials.ts";
import type { Operation, Reference } from "../../supabase/functions/_shared/reference/operation.ts";
import type { ErrorCode } from "../../supabase/functions/_shared/errors.ts";
import { describeRefusals, refusalParts } from "./openapi_errors.ts";
import { type Components, compose, convert, describeFields, type Json } from "./openapi_schemas.ts";

/** What stands between a request and its handler, and the handler. */
export interface Mounted {
  /** `GET /teams/:id/grant`. */
  route: string;
  /** Functions in order, those that are mounted on every route first; the last is the handler. */
  chain: { name: string; code?: ErrorCode; maxBytes?: number }[];
}

/** The routes of an app with all that is mounted on each. */
// deno-lint-ignore no-explicit-any
export function listMounted(app: Hono<any>): Mounted[] {
  const chains = new Map<string, Mounted["chain"]>();
  const frame: Mounted["chain"] = [];
  for (const { method, path, handler } of app.routes) {
    const link = handler as Mounted["chain"][number];
    const route = `${method} ${path}`;
    if (route === "ALL /*") frame.push(link);
    else if (method !== "ALL") chains.set(route, [...chains.get(route) ?? frame, link]);
  }
  return [...chains].map(([route, chain]) => ({ route, chain }));
}

/** Builds the document. Routes without a description are left out: a test of the contract names them. */
export function buildDocument<Scene>(reference: Reference<Scene>, mounted: readonly Mounted[]): Json {
  const components: Components = { schemas: {}, responses: {}, securitySchemes: {}, ...refusalParts() };
  const paths: Record<string, Json> = {};
  const described = mounted.filter(({ route }) => Object.hasOwn(reference.operations, route));
  // In the order of the descriptions, which is the order in which people read them.
  const order = Object.keys(reference.operations);
  for (const each of described.sort((a, b) => order.indexOf(a.route) - order.indexOf(b.route))) {
    const [method, path] = each.route.split(" ") as [string, string];
    const template = path.replaceAll(/:(\w+)/g, "{$1}");
    const operation = describe(reference.operations[each.route]!, each, reference.scene, components);
    paths[template] = { ...paths[template], [method.toLowerCase()]: operation };
  }
  dropUnusedHeaders(components);
  return {
    openapi: "3.1.1",
    info: {
      title: reference.title,
      version: "2.0.0",
      description: reference.description,
    },
    servers: reference.servers,
    tags: reference.tags,
    paths,
    components: Object.fromEntries(
      Object.entries(components).map(([kind, parts]) => [
        kind,
        Object.fromEntries(Object.entries(parts).sort(([a], [b]) => a < b ? -1 : 1)),
      ]),
    ),
  };
}

function dropUnusedHeaders({ headers, responses }: Components): void {
  const text = JSON.stringify(responses);
  for (const name of Object.keys(headers)) {
    const everywhere = name === "RequestId";
    if (!everywhere && !text.includes(`"#/components/headers/${name}"`)) delete headers[name];
  }
}

function describe<Scene>(
  operation: Operation<Scene>,
  { route, chain }: Mounted,
  scene: Scene,
  components: Components,
): Json {
  const credential = chain.map(({ name }) => CREDENTIALS[name]).find((each) => each !== undefined);
  const schemes = operation.schemes ?? credential?.schemes ?? [];
  for (const scheme of schemes) components.securitySchemes[scheme] = SCHEMES[scheme];
  const named = schemes.map((scheme) => ({ [scheme]: [] }));
  const example = operation.example(scene);
  const parameters = [
    ...describeParameters(operation, "path", operation.path, example.path, components),
    ...describeParameters(operation, "query", operation.query, example.query, components),
    ...describeParameters(operation, "header", operation.headers, example.headers, components),
    { $ref: "#/components/parameters/RequestId" },
  ];
  const errors = [...credential?.errors ?? [], ...chain.flatMap(({ name }) => FRAME_ERRORS[name] ?? [])];
  const body = operation.body && convert(operation.body, "input", components);
  describeFields(body, operation.fields ?? {});
  return {
    operationId: operation.id ?? chain.at(-1)!.name,
    tags: [operation.tag],
    summary: operation.summary,
    ...(operation.description === undefined ? {} : { description: operation.description }),
    security: credential?.optional ? [{}, ...named] : named,
    parameters,
    ...(body === undefined ? {} : {
      requestBody: {
        required: operation.optionalBody !== true,
        content: Object.fromEntries(
          (operation.media ?? ["application/json"]).map((
            media,
          ) => [media, { schema: body, example: example.body }]),
        ),
      },
    }),
    responses: {
      ...describeAnswers(operation, components),
      ...describeRefusals(route, operation, chain, errors, body, components),
    },
  };
}

function describeParameters<Scene>(
  operation: Operation<Scene>,
  place: "path" | "query" | "header",
  schema: z.ZodObject | undefined,
  examples: Record<string, unknown> = {},
  components: Components,
): Json[] {
  if (schema === undefined) return [];
  const { properties = {}, required = [] } = convert(schema, "input", components) as {
    properties?: Record<string, Json>;
    required?: string[];
  };
  return Object.entries(properties).map(([name, parameter]) => ({
    name,
    in: place,
    required: place === "path" || required.includes(name),
    ...(operation.fields?.[name] === undefined ? {} : { description: operation.fields[name] }),
    schema: parameter,
    ...(examples[name] === undefined ? {} : { example: examples[name] }),
  }));
}

function describeAnswers<Scene>({ answers }: Operation<Scene>, components: Components): Record<string, Json> {
  return Object.fromEntries(
    Object.entries(answers).map(([status, { body, media = "application/json", headers = {} }]) => {
      const schema = body && convert(body, "output", components);
      const shown = Object.entries(headers).map(([name, header]) => {
        const { description, ...rest } = convert(header, "output", components);
        return [name, { ...(description === undefined ? {} : { description }), schema: rest }];
      });
      return [status, {
        description: SUCCESSES[status] ?? "Done",
        headers: { "x-request-id": { $ref: "#/components/headers/RequestId" }, ...Object.fromEntries(shown) },
        ...(schema === undefined
          ? {}
          : { content: { [media]: { schema, example: compose(schema, components) } } }),
      }];
    }),
  );
}

const SUCCESSES: Record<string, string> = {
  200: "Done",
  201: "Made",
  202: "Taken, and on its way",
  204: "Done; there is nothing to say",
};

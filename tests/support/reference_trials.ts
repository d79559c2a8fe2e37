/** What holds of every operation of every reference: its example works as it stands, and it refuses as it says. */

import assert from "node:assert/strict";
import type { z } from "zod";
import { ApiError } from "../../supabase/functions/_shared/errors.ts";
import { CREDENTIALS } from "../../supabase/functions/_shared/reference/credentials.ts";
import type { Operation } from "../../supabase/functions/_shared/reference/operation.ts";
import { badCredentials } from "./bad_credentials.ts";
import { codeOf, type DescribedOperation } from "./documented.ts";
import type { World } from "./harness.ts";
import type { Mounted } from "./openapi.ts";
import type { Json } from "./openapi_schemas.ts";
import {
  type ReferenceService,
  type Sent,
  serveReference,
  type Stage,
  toRequest,
} from "./reference_service.ts";
import { DOCUMENTED } from "./references.ts";

type Test = (name: string, run: (world: World) => Promise<void>) => void;

/** One operation, ready to be tried. */
export interface Case<Scene> {
  route: string;
  operation: Operation<Scene>;
  described: DescribedOperation;
  chain: Mounted["chain"];
  /** Security schemes, any of which lets a caller in; null where none is asked for. */
  schemes: (string | null)[];
}

/** Every operation of a function. */
export function listCases<Scene>({ name: ofFunction, reference, book }: Stage<Scene>): Case<Scene>[] {
  const { mounted } = DOCUMENTED.find(({ name }) => name === ofFunction)!;
  return Object.entries(reference.operations).map(([route, operation]) => {
    const described = book.operations.find(({ name }) => name === route.replaceAll(/:(\w+)/g, "{$1}"))!;
    const security = described.operation.security as Json[];
    const schemes = security.length === 0 ? [null] : security.map((each) => Object.keys(each)[0] ?? null);
    const { chain } = mounted.find((each) => each.route === route)!;
    return { route, operation, described, chain, schemes };
  });
}

/** Sends a request that must be refused with this code, as the operation is described. */
export async function expectCode<Scene>(
  { book }: Stage<Scene>,
  service: ReferenceService,
  { described, route }: Pick<Case<Scene>, "described" | "route">,
  sent: Sent,
  code: string,
) {
  const answer = await service.send(sent);
  assert.equal(codeOf(answer.body), code, `${route}: ${answer.status} ${answer.text}`);
  book.check(described, answer);
  return answer;
}

/** Defines the tests that are made from a function's reference alone. */
export function tryReference<Scene>(stage: Stage<Scene>, test: Test): void {
  const cases = listCases(stage);
  tryExamples(stage, cases, test);
  tryCredentials(stage, cases, test);
  tryBodies(stage, cases, test);
  tryOutages(stage, cases, test);
  tryRates(stage, cases, test);

  test("the document is served to anybody as it is kept, and says where it is from", async (world) => {
    await using service = await serveReference(stage, world);
    const { text, headers } = await service.send({ method: "GET", path: "/openapi.json" });
    assert.equal(headers.get("content-type"), "application/json");
    assert.equal(headers.get("access-control-allow-origin"), "*");
    assert.equal(JSON.parse(text).info.title, stage.name);
  });
}

function tryExamples<Scene>(stage: Stage<Scene>, cases: Case<Scene>[], test: Test): void {
  for (const { route, operation, described, schemes } of cases) {
    for (const scheme of schemes) {
      test(`the example of ${route} works, by ${scheme ?? "anybody"}, and is parsed as it is described`, async (world) => {
        await using service = await serveReference(stage, world);
        const { scene, credentials } = await stage.newCast(world, service, route);
        const schemas = operation.readsItself
          ? []
          : [operation.query, ...bodiesOf(operation)].filter((each) => each !== undefined);
        using watched = watch(schemas);
        const sent = toRequest(described, operation.example(scene), credentials[scheme ?? ""]);
        const answer = await service.send(sent);
        assert.ok(answer.status in operation.answers, `${answer.status} ${answer.text}`);
        stage.book.check(described, answer);
        if (schemas.length > 0) assert.ok(watched.count() > 0, "the handler parses with another schema");
      });
    }
  }
}

function tryCredentials<Scene>(stage: Stage<Scene>, cases: Case<Scene>[], test: Test): void {
  test("every operation refuses credentials as its class does", async (world) => {
    await using service = await serveReference(stage, world);
    await using bare = await serveReference(stage, world, {}, false);
    const { scene } = await stage.newCast(world, service);
    for (const each of cases) {
      const middleware = each.chain.find(({ name }) => name in CREDENTIALS)?.name;
      for (const { code, headers, target } of await badCredentials(world, middleware, service, bare)) {
        const sent = toRequest(each.described, each.operation.example(scene), headers);
        await expectCode(stage, target, each, sent, code);
      }
    }
  });
}

function tryBodies<Scene>(stage: Stage<Scene>, cases: Case<Scene>[], test: Test): void {
  test("every operation with a body refuses what is no JSON, too large, or lacks a field", async (world) => {
    await using service = await serveReference(stage, world);
    for (const each of cases.filter(({ operation }) => operation.body !== undefined)) {
      const { scene, credentials, sign } = await stage.newCast(world, service, each.route);
      const example = each.operation.example(scene);
      const expect = (body: string, code: string) => {
        const request = toRequest(each.described, example, credentials[each.schemes.at(-1) ?? ""]);
        const signature = each.schemes.includes("webhookSignature") ? sign!(body) : {};
        const sent = { ...request, body, headers: { ...request.headers, ...signature } };
        return expectCode(stage, service, each, sent, code);
      };
      for (const text of ["{", "[]", "7", '{"a":"\\ud800"', "\u0000"]) await expect(text, "invalid_json");
      const { code, maxBytes } = each.chain.find((link) => link.maxBytes !== undefined)!;
      await expect(`{"padding":"${"x".repeat(maxBytes!)}"}`, code!);
      const schema = each.described.operation.requestBody.content["application/json"]?.schema;
      const required: string[] = schema?.required ?? [];
      for (const field of required) {
        const { [field]: _, ...rest } = example.body as Json;
        await expect(JSON.stringify(rest), `missing_field:${field}`);
      }
    }
  });
}

function tryOutages<Scene>(stage: Stage<Scene>, cases: Case<Scene>[], test: Test): void {
  test("every operation answers 503 when who it asks is away, and a 500 that says nothing when it breaks", async (world) => {
    await using healthy = await serveReference(stage, world);
    const { scene, credentials } = await stage.newCast(world, healthy);
    for (
      const [error, code] of [
        [new ApiError("service_unavailable"), "service_unavailable"],
        [new Error("something with a secret in it"), "internal_error"],
      ] as const
    ) {
      const fail = () => Promise.reject(error);
      await using withoutDatabase = await serveReference(stage, world, { db: { call: fail, rows: fail } });
      await using withoutIssuer = await serveReference(stage, world, { sessions: { verify: fail } });
      for (const each of cases.filter(({ operation }) => !operation.offline)) {
        const scheme = each.schemes.at(-1)!;
        const request = toRequest(each.described, each.operation.example(scene), credentials[scheme ?? ""]);
        if (scheme === "session") await expectCode(stage, withoutIssuer, each, request, code);
        // Some ask the payment provider only.
        if (each.operation.errors?.includes("payment_provider_refused") && scheme === "session") continue;
        const answer = await expectCode(stage, withoutDatabase, each, request, code);
        assert.ok(!answer.text.includes("secret in it"));
      }
    }
  });
}

function tryRates<Scene>(stage: Stage<Scene>, cases: Case<Scene>[], test: Test): void {
  test("every operation answers 429 when it is asked too often, with the time to come back", async (world) => {
    await using healthy = await serveReference(stage, world);
    const { scene, credentials } = await stage.newCast(world, healthy);
    // So little that each caller is soon over it, and stays so.
    await using service = await serveReference(stage, world, {}, true, { requestsPerSecond: 0.001 });
    for (const each of cases) {
      for (const scheme of each.schemes) {
        const sent = toRequest(each.described, each.operation.example(scene), credentials[scheme ?? ""]);
        await expectCode(stage, service, each, sent, "rate_limited");
      }
    }
  });
}

/** Counts how often schemas are parsed with. */
function watch(schemas: z.ZodType[]) {
  let parsed = 0;
  const originals = schemas.map((schema) => schema.safeParse);
  for (const [i, schema] of schemas.entries()) {
    schema.safeParse = ((value: unknown) => (parsed++, originals[i]!(value))) as typeof schema.safeParse;
  }
  return {
    count: () => parsed,
    [Symbol.dispose]() {
      for (const [i, schema] of schemas.entries()) schema.safeParse = originals[i]!;
    },
  };
}

/** The schemas that a body may be parsed with: a union whole, or the part of it that the handler picks. */
function bodiesOf<Scene>({ body }: Operation<Scene>): z.ZodType[] {
  if (body === undefined) return [];
  return [body, ...(body.def as { type: string; options?: z.ZodType[] }).options ?? []];
}

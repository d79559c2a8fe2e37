/** The reference tells the truth: its examples work as they stand, and every operation refuses as it says. */

import assert from "node:assert/strict";
import type { z } from "zod";
import { ApiError, type ErrorCode } from "../../supabase/functions/_shared/errors.ts";
import type { Platform } from "../../supabase/functions/_shared/platform/mod.ts";
import type { Example, Operation } from "../../supabase/functions/_shared/reference/operation.ts";
import { REFERENCE } from "../../supabase/functions/v2-agent-state/reference/mod.ts";
import type { Scene } from "../../supabase/functions/v2-agent-state/reference/scene.ts";
import { exampleRequest } from "../support/arbitrary_requests.ts";
import { AGENT_STATE_BOOK as BOOK } from "../support/books.ts";
import { codeOf, type DescribedOperation } from "../support/documented.ts";
import { newDirectory } from "../support/directory.ts";
import { newKeyOf, newPaidKey } from "../support/factories.ts";
import { onOneBackend, type World } from "../support/harness.ts";
import { DOCUMENTED } from "../support/references.ts";
import {
  type Cast,
  newCast,
  type ReferenceService,
  type Sent,
  serveReference,
} from "../support/reference_service.ts";
import { mintLiveKey } from "../../supabase/functions/_shared/domain/credential.ts";
import { compose, type Json } from "../support/openapi_schemas.ts";

const MOUNTED = DOCUMENTED.find(({ name }) => name === "v2-agent-state")!.mounted;

interface Case {
  route: string;
  operation: Operation<Scene>;
  described: DescribedOperation;
  /** Security schemes, any of which lets a caller in; null where none is asked for. */
  schemes: (string | null)[];
}

const CASES: Case[] = Object.entries(REFERENCE.operations).map(([route, operation]) => {
  const described = BOOK.operations.find(({ name }) => name === route.replaceAll(/:(\w+)/g, "{$1}"))!;
  const security = described.operation.security as Json[];
  const schemes = security.length === 0 ? [null] : security.map((each) => Object.keys(each)[0] ?? null);
  return { route, operation, described, schemes };
});

onOneBackend((test) => {
  for (const { route, operation, described, schemes } of CASES) {
    for (const scheme of schemes) {
      test(`the example of ${route} works, by ${scheme ?? "anybody"}, and is parsed as it is described`, async (world) => {
        await using service = await serveReference(world);
        const cast = await newCast(world, service);
        const schemas = operation.readsItself
          ? []
          : [operation.query, ...bodiesOf(operation)].filter((each) => each !== undefined);
        using watched = watch(schemas);
        const answer = await service.send(toRequest(described, operation.example(cast.scene), cast, scheme));
        assert.ok(answer.status in operation.answers, `${answer.status} ${answer.text}`);
        BOOK.check(described, answer);
        if (schemas.length > 0) assert.ok(watched.count() > 0, "the handler parses with another schema");
      });
    }
  }

  test("every operation refuses credentials as its class does", async (world) => {
    await using service = await serveReference(world);
    await using bare = await serveReference(world, {}, false);
    const cast = await newCast(world, service);
    for (const each of CASES) {
      for (const scheme of each.schemes) {
        for (const [code, authorization, target] of await badCredentials(world, scheme, service, bare)) {
          const request = toRequest(each.described, each.operation.example(cast.scene), cast, scheme);
          await expectCode(
            target,
            each,
            { ...request, headers: { ...request.headers, ...authorization } },
            code,
          );
        }
      }
    }
  });

  test("every operation with a body refuses what is no JSON, too large, or lacks a field", async (world) => {
    await using service = await serveReference(world);
    for (const each of CASES.filter(({ operation }) => operation.body !== undefined)) {
      const cast = await newCast(world, service);
      const example = each.operation.example(cast.scene);
      const expect = (body: string, code: string) => {
        const headers = each.schemes.includes("webhookSignature") ? cast.scene.sign(body) : {};
        const request = toRequest(each.described, example, cast, each.schemes.at(-1)!);
        return expectCode(
          service,
          each,
          { ...request, body, headers: { ...request.headers, ...headers } },
          code,
        );
      };
      for (const text of ["{", "[]", "7", '{"a":"\\ud800"', "\u0000"]) await expect(text, "invalid_json");
      const { code, maxBytes } = limitOf(each.route);
      await expect(`{"padding":"${"x".repeat(maxBytes)}"}`, code);
      const required: string[] = compactSchema(each.described)?.required ?? [];
      for (const field of required) {
        const { [field]: _, ...rest } = example.body as Json;
        await expect(JSON.stringify(rest), `missing_field:${field}`);
      }
    }
  });

  test("every operation answers 503 when who it asks is away, and a 500 that says nothing when it breaks", async (world) => {
    await using healthy = await serveReference(world);
    const cast = await newCast(world, healthy);
    for (
      const [error, code] of [
        [new ApiError("service_unavailable"), "service_unavailable"],
        [new Error("something with a secret in it"), "internal_error"],
      ] as const
    ) {
      const fail = () => Promise.reject(error);
      await using withoutDatabase = await serveReference(world, { db: { call: fail, rows: fail } });
      await using withoutIssuer = await serveReference(world, { sessions: { verify: fail } });
      for (const each of CASES.filter(({ operation }) => !operation.offline)) {
        const scheme = each.schemes.at(-1)!;
        const request = toRequest(each.described, each.operation.example(cast.scene), cast, scheme);
        if (scheme === "session") await expectCode(withoutIssuer, each, request, code);
        // Some ask the payment provider only.
        if (each.operation.errors?.includes("payment_provider_refused") && scheme === "session") continue;
        const answer = await expectCode(withoutDatabase, each, request, code);
        assert.ok(!answer.text.includes("secret in it"));
      }
    }
  });

  test("every operation answers 429 when it is asked too often, with the time to come back", async (world) => {
    await using healthy = await serveReference(world);
    const cast = await newCast(world, healthy);
    // So little that each caller is soon over it, and stays so.
    await using service = await serveReference(world, {}, true, { requestsPerSecond: 0.001 });
    for (const each of CASES) {
      for (const scheme of each.schemes) {
        await expectCode(
          service,
          each,
          toRequest(each.described, each.operation.example(cast.scene), cast, scheme),
          "rate_limited",
        );
      }
    }
  });

  test("an agent's id that is no text, a deployment without a payment provider, and one that is away are told", async (world) => {
    await using service = await serveReference(world);
    const cast = await newCast(world, service);
    for (const each of CASES.filter(({ route }) => route.includes(":agent_id"))) {
      const { path, ...rest } = toRequest(each.described, each.operation.example(cast.scene), cast, "apiKey");
      const sent = { ...rest, path: path.replace(cast.scene.agentId, "a%00b") };
      await expectCode(service, each, sent, "invalid_field:agent_id");
    }
    // Every seat is taken, so that one more has to be bought.
    await world.sql.query(
      "update app.subscriptions set seat_count = 2 where account_id = (select id from app.accounts where subject = $1)",
      [cast.scene.callerId],
    );
    const routes = ["create-checkout", "customer-portal", "update-seats", "grants", "invitations"];
    const paying = CASES.filter(({ route }) => routes.includes(route.split("/").at(-1)!));
    assert.equal(paying.length, routes.length);
    await using bare = await serveReference(world, {}, false);
    for (
      const [code, target] of [
        [
          "payment_provider_refused",
          await serveReference(world, failingProvider("payment_provider_refused")),
        ],
        [
          "payment_provider_unavailable",
          await serveReference(world, failingProvider("payment_provider_unavailable")),
        ],
        ["billing_not_configured", bare],
      ] as const
    ) {
      for (const each of paying) {
        await expectCode(
          target,
          each,
          toRequest(each.described, each.operation.example(cast.scene), cast, "session"),
          code,
        );
      }
      if (target !== bare) await target[Symbol.asyncDispose]();
    }
  });

  test("the document is served to anybody as it is kept, and says where it is from", async (world) => {
    await using service = await serveReference(world);
    const { text, headers } = await service.send({ method: "GET", path: "/openapi.json" });
    assert.equal(headers.get("content-type"), "application/json");
    assert.equal(headers.get("access-control-allow-origin"), "*");
    assert.equal(JSON.parse(text).info.title, "v2-agent-state");
  });

  test("an answer with a status, a code, or a field that is not described is noticed", () => {
    const operation = BOOK.operations.find(({ name }) => name === "GET /head")!;
    const headers = new Headers({ "content-type": "application/json", "x-request-id": "1" });
    const check = (status: number, body: Json, more: Record<string, string> = {}) => {
      const all = new Headers([...headers, ...Object.entries(more)]);
      BOOK.check(operation, { status, body, text: JSON.stringify(body), headers: all });
    };
    const good = compose({ $ref: "#/components/schemas/Head" }, BOOK.document.components) as Json;
    check(200, good);
    const refusal = { error: "no_replication_entries", request_id: crypto.randomUUID() };
    check(404, refusal);
    assert.throws(() => check(201, good), /no such status/);
    assert.throws(() => check(200, { ...good, extra: 1 }), /additional/);
    assert.throws(() => check(200, { ...good, updated_at: "today" }), /format/);
    assert.throws(() => check(404, { ...refusal, error: "snapshot_not_found" }), /does not have it so/);
    assert.throws(() => check(404, { ...refusal, hint: "" }), /does not have it so/);
    assert.throws(
      () => check(503, { ...refusal, error: "service_unavailable" }),
      /without the header retry-after/,
    );
    return Promise.resolve();
  });
});

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

/** The schemas that a body may be parsed with: one, or those of a union. */
function bodiesOf({ body }: Operation<Scene>): z.ZodType[] {
  if (body === undefined) return [];
  const options = (body.def as { type: string; options?: z.ZodType[] }).options;
  return options ?? [body];
}

function toRequest(described: DescribedOperation, example: Example, cast: Cast, scheme: string | null): Sent {
  const { headers, ...request } = exampleRequest(described, example);
  const authorization = scheme === null ? undefined : cast.credentials[scheme];
  return { ...request, headers: { ...headers, ...(authorization === undefined ? {} : { authorization }) } };
}

/** What the provider's adapter makes of refusals and outages is tested with it. */
function failingProvider(code: ErrorCode): Pick<Platform, "payments" | "seats"> {
  const fail = () => Promise.reject(new ApiError(code));
  return {
    payments: { createCheckout: fail, createPortalSession: fail, verifyEvent: () => "" },
    seats: { change: fail },
  };
}

async function expectCode(service: ReferenceService, { described, route }: Case, sent: Sent, code: string) {
  const answer = await service.send(sent);
  assert.equal(codeOf(answer.body), code, `${route}: ${answer.status} ${answer.text}`);
  BOOK.check(described, answer);
  return answer;
}

/** Headers that a class refuses, with the code of each, and which service they are sent to. */
async function badCredentials(
  world: World,
  scheme: string | null,
  service: ReferenceService,
  bare: ReferenceService,
): Promise<[ErrorCode, Record<string, string>, ReferenceService][]> {
  const bearer = (token: string) => ({ authorization: `Bearer ${token}` });
  if (scheme === "webhookSignature") {
    return [["invalid_webhook_signature", { "webhook-signature": "v1,AAAA" }, service], [
      "billing_not_configured",
      {},
      bare,
    ]];
  }
  if (scheme === "cronSecret") {
    return [["invalid_cron_secret", bearer("wrong"), service], ["cron_not_configured", {}, bare]];
  }
  if (scheme === null) return [];
  const missing: [ErrorCode, Record<string, string>, ReferenceService] = [
    "missing_or_invalid_bearer_token",
    { authorization: "Basic Zm9v" },
    service,
  ];
  if (scheme === "scimToken") {
    const directory = await newDirectory(world);
    const path = `/sso/${directory.id}/scim-tokens/${directory.tokenId}`;
    await world.request("DELETE", path, { token: directory.owner.token });
    return [
      missing,
      ["invalid_scim_token", bearer("scim_nothing"), service],
      ["scim_token_revoked", bearer(directory.token), service],
    ];
  }
  const live = await newPaidKey(world);
  if (scheme === "session") {
    return [
      missing,
      ["session_jwt_required", bearer(live.token), service],
      ["invalid_session", bearer("a.b.c"), service],
    ];
  }
  const revoked = await newKeyOf(world, live.accountId);
  await world.sql.query("update app.api_keys set revoked_at = now() where id = $1", [revoked.keyId]);
  const button = await newKeyOf(world, live.accountId);
  await world.sql.query("update app.api_keys set scopes = '{vault:check_in}' where id = $1", [button.keyId]);
  const orphan = await newPaidKey(world);
  await world.sql.query("delete from app.owners where id = $1", [orphan.accountId]);
  const unknown = mintLiveKey((count) => crypto.getRandomValues(new Uint8Array(count)));
  return [
    missing,
    ["invalid_api_key", bearer(unknown), service],
    ["api_key_revoked", bearer(revoked.token), service],
    ["owner_not_found", bearer(orphan.token), service],
    ["forbidden_scope", bearer(button.token), service],
  ];
}

function limitOf(route: string): { code: string; maxBytes: number } {
  const { chain } = MOUNTED.find((each) => each.route === route)!;
  const { code, maxBytes } = chain.find((each) => each.maxBytes !== undefined)!;
  return { code: code!, maxBytes: maxBytes! };
}

function compactSchema({ operation }: DescribedOperation): Json | undefined {
  return operation.requestBody?.content["application/json"].schema;
}

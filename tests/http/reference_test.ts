/** The reference tells the truth: its examples work as they stand, and every operation refuses as it says. */

import assert from "node:assert/strict";
import { ApiError, type ErrorCode } from "../../supabase/functions/_shared/errors.ts";
import type { Platform } from "../../supabase/functions/_shared/platform/mod.ts";
import { AGENT_STATE } from "../support/agent_state_cast.ts";
import { AGENT_STATE_BOOK as BOOK } from "../support/books.ts";
import { onOneBackend } from "../support/harness.ts";
import { compose, type Json } from "../support/openapi_schemas.ts";
import { serveReference, toRequest } from "../support/reference_service.ts";
import { expectCode, listCases, tryReference } from "../support/reference_trials.ts";

const CASES = listCases(AGENT_STATE);

onOneBackend((test) => {
  tryReference(AGENT_STATE, test);

  test("an agent's id that is no text, a deployment without a payment provider, and one that is away are told", async (world) => {
    await using service = await serveReference(AGENT_STATE, world);
    const cast = await AGENT_STATE.newCast(world, service);
    for (const each of CASES.filter(({ route }) => route.includes(":agent_id"))) {
      const { path, ...rest } = toRequest(
        each.described,
        each.operation.example(cast.scene),
        cast.credentials.apiKey,
      );
      const sent = { ...rest, path: path.replace(cast.scene.agentId, "a%00b") };
      await expectCode(AGENT_STATE, service, each, sent, "invalid_field:agent_id");
    }
    // Every seat is taken, so that one more has to be bought.
    await world.sql.query(
      "update app.subscriptions set seat_count = 2 where account_id = (select id from app.accounts where subject = $1)",
      [cast.scene.callerId],
    );
    const routes = ["create-checkout", "customer-portal", "update-seats", "grants", "invitations"];
    const paying = CASES.filter(({ route }) => routes.includes(route.split("/").at(-1)!));
    assert.equal(paying.length, routes.length);
    await using bare = await serveReference(AGENT_STATE, world, {}, false);
    for (
      const [code, target] of [
        [
          "payment_provider_refused",
          await serveReference(AGENT_STATE, world, failingProvider("payment_provider_refused")),
        ],
        [
          "payment_provider_unavailable",
          await serveReference(AGENT_STATE, world, failingProvider("payment_provider_unavailable")),
        ],
        ["billing_not_configured", bare],
      ] as const
    ) {
      for (const each of paying) {
        await expectCode(
          AGENT_STATE,
          target,
          each,
          toRequest(each.described, each.operation.example(cast.scene), cast.credentials.session),
          code,
        );
      }
      if (target !== bare) await target[Symbol.asyncDispose]();
    }
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

/** What the provider's adapter makes of refusals and outages is tested with it. */
function failingProvider(code: ErrorCode): Pick<Platform, "payments" | "seats"> {
  const fail = () => Promise.reject(new ApiError(code));
  return {
    payments: { createCheckout: fail, createPortalSession: fail, verifyEvent: () => "" },
    seats: { change: fail },
  };
}

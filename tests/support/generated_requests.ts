/** Sends generated requests to every operation, and holds each answer against the reference. */

import assert from "node:assert/strict";
import fc from "npm:fast-check@4.10.2";
import type { Scene } from "../../supabase/functions/v2-agent-state/reference/scene.ts";
import type { WebhookSender } from "../../supabase/functions/_shared/platform/mod.ts";
import { AGENT_STATE } from "./agent_state_cast.ts";
import { type ArbitraryRequest, arbitraryRequest, exampleRequest } from "./arbitrary_requests.ts";
import { AGENT_STATE_BOOK as BOOK } from "./books.ts";
import { codeOf, type DescribedOperation } from "./documented.ts";
import type { World } from "./harness.ts";
import type { Json } from "./openapi_schemas.ts";
import { type Cast, type ReferenceService, serveReference } from "./reference_service.ts";

/** Nothing that is made up here may leave this machine. */
const LOOPBACK_ONLY: WebhookSender = {
  findFault: (url) =>
    Promise.resolve(
      URL.canParse(url) && new URL(url).hostname === "127.0.0.1" ? undefined : "address_not_public",
    ),
  send: () => Promise.resolve({ status: 204, error: null, retryAfterSeconds: null }),
};

/** What came of the requests to one operation, by code or status. */
export type Tally = Record<string, number>;

/**
 * Sends the example and then generated requests, `count` in all, to each operation with its right credential. Fails, with the smallest such request, on a 500
 * and on every answer that the reference does not have.
 */
export async function sendGenerated(
  world: World,
  count: number,
  seed?: number,
): Promise<Record<string, Tally>> {
  await using service = await serveReference(AGENT_STATE, world, { hooks: LOOPBACK_ONLY });
  const tallies: Record<string, Tally> = {};
  for (const described of BOOK.operations) {
    const cast = await AGENT_STATE.newCast(world, service);
    const example = exampleOf(described, cast);
    const tally: Tally = tallies[described.name] = {};
    await fc.assert(
      fc.asyncProperty(arbitraryRequest(BOOK, described, example), async (request) => {
        const answer = await sendOne(service, described, cast, request);
        tally[answer] = (tally[answer] ?? 0) + 1;
      }),
      {
        numRuns: count,
        examples: [[exampleRequest(described, example)]],
        ...(seed === undefined ? {} : { seed }),
      },
    );
  }
  return tallies;
}

function exampleOf({ name }: DescribedOperation, cast: Cast<Scene>) {
  const route = Object.keys(AGENT_STATE.reference.operations).find((each) =>
    each.replaceAll(/:(\w+)/g, "{$1}") === name
  )!;
  return AGENT_STATE.reference.operations[route]!.example(cast.scene);
}

async function sendOne(
  service: ReferenceService,
  { operation }: DescribedOperation,
  { credentials, scene }: Cast<Scene>,
  request: ArbitraryRequest,
): Promise<string> {
  const scheme = Object.keys((operation.security as Json[]).at(-1) ?? {})[0];
  const signature = scheme === "webhookSignature" && typeof request.body === "string"
    ? scene.sign(request.body)
    : {};
  const credential = scheme === undefined ? {} : credentials[scheme];
  const answer = await service.send({
    ...request,
    headers: { ...request.headers, ...signature, ...credential },
  });
  const said = `${answer.status} ${answer.text.slice(0, 300)}`;
  assert.ok(answer.status !== 500, said);
  const meant = BOOK.find(request.method, request.path);
  // A path that was changed may be nobody's; the service has to see it so as well.
  if (meant === undefined) {
    assert.match(codeOf(answer.body), /^(?:route_not_found|method_not_allowed)$/, said);
  } else BOOK.check(meant, answer);
  return answer.status < 400 ? String(answer.status) : codeOf(answer.body).split(":")[0]!;
}

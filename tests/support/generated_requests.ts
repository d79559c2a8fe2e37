/** Sends generated requests to every operation of a function, and holds each answer against the reference. */

import assert from "node:assert/strict";
import fc from "npm:fast-check@4.10.2";
import type { WebhookSender } from "../../supabase/functions/_shared/platform/mod.ts";
import { type ArbitraryRequest, arbitraryRequest, exampleRequest } from "./arbitrary_requests.ts";
import { codeOf } from "./documented.ts";
import type { World } from "./harness.ts";
import { type Cast, type ReferenceService, serveReference, type Stage } from "./reference_service.ts";
import { type Case, listCases } from "./reference_trials.ts";
import { newAddress } from "./teams.ts";

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
 * Sends the example and then generated requests, `count` in all, to each operation with its right credential. Fails,
 * with the smallest such request, on a 500 and on every answer that the reference does not have.
 */
export async function sendGenerated<Scene>(
  stage: Stage<Scene>,
  world: World,
  count: number,
  seed?: number,
): Promise<Record<string, Tally>> {
  await using service = await serveReference(stage, world, { hooks: LOOPBACK_ONLY });
  const tallies: Record<string, Tally> = {};
  for (const each of listCases(stage)) {
    const cast = await stage.newCast(world, service, each.route);
    const example = each.operation.example(cast.scene);
    const tally: Tally = tallies[each.described.name] = {};
    await fc.assert(
      fc.asyncProperty(arbitraryRequest(stage.book, each.described, example), async (request) => {
        const answer = await sendOne(stage, service, each, cast, request);
        tally[answer] = (tally[answer] ?? 0) + 1;
      }),
      {
        numRuns: count,
        examples: [[exampleRequest(each.described, example)]],
        ...(seed === undefined ? {} : { seed }),
      },
    );
  }
  return tallies;
}

async function sendOne<Scene>(
  { book }: Stage<Scene>,
  service: ReferenceService,
  { schemes }: Case<Scene>,
  { credentials, sign }: Cast<Scene>,
  request: ArbitraryRequest,
): Promise<string> {
  const scheme = schemes.at(-1);
  const signature = scheme === "webhookSignature" && typeof request.body === "string"
    ? sign!(request.body)
    : {};
  const credential = credentials[scheme ?? ""];
  const answer = await service.send({
    ...request,
    // Each from a network of its own: how many tries one may have is not the question here.
    headers: { ...newAddress(), ...request.headers, ...signature, ...credential },
  });
  const said = `${answer.status} ${answer.text.slice(0, 300)}`;
  assert.ok(answer.status !== 500, said);
  const meant = book.find(request.method, request.path);
  // A path that was changed may be nobody's; the service has to see it so as well.
  if (meant === undefined) {
    assert.match(codeOf(answer.body), /^(?:route_not_found|method_not_allowed)$/, said);
  } else book.check(meant, answer);
  return answer.status < 400 ? String(answer.status) : codeOf(answer.body).split(":")[0]!;
}

/** Sends generated requests to every operation of a function, and holds each answer against the reference. */

import assert from "node:assert/strict";
import fc from "npm:fast-check@4.10.2";
import type { WebhookSender } from "../../supabase/functions/_shared/platform/mod.ts";
import { type ArbitraryRequest, arbitraryRequest, exampleRequest } from "./arbitrary_requests.ts";
<<<<<<< HEAD
import type { Example } from "../../supabase/functions/_shared/reference/operation.ts";
import { AGENT_STATE_BOOK as BOOK, VAULT_BOOK } from "./books.ts";
import { codeOf, type DescribedOperation } from "./documented.ts";
import { withEverything } from "./everything.ts";
import type { World } from "./harness.ts";
import { OPERATIONS, type Prepared } from "./operations/mod.ts";
import type { Json } from "./openapi_schemas.ts";
import { type Cast, newCast, type ReferenceService, serveReference } from "./reference_service.ts";
import { newAddress } from "./teams.ts";
=======
import { codeOf } from "./documented.ts";
import type { World } from "./harness.ts";
import { type Cast, type ReferenceService, serveReference, type Stage } from "./reference_service.ts";
import { type Case, listCases } from "./reference_trials.ts";
>>>>>>> vaultref

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
    headers: { ...request.headers, ...signature, ...credential },
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

/** The same for the vault interface: the rows of its operations name what exists, and who may send. */
export async function sendGeneratedToVault(
  world: World,
  count: number,
  seed?: number,
): Promise<Record<string, Tally>> {
  const tallies: Record<string, Tally> = {};
  await withEverything(world, async (service) => {
    for (const described of VAULT_BOOK.operations) {
      const row = OPERATIONS.find(({ app, route }) =>
        app === "vault" && route.replaceAll(/:(\w+)/g, "{$1}") === described.name
      );
      const prepared = await row?.prepare(world);
      const example = exampleIn(described, prepared);
      const tally: Tally = tallies[described.name] = {};
      await fc.assert(
        fc.asyncProperty(arbitraryRequest(VAULT_BOOK, described, example), async (request) => {
          const { path, body, headers } = request;
          const token = prepared?.options.token;
          // Whatever it answers is held against the reference by the world that is asked.
          const answer = await service.requestVault(request.method, path, {
            ...(body === undefined ? {} : { body }),
            ...(token === undefined ? {} : { token }),
            headers: { ...newAddress(), ...headers, ...prepared?.options.headers },
          });
          assert.ok(answer.status !== 500, `${answer.status} ${answer.text.slice(0, 300)}`);
          const told = answer.status < 400 ? String(answer.status) : codeOf(answer.body).split(":")[0]!;
          tally[told] = (tally[told] ?? 0) + 1;
        }),
        {
          numRuns: count,
          examples: [[exampleRequest(described, example)]],
          ...(seed === undefined ? {} : { seed }),
        },
      );
    }
  });
  return tallies;
}

/** A row's request, taken apart again. */
function exampleIn({ template }: DescribedOperation, prepared: Prepared | undefined): Example {
  if (prepared === undefined) return {};
  const [names, values] = [template.split("/"), prepared.path.split("/")];
  const path = Object.fromEntries(
    names.flatMap((name, i) => name.startsWith("{") ? [[name.slice(1, -1), values[i]!]] : []),
  );
  const { body } = prepared.options;
  return { path, ...(body === undefined ? {} : { body: body as Record<string, unknown> }) };
}

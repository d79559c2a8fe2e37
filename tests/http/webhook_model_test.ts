/** Webhooks against a model, at a clock that the test sets: what endpoints are sent, whatever they and people do. */

import assert from "node:assert/strict";
import fc from "npm:fast-check@4.10.2";
import { openClaim, THOROUGH } from "../support/claims.ts";
import { chunk, replicateBody } from "../support/factories.ts";
import { type Answer, onOneBackend } from "../support/harness.ts";
import { checkModel } from "../support/model_runner.ts";
import { assertSame, dispatch, newCast, openStage, type Real, setClock } from "../support/webhook_cast.ts";
import { apply } from "../support/webhook_model.ts";
import {
  type Action,
  ANSWERS,
  BAD_URLS,
  type Behaviour,
  DAY,
  deliveriesOf,
  ENDPOINTS,
  EVENTS,
  hookOf,
  HOUR,
  inTurn,
  newModel,
  nextDue,
  OWNERS,
  type Step,
  STOCK,
  type WebhookModel,
} from "../support/webhook_model_state.ts";

const RUNS = THOROUGH ? 100 : 8;
const STEPS_MAX = 80;

const is = <Kind extends string>(kind: Kind) => fc.constant(kind);
/** Mostly the one who has no webhooks from the start. */
const by = fc.constantFrom(0, 0, 0, 1);
const of = fc.nat(11);
const endpoint = fc.nat(ENDPOINTS - 1);
const events: fc.Arbitrary<string[]> = fc.oneof(
  fc.constant<string[]>(["*"]),
  fc.subarray<string>([...EVENTS, "subscription.updated"], { minLength: 1 }),
);
const action: fc.Arbitrary<Action> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      kind: is("create"),
      by: fc.nat(OWNERS - 1),
      endpoint,
      events,
      badUrl: fc.oneof({ weight: 6, arbitrary: fc.constant(null) }, fc.nat(BAD_URLS.length - 1)),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: is("list"), by }) },
  { weight: 2, arbitrary: fc.record({ kind: is("delete"), by, of }) },
  { weight: 2, arbitrary: fc.record({ kind: is("test"), by, of }) },
  { weight: 3, arbitrary: fc.record({ kind: is("rotate"), by, of }) },
  { weight: 1, arbitrary: fc.record({ kind: is("deliveries"), by, of }) },
  {
    weight: 8,
    arbitrary: fc.record({
      kind: is("append"),
      by,
      which: fc.constantFrom(
        "next" as const,
        "next" as const,
        "next" as const,
        "same" as const,
        "too far" as const,
      ),
    }),
  },
  { weight: 4, arbitrary: fc.record({ kind: is("makeKey"), by }) },
  { weight: 2, arbitrary: fc.record({ kind: is("revokeKey"), by, of }) },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: is("behave"),
      endpoint,
      as: fc.constantFrom<Behaviour>(
        "well",
        "well",
        "well",
        "broken",
        "broken",
        "busy",
        "moved",
        "slow",
        "gone",
      ),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      kind: is("dispatch"),
      workers: fc.constantFrom(1, 1, 4),
      dies: fc.constantFrom(false, false, true),
    }),
  },
  { weight: 4, arbitrary: fc.record({ kind: is("schedule"), rounds: fc.constantFrom(2, 25) }) },
);
/** All are multiples of five seconds, so that a step may take that long before it matters. */
const after = fc.oneof(
  { weight: 12, arbitrary: fc.constant(0) },
  { weight: 6, arbitrary: fc.constantFrom(5, 60, 300, HOUR, 6 * HOUR) },
  { weight: 2, arbitrary: fc.constant(DAY) },
  { weight: 1, arbitrary: fc.constantFrom(5 * DAY, 31 * DAY) },
);

const held = openClaim(
  "Every event reaches the webhooks that were listening, signed, until they are given up, and no other",
);

onOneBackend((test) => {
  test("whatever endpoints and people do, webhooks are sent what their model says, and nothing else", async (world) => {
    await using stage = openStage(world);
    const seen = { sent: 0, again: 0, exhausted: 0, disabled: 0, canceled: 0 };
    const actions = await checkModel<WebhookModel, Real, Step>({
      action: fc.record({ after, does: action }),
      async setUp() {
        const model = newModel();
        const real = await newCast(stage, model);
        for (const endpoint of [0, 1]) {
          await take(real, model, { kind: "create", by: 0, endpoint, events: ["*"], badUrl: null });
        }
        return { model, real };
      },
      perform,
      apply,
      inspect,
      async assertKept(real, model) {
        await assertAllArrives(real, model);
        seen.sent += model.sent.length;
        seen.again += model.sent.length - new Set(model.sent.map(({ delivery }) => delivery)).size;
        for (const { disabled } of model.owners) seen.disabled += disabled;
        for (const { isExhausted } of model.owed) if (isExhausted) seen.exhausted++;
        for (const { status } of model.deliveries) if (status === "canceled") seen.canceled++;
      },
    }, { runs: RUNS, stepsMax: STEPS_MAX });
    // What takes many steps to come about is too rare in few programs.
    const { sent, again, ...rare } = seen;
    const told = JSON.stringify(seen);
    assert.ok(sent > RUNS * 4 && again > RUNS, `The programs do too little: ${told}`);
    if (THOROUGH) assert.ok(Object.values(rare).every((count) => count > RUNS / 5), told);
    held(actions);
  });
});

async function perform(real: Real, model: WebhookModel, { after, does: asked }: Step): Promise<Answer> {
  const present = structuredClone(model);
  present.now += after;
  await setClock(real, present);
  const answer = await ask(real, present, inTurn(present, asked));
  await real.settle();
  return answer;
}

/** Sends the request of an action, and keeps what only its answer has. */
async function ask(real: Real, model: WebhookModel, does: Action): Promise<Answer> {
  switch (does.kind) {
    case "behave":
      real.endpoints[does.endpoint] = does.as;
      return DONE;
    case "dispatch":
      return await dispatchAtOnce(real, does);
    case "schedule":
      return await keepDispatching(real, model, does.rounds);
    case "append": {
      const last = model.owners[does.by]!.log;
      const sequence = does.which === "next"
        ? last
        : does.which === "same"
        ? Math.max(last - 1, 0)
        : last + 5;
      const body = replicateBody(chunk(sequence, `block ${sequence}`));
      return await real.service.request("POST", "/replicate", { token: real.owners[does.by]!.key, body });
    }
  }
  const { token, keyIds } = real.owners[does.by]!;
  const send = (method: string, path: string, body?: unknown) =>
    real.service.request(method, path, { token, ...(body === undefined ? {} : { body }) });
  const hook = "of" in does ? real.hooks[hookOf(model, does.of)?.number ?? -1] : undefined;
  const path = `/webhooks/${hook?.id ?? crypto.randomUUID()}`;
  switch (does.kind) {
    case "create": {
      const url = does.badUrl === null ? real.receivers[does.endpoint]!.url : BAD_URLS[does.badUrl]![0];
      const answer = await send("POST", "/webhooks", { url, events: does.events });
      if (answer.status === 201) real.hooks.push({ id: answer.body.id, secrets: [answer.body.secret] });
      return answer;
    }
    case "list":
      return await send("GET", "/webhooks");
    case "delete":
      return await send("DELETE", path);
    case "test":
      return await send("POST", `${path}/test`);
    case "deliveries":
      return await send("GET", `${path}/deliveries`);
    case "rotate": {
      const answer = await send("POST", `${path}/rotate-secret`);
      if (answer.status === 200) hook!.secrets.push(answer.body.secret);
      return answer;
    }
    case "makeKey": {
      const answer = await send("POST", "/api-keys", { name: "key" });
      keyIds.push(answer.body.id);
      return answer;
    }
    case "revokeKey":
      return await send(
        "DELETE",
        `/api-keys/${keyIds[does.of % Math.max(keyIds.length, 1)] ?? crypto.randomUUID()}`,
      );
  }
}

/** A webhook or a delivery, as it is shown. */
type Shown = Record<string, unknown>;

/** An answer for what is done without a request. */
const DONE: Answer = { status: 200, body: {}, text: "", headers: new Headers() };

/** Several workers may be in each other's way, but what they leave is there for the next. */
async function dispatchAtOnce(real: Real, { workers, dies }: Action & { kind: "dispatch" }): Promise<Answer> {
  if (dies) return await dispatch(real.dying);
  const answers = await Promise.all(Array.from({ length: workers - 1 }, () => dispatch(real.service)));
  return sum([...answers, await dispatch(real.service)]);
}

async function keepDispatching(real: Real, model: WebhookModel, rounds: number): Promise<Answer> {
  const answers = [DONE];
  for (let round = 0; round < rounds; round++) {
    const next = nextDue(model);
    if (next === undefined) break;
    model.now = next;
    await setClock(real, model);
    answers.push(await dispatch(real.service));
    await real.settle();
    apply(model, { after: 0, does: { kind: "dispatch", workers: 1, dies: false } });
    await assertSame(real, model);
  }
  return sum(answers);
}

function sum(answers: Answer[]): Answer {
  const all = { delivered: 0, failed: 0 };
  for (const { status, text, body: { delivered = 0, failed = 0 } } of answers) {
    assert.equal(status, 200, text);
    all.delivered += delivered;
    all.failed += failed;
  }
  return { ...DONE, body: all };
}

async function inspect(real: Real, model: WebhookModel, { does }: Step, answer: Answer): Promise<void> {
  await assertSame(real, model);
  const { status, body } = answer;
  if (does.kind === "create" && status === 400) assert.equal(body.reason, BAD_URLS[does.badUrl!]![1]);
  if ("delivered" in body) assert.deepEqual(body, model.report);
  if (does.kind === "list" && Array.isArray(body)) assertListed(real, model, does.by, answer);
  if (does.kind === "deliveries" && status === 200) {
    const { number } = hookOf(model, does.of)!;
    assert.deepEqual(
      body.deliveries.map((each: Shown) => [
        each.id,
        each.status,
        each.attempts,
        each.next_attempt_at !== null,
      ]),
      deliveriesOf(model, number).map((each) => [
        real.deliveries[each.number],
        each.status,
        each.attempts,
        each.status === "pending",
      ]).reverse(),
    );
  }
}

/** A list has all of somebody's webhooks, nobody else's, and no secret. */
function assertListed(real: Real, model: WebhookModel, by: number, { body, text }: Answer): void {
  const own = model.hooks.filter(({ owner, state }) => owner === by && state !== "deleted").reverse();
  assert.deepEqual(
    body.slice(0, own.length).map((each: Shown) => [
      each.id,
      each.url,
      each.events,
      each.state,
      each.disabled_reason,
      each.failing_since === null,
    ]),
    own.map(({ number, endpoint, events, state, reason, failingSince }) => [
      real.hooks[number]!.id,
      real.receivers[endpoint]!.url,
      events,
      state,
      reason,
      failingSince === null,
    ]),
  );
  assert.equal(body.length, own.length + STOCK[by]!);
  assert.ok(!text.includes("whsec_"));
}

async function take(real: Real, model: WebhookModel, does: Action, after = 0): Promise<void> {
  const answer = await perform(real, model, { after, does });
  const { status } = apply(model, { after, does });
  assert.equal(answer.status, status, answer.text);
  await inspect(real, model, { after, does }, answer);
}

/** When all endpoints are well again, everything that is still owed arrives; in the end nothing is owed any more. */
async function assertAllArrives(real: Real, model: WebhookModel): Promise<void> {
  for (let i = 0; i < ENDPOINTS; i++) await take(real, model, { kind: "behave", endpoint: i, as: "well" });
  await take(real, model, { kind: "schedule", rounds: 1_000 });
  for (let by = 0; by < OWNERS; by++) await take(real, model, { kind: "list", by });
  const taken = new Set(
    real.sent.filter(({ answer }) => answer === ANSWERS.well.status).map((each) => each.delivery),
  );
  for (const [delivery, { hook, isExhausted }] of model.owed.entries()) {
    const isActive = model.hooks.some(({ number, state }) => number === hook && state === "active");
    const hasArrived = taken.has(delivery) || isExhausted || !isActive;
    assert.ok(hasArrived, "every event arrives where somebody still listens");
  }
}

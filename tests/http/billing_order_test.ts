/**
 * What is left of a history of events depends on which events came, not on their order or repetition. Histories are
 * made at random, shuffled with repetitions, applied by the functions of the database themselves, and compared with
 * each other and with a few lines of TypeScript that look at the set of events only.
 */

import assert from "node:assert/strict";
// @deno-types="npm:@types/pg@8.23.1"
import pg from "pg";
import {
  type Event,
  fold,
  makeHistory,
  makeRandom,
  shuffle,
  type SubscriptionEvent,
} from "../support/billing_histories.ts";
import { eventually } from "../support/eventually.ts";
import { onOneBackend, type World } from "../support/harness.ts";

const HISTORIES = 100;
const SHUFFLES = 100;
const ROUNDS_AT_ONCE = 50;
const SEED = Number(Deno.env.get("SEED") ?? Math.floor(Math.random() * 2 ** 31));

/** What a customer is left with. */
const STATE_OF = `
  create function public.state_of(p_mark text) returns jsonb language sql as $$
    select jsonb_build_object(
             'credits', a.credits_milli, 'period_start', app.iso(a.period_start), 'plan', s.plan,
             'status', s.status, 'devices', s.quota_devices, 'seats', s.seat_count,
             'included', s.included_seats, 'customer', s.polar_customer_id,
             'subscription', split_part(s.polar_subscription_id, '~', 1))
      from app.accounts a left join app.subscriptions s on s.account_id = a.id
     where a.subject = 'user' || p_mark
  $$`;

/** Applies each shuffle to a customer of its own, and returns the state that each ends in. */
const APPLY = `
  create function public.apply_shuffles(p_events jsonb, p_shuffles jsonb) returns setof jsonb
  language plpgsql as $$
  declare
    v_shuffle jsonb;
    v_index int;
    v_event jsonb;
    v_mark text;
  begin
    for v_shuffle in select * from jsonb_array_elements(p_shuffles) loop
      v_mark := '~' || gen_random_uuid();
      for v_index in select value::int from jsonb_array_elements_text(v_shuffle) loop
        v_event := p_events -> v_index;
        if v_event ? 'subscription' then
          perform api.apply_subscription_event(
            v_event ->> 'webhook' || v_mark, v_event ->> 'kind', v_event ->> 'subscription' || v_mark,
            'user' || v_mark, v_event ->> 'webhook', v_event ->> 'plan', v_event ->> 'status', 1, 2, 3,
            (v_event ->> 'devices')::bigint, (v_event ->> 'seats')::int, (v_event ->> 'start')::timestamptz,
            'infinity', (v_event ->> 'created')::timestamptz, (v_event ->> 'modified')::timestamptz);
        else
          perform api.apply_order_event(
            v_event ->> 'webhook' || v_mark, v_event ->> 'kind', v_event ->> 'order' || v_mark, 'user' || v_mark,
            (v_event ->> 'credits')::bigint, (v_event ->> 'ppm')::int, (v_event ->> 'modified')::timestamptz);
        end if;
      end loop;
      return next public.state_of(v_mark);
    end loop;
  end $$`;

onOneBackend((test) => {
  test(`${HISTORIES * SHUFFLES} shuffles with repetitions of ${HISTORIES} histories end as their set of events says`, async (world) => {
    await world.sql.query(`${STATE_OF}; ${APPLY}`);
    const random = makeRandom(SEED);
    const histories = Array.from({ length: HISTORIES }, () => makeHistory(random));
    for (const events of histories) {
      const shuffles = Array.from({ length: SHUFFLES }, () => shuffle(events.length, random));
      const states = await applyAll(world, events, shuffles);
      assert.equal(states.length, SHUFFLES);
      const expected = fold(events);
      for (const [i, state] of states.entries()) {
        assert.deepEqual(
          state,
          expected,
          `SEED=${SEED}: ${JSON.stringify(shuffles[i])} of ${JSON.stringify(events)}`,
        );
      }
    }
  });

  test("events of one customer that come all at once end as their set says, too", async (world) => {
    const random = makeRandom(SEED + 1);
    for (let round = 0; round < ROUNDS_AT_ONCE; round++) {
      const events = makeHistory(random);
      const mark = `~${crypto.randomUUID()}`;
      await Promise.all(shuffle(events.length, random).map((i) => apply(world, events[i]!, mark)));
      const { rows } = await world.sql.query("select public.state_of($1) as state", [mark]);
      assert.deepEqual(rows[0].state, fold(events), `SEED=${SEED}: ${JSON.stringify(events)}`);
    }
  });

  test("an event waits for another one of the same customer that is not done yet, and then sees it", async (world) => {
    await world.platform.db.call("read_subscription", { p_subject: "user~wait", p_email: null });
    const [older, newer] = ["2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"].map((
      created,
      i,
    ): SubscriptionEvent => ({
      webhook: `webhook-${i}`,
      kind: "subscription.active",
      subscription: `sub-${i}`,
      plan: "pro",
      status: "active",
      devices: i,
      seats: null,
      start: created,
      created,
      modified: created,
    }));
    const first = new pg.Client({ connectionString: world.databaseUrl });
    await first.connect();
    try {
      await first.query("begin");
      await first.query(
        `select api.apply_subscription_event($1 || '~wait', $2, $3 || '~wait', 'user~wait', $1, 'pro', 'active', 1, 2,
                3, 1, null, $4, 'infinity', $4, $4)`,
        [newer!.webhook, newer!.kind, newer!.subscription, newer!.created],
      );
      const second = apply(world, older!, "~wait");
      await eventually("the second event waits", async () => {
        const { rows } = await world.sql.query(
          `select from pg_stat_activity
            where datname = current_database() and wait_event_type = 'Lock' and query like '%apply_subscription%'`,
        );
        return rows.length === 1;
      });
      await first.query("commit");
      await second;
    } finally {
      await first.end();
    }
    const { rows } = await world.sql.query("select public.state_of('~wait') as state");
    assert.deepEqual(rows[0].state, fold([older!, newer!]));
  });

  test("the shuffles meet what they are about: ties, several subscriptions, refunds before payments", () => {
    const random = makeRandom(SEED);
    const histories = Array.from({ length: HISTORIES }, () => makeHistory(random));
    const subscriptions = histories.map((events) => events.filter((each) => "subscription" in each));
    const ties = subscriptions.filter((events) =>
      events.some((a, i) =>
        events.slice(i + 1).some((b) => a.subscription === b.subscription && a.modified === b.modified)
      )
    );
    const several = subscriptions.filter((events) =>
      new Set(events.map((each) => each.subscription)).size > 1
    );
    const refunded = histories.filter((events) =>
      events.some((each) => each.kind === "order.paid") &&
      events.some((each) => each.kind === "order.refunded")
    );
    for (const [what, found] of Object.entries({ ties, several, refunded })) {
      assert.ok(found.length >= HISTORIES / 10, `${what}: ${found.length}`);
    }
    return Promise.resolve();
  });
});

async function applyAll(world: World, events: Event[], shuffles: number[][]): Promise<unknown[]> {
  const { rows } = await world.sql.query("select public.apply_shuffles($1::jsonb, $2::jsonb) as state", [
    JSON.stringify(events),
    JSON.stringify(shuffles),
  ]);
  return rows.map(({ state }) => state);
}

/** Applies one event as the service does, on a connection of its pool. */
async function apply(world: World, event: Event, mark: string): Promise<void> {
  const about = {
    p_webhook_id: event.webhook + mark,
    p_kind: event.kind,
    p_subject: `user${mark}`,
    p_modified_at: event.modified,
  };
  if ("order" in event) {
    const { order, credits, ppm } = event;
    const args = { ...about, p_order_id: order + mark, p_credits_milli: credits, p_refunded_ppm: ppm };
    return await world.platform.db.call("apply_order_event", args);
  }
  await world.platform.db.call("apply_subscription_event", {
    ...about,
    p_subscription_id: event.subscription + mark,
    p_customer_id: event.webhook,
    p_plan: event.plan,
    p_status: event.status,
    p_quota_sync_ops: 1,
    p_quota_storage_bytes: 2,
    p_quota_subkeys: 3,
    p_quota_devices: event.devices,
    p_seats: event.seats,
    p_period_start: event.start,
    p_period_end: "infinity",
    p_created_at: event.created,
  });
}

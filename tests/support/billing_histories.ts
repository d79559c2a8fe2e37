/** Histories of the payment provider's events, made at random, and what a set of them means. */

const KINDS = ["created", "active", "updated", "canceled", "revoked"];
const SCALING: Record<string, number> = { pro: 5, growth: 10, enterprise: 25 };
const PLANS = ["free", "hobby", "pro", "growth", "enterprise"];

/** An event about a subscription, as the database is told of it. */
export interface SubscriptionEvent {
  webhook: string;
  kind: string;
  subscription: string;
  plan: string;
  status: string;
  devices: number;
  seats: number | null;
  start: string;
  created: string;
  modified: string;
}

/** An event about an order of credits. */
export interface OrderEvent {
  webhook: string;
  kind: "order.paid" | "order.refunded";
  order: string;
  credits: number | null;
  ppm: number | null;
  modified: string;
}

/** Any event. */
export type Event = SubscriptionEvent | OrderEvent;

/** Small, fast and repeatable: mulberry32. */
export function makeRandom(seed: number): (below: number) => number {
  let state = seed >>> 0;
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ state >>> 15, 1 | state);
    mixed = mixed + Math.imul(mixed ^ mixed >>> 7, 61 | mixed) ^ mixed;
    return ((mixed ^ mixed >>> 14) >>> 0) % below;
  };
}

/** Few moments, so that many events have the same one. */
function moment(random: (below: number) => number): string {
  return `2026-0${1 + random(3)}-01T00:00:00.00000${random(3)}Z`;
}

/** Up to three subscriptions and two orders of one customer. */
export function makeHistory(random: (below: number) => number): Event[] {
  const pick = <T>(list: readonly T[]) => list[random(list.length)]!;
  let webhooks = 0;
  const webhook = () => `webhook-${String(webhooks++).padStart(3, "0")}-${random(2)}`;
  const subscriptions = Array.from(
    { length: 1 + random(3) },
    (_, i) => ({ id: `sub-${i}`, created: moment(random) }),
  );
  const events: Event[] = [];
  for (let i = 0; i < 1 + random(8); i++) {
    const { id, created } = pick(subscriptions);
    const kind = pick(KINDS);
    const ended = kind === "canceled" || kind === "revoked" || random(6) === 0;
    events.push({
      webhook: webhook(),
      kind: `subscription.${kind}`,
      subscription: id,
      plan: pick(PLANS),
      status: ended ? "canceled" : pick(["active", "past_due"]),
      devices: random(1_000),
      seats: random(3) === 0 ? null : random(50),
      start: moment(random),
      created,
      modified: moment(random),
    });
  }
  for (let i = 0; i < random(3); i++) {
    const order = `order-${i}`;
    const credits = 1 + random(1_000_000);
    for (let repeats = random(3); repeats > 0; repeats--) {
      events.push({
        webhook: webhook(),
        kind: "order.paid",
        order,
        credits,
        ppm: null,
        modified: moment(random),
      });
    }
    for (let repeats = random(4); repeats > 0; repeats--) {
      const ppm = random(4) === 0 ? 1_000_000 : 1 + random(1_000_000);
      events.push({
        webhook: webhook(),
        kind: "order.refunded",
        order,
        credits: null,
        ppm,
        modified: moment(random),
      });
    }
  }
  return events;
}

/** All of 0 to `count` - 1 in random order, some of them again. */
export function shuffle(count: number, random: (below: number) => number): number[] {
  const indices = Array.from({ length: count }, (_, i) => i);
  for (let again = random(count + 1); again > 0; again--) indices.push(random(count));
  for (let i = indices.length - 1; i > 0; i--) {
    const j = random(i + 1);
    [indices[i], indices[j]] = [indices[j]!, indices[i]!];
  }
  return indices;
}

/** The state that a set of events means. */
export function fold(events: readonly Event[]): Record<string, unknown> {
  const states = events.filter((each) => "subscription" in each);
  const newest = [...new Set(states.map(({ subscription }) => subscription))].map((id) =>
    maxBy(
      states.filter(({ subscription }) => subscription === id),
      ({ modified, kind, webhook }) => [modified, KINDS.indexOf(kind.slice("subscription.".length)), webhook],
    )
  );
  const best = maxBy(newest, ({ status, plan, created, subscription }) => [
    Number(status !== "canceled"),
    Number(plan !== "free"),
    created,
    subscription,
  ]);
  const live = best.status !== "canceled";
  const included = live ? SCALING[best.plan] ?? null : null;
  return {
    credits: sum(events.filter((each) => "order" in each)),
    period_start: live ? `${best.start.slice(0, 19)}.000Z` : null,
    plan: best.plan,
    status: best.status,
    devices: best.devices,
    seats: included === null ? null : best.seats ?? included,
    included,
    customer: best.webhook,
    subscription: best.subscription,
  };
}

function sum(events: readonly OrderEvent[]): number {
  let total = 0;
  for (const order of new Set(events.map(({ order }) => order))) {
    const own = events.filter((each) => each.order === order);
    const credits = own.find(({ credits }) => credits !== null)?.credits ?? 0;
    const ppm = Math.max(0, ...own.map(({ ppm }) => ppm ?? 0));
    total += credits - Number((BigInt(credits) * BigInt(ppm) + 999_999n) / 1_000_000n);
  }
  return total;
}

/** The element whose key, compared place by place, is the greatest. */
function maxBy<T>(list: readonly T[], key: (each: T) => (string | number)[]): T {
  return list.reduce((best, each) => {
    const [a, b] = [key(each), key(best)];
    const place = a.findIndex((value, i) => value !== b[i]);
    return place >= 0 && a[place]! > b[place]! ? each : best;
  });
}

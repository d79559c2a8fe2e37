/**
 * The purge and people's memory: whatever uploads do, and however many purges run among them, no object that a snapshot
 * names is ever removed, and none that nothing names is left.
 */

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import fc from "npm:fast-check@4.10.2";
import { retentionDays } from "../../supabase/functions/_shared/domain/retention.ts";
import type { BlobStore } from "../../supabase/functions/_shared/platform/mod.ts";
import { purge } from "../../supabase/functions/v2-agent-state/flows/purge.ts";
import { newProjectToken, snapshotBody } from "../support/factories.ts";
import { onEveryBackend, type World } from "../support/harness.ts";
import { endLeases } from "../support/jobs.ts";

/** What becomes of an upload. */
const FATES = [
  "stored",
  "refused",
  "stored, but not said so",
  "its worker dies before",
  "its worker dies after",
  "its lease ends meanwhile",
  "another takes its place",
] as const;
type Fate = typeof FATES[number];

const AGENTS = 4;
/** No grace: a purge takes what it may as soon as it may. */
const AT_ONCE = { ...retentionDays({}), failed_uploads: 0 };

onEveryBackend((test) => {
  test("no object that a snapshot names is removed, and none that nothing names is left", async (world) => {
    const step = fc.record({ agent: fc.nat(AGENTS - 1), fate: fc.constantFrom(...FATES) });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 12, maxLength: 28 }), async (steps) => {
        const storm = new Storm(world);
        await storm.rage(steps);
        await storm.assertSettled();
      }),
      { numRuns: 6, endOnFailure: true },
    );
  });
});

/** Agents that write at once, in one project, with purges running among them; every object is remembered. */
class Storm {
  readonly #world: World;
  readonly #token = newProjectToken();
  readonly #objects = new Map<string, Uint8Array>();
  readonly #platform: World["platform"];
  #raging = true;

  constructor(world: World) {
    this.#world = world;
    this.#platform = world.with({ blobs: { remove: (names) => this.#remove(names) } }).platform;
  }

  async rage(steps: readonly { agent: number; fate: Fate }[]): Promise<void> {
    const purging = [1, 2, 3].map(() => this.#purgeOn());
    try {
      await Promise.all(Array.from({ length: AGENTS }, async (_, agent) => {
        for (const { fate } of steps.filter((each) => each.agent === agent)) await this.#write(agent, fate);
      }));
    } finally {
      this.#raging = false;
    }
    await Promise.all(purging);
  }

  /** When all time is over: objects and confirmed snapshots are the same, byte for byte. */
  async assertSettled(): Promise<void> {
    await endLeases(this.#world);
    while ((await purge(this.#platform, AT_ONCE)).purged.failed_uploads > 0);
    await endLeases(this.#world);
    await purge(this.#platform, AT_ONCE);
    const named = await this.#named([...this.#objects.keys()]);
    for (const [name, bytes] of this.#objects) {
      const response = await fetch(this.#world.platform.blobs.publicUrl(name));
      const body = new Uint8Array(await response.arrayBuffer());
      if (named.has(name)) {
        assert.equal(response.status, 200, name);
        assert.deepEqual(body, bytes);
      } else assert.ok(response.status >= 400, `${name} is left`);
    }
    const { rows } = await this.#world.sql.query(
      "select 1 from app.snapshot_attempts where status <> 'confirmed'",
    );
    assert.equal(rows.length, 0);
  }

  async #write(agent: number, fate: Fate): Promise<void> {
    const body = await this.#nextBody(agent);
    if (fate === "another takes its place") {
      const { agent_id, sequence_number } = body;
      const rivals = [body, snapshotBody({ agent_id, sequence_number }, randomBytes(200))];
      await Promise.all(rivals.map((each) => this.#send(each)));
      return;
    }
    const { promise: died, resolve: die } = Promise.withResolvers<void>();
    await Promise.race([died, this.#send(body, (real) => this.#suffer(fate, real, die))]);
  }

  async #suffer(fate: Fate, store: () => Promise<void>, die: () => void): Promise<void> {
    if (fate === "refused") throw new Error("refused");
    if (fate === "its worker dies before") return await forEver(die);
    await store();
    if (fate === "stored, but not said so") throw new Error("500");
    if (fate === "its worker dies after") return await forEver(die);
    if (fate === "its lease ends meanwhile") {
      await endLeases(this.#world);
      await purge(this.#platform, AT_ONCE);
    }
  }

  async #send(body: object, around = (store: () => Promise<void>) => store()): Promise<void> {
    const put: BlobStore["put"] = (name, bytes) => {
      this.#objects.set(name, Uint8Array.from(bytes));
      return around(() => this.#world.platform.blobs.put(name, bytes));
    };
    const service = this.#world.with({ blobs: { put, remove: (names) => this.#remove(names) } });
    const { status, text } = await service.request("POST", "/snapshot", { token: this.#token, body });
    assert.ok([200, 409, 503].includes(status), text);
  }

  async #nextBody(agent: number): Promise<Record<string, unknown>> {
    const agent_id = `agent-${agent}`;
    const latest = await this.#world.request("GET", `/snapshot/${agent_id}/latest`, { token: this.#token });
    const sequence_number = latest.status === 404 ? 0 : latest.body.receipt.sequence_number + 1;
    return snapshotBody({ agent_id, sequence_number }, randomBytes(200));
  }

  /** Everything that removes objects comes through here, and is looked over. */
  async #remove(names: readonly string[]): Promise<void> {
    assert.deepEqual([...await this.#named(names)], [], "an object is removed that a snapshot names");
    await this.#world.platform.blobs.remove(names);
    assert.deepEqual([...await this.#named(names)], [], "a snapshot was confirmed whose object is removed");
  }

  async #named(names: readonly string[]): Promise<Set<string>> {
    const { rows } = await this.#world.sql.query(
      "select object_name from app.snapshots where object_name = any ($1)",
      [names],
    );
    return new Set(rows.map(({ object_name }) => object_name));
  }

  async #purgeOn(): Promise<void> {
    while (this.#raging) {
      await purge(this.#platform, AT_ONCE);
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 10));
    }
  }
}

function forEver(die: () => void): Promise<never> {
  die();
  return new Promise(() => {});
}

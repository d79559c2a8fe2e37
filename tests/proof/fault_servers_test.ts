/** The proxy before Postgres and the store that fails do to a call exactly what they say. */

import assert from "node:assert/strict";
import { openDirectDatabase } from "../../supabase/functions/_shared/platform/database_direct.ts";
import { ApiError } from "../../supabase/functions/_shared/errors.ts";
import { eventually } from "../support/eventually.ts";
import { onOneBackend, type World } from "../support/harness.ts";
import { type Moment, startWireProxy } from "../support/wire_proxy.ts";

/** Grants credit to somebody new through a connection string; what came back, and how often it happened. */
async function grantThrough(world: World, url: string): Promise<{ error: string | undefined; done: number }> {
  const { db, close } = openDirectDatabase({
    url,
    poolSize: 2,
    prepared: true,
    role: "service_role",
    log() {},
  });
  const reference = crypto.randomUUID();
  const error = await db.call("grant_credits", {
    p_subject: `user-${reference}`,
    p_amount_milli: 5,
    p_actor: "test",
    p_note: "x",
    p_reference: reference,
  }).then(() => undefined, (thrown) => thrown instanceof ApiError ? thrown.code : String(thrown));
  await close();
  const { rows } = await world.sql.query(
    "select count(*)::int as done from app.credit_ledger where reference = $1",
    [reference],
  );
  return { error, done: rows[0].done };
}

/** What is left of a call whose every try is broken at a moment. */
const LEFT: Record<Exclude<Moment, "stalled">, number> = {
  "unsent": 0,
  "uncommitted": 0,
  "unanswered": 1,
  "half answered": 1,
};

onOneBackend((test) => {
  test("the proxy changes nothing while it has no fault", async (world) => {
    await using proxy = startWireProxy(world.databaseUrl);
    assert.deepEqual(await grantThrough(world, proxy.url), { error: undefined, done: 1 });
    assert.deepEqual(proxy.calls, ["grant_credits"]);
  });

  for (const [moment, done] of Object.entries(LEFT) as [Moment, number][]) {
    test(`a call that is always cut ${moment} is 503, and has happened ${done} times`, async (world) => {
      await using proxy = startWireProxy(world.databaseUrl);
      const fault = proxy.inject({ call: "grant_credits", moment });
      assert.deepEqual(await grantThrough(world, proxy.url), { error: "service_unavailable", done });
      assert.equal(fault.hits, 3, "the driver tries three times");
    });

    test(`a call that is cut ${moment} once is made good by its repetition`, async (world) => {
      await using proxy = startWireProxy(world.databaseUrl);
      proxy.inject({ call: "grant_credits", moment, times: 1 });
      assert.deepEqual(await grantThrough(world, proxy.url), { error: undefined, done: 1 });
    });
  }

  test("a call that is cut when it has run but not committed did run, and is rolled back", async (world) => {
    await world.sql.query("create sequence if not exists public.ran");
    await world.sql.query(`create or replace function api.probe() returns jsonb language sql security definer
      as 'select to_jsonb(nextval(''public.ran''))';
      revoke execute on function api.probe() from public; grant execute on function api.probe() to service_role`);
    await using proxy = startWireProxy(world.databaseUrl);
    proxy.inject({ moment: "uncommitted" });
    const options = { url: proxy.url, poolSize: 1, prepared: true, log() {} };
    const { db, close } = openDirectDatabase(options);
    await assert.rejects(db.call("probe", {}));
    await close();
    const { rows: [{ last_value }] } = await world.sql.query("select last_value::int from public.ran");
    assert.equal(last_value, 3);
  });

  test("a call that is stalled goes on when the fault is lifted", async (world) => {
    await using proxy = startWireProxy(world.databaseUrl);
    const fault = proxy.inject({ moment: "stalled" });
    const granting = grantThrough(world, proxy.url);
    await eventually("the call is held", () => fault.hits > 0);
    fault.lift();
    assert.deepEqual(await granting, { error: undefined, done: 1 });
  });

  test("a proxy that refuses connections makes the database unavailable until it takes them again", async (world) => {
    await using proxy = startWireProxy(world.databaseUrl);
    proxy.refusing = true;
    assert.deepEqual(await grantThrough(world, proxy.url), { error: "service_unavailable", done: 0 });
    proxy.refusing = false;
    assert.deepEqual(await grantThrough(world, proxy.url), { error: undefined, done: 1 });
  });
});

/** Credits that are bought: topped up once for each order, taken back with its refund. Spec 6. */

import assert from "node:assert/strict";
import { onEveryBackend, onOneBackend } from "../support/harness.ts";
import { creditsOf, event, order, post, take, userOf, withSettings } from "../support/polar.ts";
import { assertRefused } from "../support/teams.ts";

onEveryBackend((test) => {
  test("a paid order of a credit pack tops up once, and a refund takes it back", async (world) => {
    const data = order({ product: { metadata: { credits_milli: "250000" } } });
    const user = userOf(data);
    assert.equal(await take(world, "order.paid", data), "applied");
    assert.equal(await creditsOf(world, user), 250_000);
    assert.equal(await take(world, "order.paid", data), "applied", "another event of the same payment");
    assert.equal(await creditsOf(world, user), 250_000);

    const refund = { ...data, status: "partially_refunded", refunded_amount: 300 };
    for (let i = 0; i < 3; i++) await take(world, "order.refunded", refund);
    assert.equal(await creditsOf(world, user), 175_000);
    await take(world, "order.refunded", { ...data, status: "refunded", refunded_amount: 1_000 });
    await take(world, "order.refunded", refund);
    assert.equal(await creditsOf(world, user), 0);
    const { rows } = await world.sql.query(
      `select kind, amount_milli::int as amount from app.credit_ledger l join app.accounts a on a.id = l.account_id
        where a.subject = $1 order by l.id`,
      [user],
    );
    assert.deepEqual(rows.map(({ kind, amount }) => [kind, amount]), [
      ["purchase", 250_000],
      ["purchase_refund", -75_000],
      ["purchase_refund", -175_000],
    ]);
  });

  test("a refund takes no more than is left, and one that comes before its payment is remembered", async (world) => {
    const data = order();
    const user = userOf(data);
    await take(world, "order.paid", data);
    await world.sql.query(
      `with spent as (update app.accounts set credits_milli = credits_milli - 900045 where subject = $1 returning id)
       insert into app.credit_ledger (account_id, kind, amount_milli, bytes)
       select id, 'replication', -900045, 20001000 from spent`,
      [user],
    );
    const refund = { ...data, status: "refunded" };
    await take(world, "order.refunded", refund);
    assert.equal(await creditsOf(world, user), 0);
    await take(world, "order.paid", order({ customer: data.customer }));
    await take(world, "order.refunded", refund);
    assert.equal(await creditsOf(world, user), 1_000_000, "what was not there is not taken later");

    const early = order();
    await take(world, "order.refunded", { ...early, status: "partially_refunded", refunded_amount: 400 });
    assert.equal(await creditsOf(world, userOf(early)), 0);
    await take(world, "order.paid", early);
    assert.equal(await creditsOf(world, userOf(early)), 600_000);
  });

  test("16 copies of an event at once count as one", async (world) => {
    const data = order();
    const body = event("order.paid", data);
    const service = withSettings(world, {});
    const id = `msg_${crypto.randomUUID()}`;
    const answers = await Promise.all(Array.from({ length: 16 }, () => post(service, body, { id })));
    const outcomes = answers.map(({ status, body }) => `${status} ${body.outcome}`).sort();
    assert.deepEqual(outcomes, ["200 applied", ...Array(15).fill("200 duplicate")]);
    await Promise.all(Array.from({ length: 16 }, () => post(service, body)));
    assert.equal(await creditsOf(world, userOf(data)), 1_000_000);
  });
});

onOneBackend((test) => {
  test("an event whose transaction is undone is as good as new when it comes again", async (world) => {
    const data = order();
    const body = event("order.paid", data);
    const id = `msg_${crypto.randomUUID()}`;
    const service = withSettings(world, {});
    await world.sql.query(`
      create function public.run_out_of_disk() returns trigger language plpgsql as $$
      begin raise exception using errcode = '53100'; end $$;
      create constraint trigger fails_at_commit after insert on app.credit_ledger deferrable initially deferred
        for each row execute function public.run_out_of_disk()`);
    assertRefused(await post(service, body, { id }), 503, "service_unavailable");
    await world.sql.query("drop trigger fails_at_commit on app.credit_ledger");
    assert.equal(await creditsOf(world, userOf(data)), 0);
    assert.equal((await post(service, body, { id })).body.outcome, "applied");
    assert.equal((await post(service, body, { id })).body.outcome, "duplicate");
    assert.equal(await creditsOf(world, userOf(data)), 1_000_000);
  });
});

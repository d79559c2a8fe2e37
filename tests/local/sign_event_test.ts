/** `deno task sign-event` against a running stack: what the README's section on billing shows. */

import assert from "node:assert/strict";
import { runCommand, startService, withDataDir } from "../support/service.ts";

Deno.test({
  name: "a signed event makes an account pro, a pack adds credits, and a stopped stack is named",
  sanitizeOps: false,
  sanitizeResources: false,
  fn: () =>
    withDataDir(async (dataDir) => {
      const service = startService(dataDir);
      const { url } = await service.ready();
      const signEvent = (...args: string[]) => runCommand("sign_event", args, dataDir);
      const session = (await runCommand("session", ["al'ice"], dataDir)).output.split("\n").at(-1);
      const plan = async () => {
        const answer = await fetch(`${url}/functions/v1/v2-agent-state/billing/subscription`, {
          headers: { authorization: `Bearer ${session}` },
        });
        const { subscription } = await answer.json();
        return [subscription.plan, subscription.status, subscription.seat_count];
      };

      assert.deepEqual(await plan(), ["free", "active", undefined]);
      const active = await signEvent(
        "subscription.active",
        "--user",
        "al'ice",
        "--plan",
        "pro",
        "--seats",
        "7",
      );
      assert.deepEqual(active, { code: 0, output: '200 {"received":true,"outcome":"applied"}' });
      assert.deepEqual(await plan(), ["pro", "active", 7]);
      await signEvent("subscription.canceled", "--user", "al'ice", "--plan", "pro");
      assert.deepEqual(await plan(), ["pro", "canceled", undefined]);

      await signEvent("order.paid", "--user", "al'ice", "--credits", "5000", "--id", "pack-1");
      assert.match((await runCommand("credits", ["al'ice"], dataDir)).output, /has 5000 milli-cents/);

      const { output: curl } = await signEvent(
        "order.refunded",
        "--user",
        "al'ice",
        "--id",
        "pack-1",
        "--print",
      );
      const { stdout } = await new Deno.Command("sh", { args: ["-c", curl], stderr: "null" }).output();
      assert.equal(new TextDecoder().decode(stdout), '{"received":true,"outcome":"applied"}');
      assert.match((await runCommand("credits", ["al'ice"], dataDir)).output, /has 0 milli-cents/);

      assert.match((await signEvent()).output, /^Name one kind of event\.\nUsage: /);
      assert.match((await signEvent("order.paid")).output, /^Name a user\.\nUsage: /);
      service.kill("SIGTERM");
      await service.exit;
      const late = await signEvent("order.paid", "--user", "al'ice");
      assert.equal(late.code, 1);
      assert.match(late.output, /^Nothing is running on /);
    }),
});

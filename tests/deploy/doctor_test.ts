/** `deno task doctor` as people run it: on a stack that runs, on one that was killed, and on none. */

import assert from "node:assert/strict";
import { join } from "node:path";
import { eventually } from "../support/eventually.ts";
import { runCommand, startService, withDataDir } from "../support/service.ts";

Deno.test("doctor: green on the local stack with status 0, red with status 1 once it is killed", () =>
  withDataDir(async (dataDir) => {
    const none = await runCommand("doctor", [], dataDir);
    assert.deepEqual([none.code, /Nothing is running on/.test(none.output)], [2, true]);

    const service = startService(dataDir);
    const { url } = await service.ready();
    // Its jobs run as soon as it serves.
    const green = await eventually("all is well", async () => {
      const seen = await runCommand("doctor", [], dataDir);
      return seen.code === 0 ? seen : undefined;
    });
    assert.match(green.output, /^Healthy: \d+ checks/m);
    assert.match(green.output, /^✓ durability {7}what is committed is on disk$/m);
    assert.match(green.output, /^✓ jobs have run/m);
    assert.doesNotMatch(green.output, /^✗/m);

    const outside = await runCommand("doctor", ["--url", `${url}/functions/v1/v2-agent-state/`], dataDir);
    assert.equal(outside.code, 0, outside.output);
    const file = join(dataDir, "settings.env");
    await Deno.writeTextFile(file, "CRON_SECRET=change-me-change-me\n");
    const settings = await runCommand("doctor", ["--env", file], dataDir);
    assert.deepEqual([settings.code, /✗ CRON_SECRET set/.test(settings.output)], [1, true], settings.output);

    service.kill("SIGKILL");
    await service.exit;
    const red = await runCommand("doctor", ["--url", url], dataDir);
    assert.equal(red.code, 1);
    assert.match(red.output, /^✗ function state +cannot be reached: .*\n +→ Is the address right/m);
    assert.match(red.output, /^Unfit: 1 of 2 checks failed\.$/m);
    assert.equal((await runCommand("doctor", ["--nonsense"], dataDir)).code, 2);
  }));

/** With timing switched on, an answer says where its time went. */

import assert from "node:assert/strict";
import { chunk, newProjectToken, replicateBody } from "../support/factories.ts";
import { onOneBackend } from "../support/harness.ts";

onOneBackend((test) => {
  test("Server-Timing splits an append into its parts, which add up to no more than the whole", async (world) => {
    const service = world.with({ settings: { serverTiming: true } });
    const body = replicateBody(chunk(0, new Uint8Array(100_000)));
    const { status, headers } = await service.request("POST", "/replicate", {
      token: newProjectToken(),
      body,
    });
    assert.equal(status, 200);
    const header = headers.get("server-timing")!;
    const entries = header.matchAll(/(\w+);dur=([0-9.]+)/g);
    const spent = new Map(Array.from(entries, ([, name, ms]) => [name, Number(ms)]));
    for (const part of ["parse", "decode", "hash", "database", "encode"]) {
      assert.ok(spent.get(part)! >= 0, `${part} in ${header}`);
    }
    const total = spent.get("total")!;
    const parts = [...spent].filter(([name]) => name !== "total").reduce((sum, [, ms]) => sum + ms, 0);
    // Each is rounded to a tenth of a millisecond.
    assert.ok(parts <= total + 0.5, header);
  });
});

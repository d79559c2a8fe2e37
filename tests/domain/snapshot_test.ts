/** The names of snapshots: clients see the formula of the spec, the bucket sees nothing that a client chose. */

import assert from "node:assert/strict";
import fc from "npm:fast-check@4.10.2";
import { objectName, storagePath } from "../../supabase/functions/v2-agent-state/domain/snapshot.ts";

const HASH = "0123456789abcdef".repeat(4);
const ATTEMPT = "3f0c8a1e-5b7d-4c2a-9e6f-0123456789ab";
const PIECES = /^(?:[0-9A-Za-z_-]|=[0-9A-F]{2})+$/;

const anyAgent = fc.oneof(
  fc.string({ unit: "binary", minLength: 1, maxLength: 300 }),
  fc.string({ unit: "grapheme", minLength: 1, maxLength: 300 }),
  fc.string({
    unit: fc.constantFrom(".", "/", "\\", "=", "%", "\0", "\ud800", "a"),
    minLength: 1,
    maxLength: 60,
  }),
);
const sequence = fc.nat({ max: Number.MAX_SAFE_INTEGER });

Deno.test("the storage path is the spec's formula", () => {
  assert.equal(storagePath("agent_a1b2c3", 0, HASH), "agent_a1b2c3/seq-0-0123456789ab.bin");
  assert.equal(storagePath("a/../b", 17, HASH), "a/../b/seq-17-0123456789ab.bin");
});

const OBJECTS: [agent: string, escaped: string][] = [
  ["agent_a1-B2", "agent_a1-B2"],
  [".", "=2E"],
  ["..", "=2E=2E"],
  ["../../other", "=2E=2E=2F=2E=2E=2Fother"],
  ["a/b", "a=2Fb"],
  ["a=2Fb", "a=3D2Fb"],
  ["a b", "a=20b"],
  ["%2e", "=252e"],
  ["€", "=E2=82=AC"],
  ["x".repeat(300), "x".repeat(100)],
  ["x".repeat(99) + "/", "x".repeat(99)],
];

for (const [agent, escaped] of OBJECTS) {
  Deno.test(`the agent ${JSON.stringify(agent.slice(0, 12))} (${agent.length}) is escaped in its object's name`, () => {
    assert.equal(objectName(ATTEMPT, agent, 3, HASH), `${ATTEMPT}/${escaped}/seq-3-0123456789ab.bin`);
  });
}

Deno.test("an object's name holds only safe characters and no empty or dot segment, for any agent", () => {
  fc.assert(
    fc.property(anyAgent, sequence, (agent, number) => {
      const name = objectName(ATTEMPT, agent, number, HASH);
      assert.match(name, /^[A-Za-z0-9_=/.-]+$/);
      const segments = name.split("/");
      assert.equal(segments.length, 3);
      assert.ok(segments.every((segment) => segment !== "" && segment !== "." && segment !== ".."));
      assert.equal(segments[0], ATTEMPT);
      assert.equal(new URL(`https://h/${name}`).pathname, `/${name}`);
    }),
    { numRuns: 2_000 },
  );
});

Deno.test("an agent too long for its object's name is cut between characters, never inside an escape", () => {
  fc.assert(fc.property(anyAgent, (agent) => {
    const escaped = objectName(ATTEMPT, agent, 0, HASH).split("/")[1]!;
    assert.match(escaped, PIECES);
    assert.ok(escaped.length <= 100);
  }));
});

Deno.test("short agents that differ have objects that differ", () => {
  const short = fc.string({ unit: "grapheme", minLength: 1, maxLength: 6 }).filter((text) =>
    text.isWellFormed()
  );
  const fits = short.filter((text) => new TextEncoder().encode(text).length <= 33);
  fc.assert(fc.property(fits, fits, (a, b) => {
    const same = objectName(ATTEMPT, a, 0, HASH) === objectName(ATTEMPT, b, 0, HASH);
    assert.equal(same, a === b);
  }));
});

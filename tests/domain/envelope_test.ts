/** Packed blocks taken apart: nothing is lost, and the initialisation vector comes first. */

import assert from "node:assert/strict";
import fc from "npm:fast-check@4.10.2";
import { splitPackedBlock } from "../../supabase/functions/v2-agent-state/domain/envelope.ts";

Deno.test("the first twelve bytes are the initialisation vector and the rest is the ciphertext", () => {
  const block = Uint8Array.from({ length: 40 }, (_, i) => i);
  const { iv, ciphertext } = splitPackedBlock(block);
  assert.deepEqual([...iv], [...block.slice(0, 12)]);
  assert.deepEqual([...ciphertext], [...block.slice(12)]);
});

Deno.test("the two parts put together are the block, however short it is", () => {
  fc.assert(fc.property(fc.uint8Array({ maxLength: 100 }), (block) => {
    const { iv, ciphertext } = splitPackedBlock(block);
    assert.equal(iv.length, Math.min(12, block.length));
    assert.deepEqual([...iv, ...ciphertext], [...block]);
  }));
});

/** The rules of a replication request, against slower ones that are plainly right. */

import assert from "node:assert/strict";
import fc from "npm:fast-check@4.10.2";
import { encodeHex, sha256 } from "../../supabase/functions/_shared/domain/bytes.ts";
import {
  arrangeChunks,
  type Chunk,
  findContradictions,
} from "../../supabase/functions/v2-agent-state/domain/replication.ts";

function chunk(sequence: number, text: string): Chunk {
  const block = new TextEncoder().encode(text);
  return { sequence, block, blockHash: sha256(block), payloadHash: null, timestamp: null };
}

function show(chunks: readonly Chunk[]): string[] {
  return chunks.map((each) => `${each.sequence}:${new TextDecoder().decode(each.block)}`);
}

const requests = fc.array(
  fc.record({ sequence: fc.nat({ max: 8 }), text: fc.constantFrom("a", "b", "c") }),
  { minLength: 1, maxLength: 12 },
).map((parts) => parts.map(({ sequence, text }) => chunk(sequence, text)));

Deno.test("chunks are put in order, and one that is sent twice counts once", () => {
  const sent = [chunk(2, "c"), chunk(0, "a"), chunk(1, "b"), chunk(0, "a"), chunk(2, "c")];
  assert.deepEqual(show(arrangeChunks(sent)), ["0:a", "1:b", "2:c"]);
  assert.deepEqual(show(sent), ["2:c", "0:a", "1:b", "0:a", "2:c"], "the request itself is left as it was");
});

Deno.test("arranging keeps every block that was sent, sorted, and invents none", () => {
  fc.assert(fc.property(requests, (sent) => {
    const arranged = arrangeChunks(sent);
    assert.deepEqual(new Set(show(arranged)), new Set(show(sent)));
    assert.ok(arranged.every((each, i) => i === 0 || arranged[i - 1]!.sequence <= each.sequence));
  }));
});

Deno.test("a request contradicts itself exactly when two blocks claim one sequence", () => {
  fc.assert(fc.property(requests, (sent) => {
    const blocks = new Map<number, Set<string>>();
    for (const each of sent) {
      blocks.set(each.sequence, (blocks.get(each.sequence) ?? new Set()).add(encodeHex(each.blockHash)));
    }
    const expected = [...blocks].filter(([, hashes]) => hashes.size > 1).map(([sequence]) => sequence);
    const found = findContradictions(arrangeChunks(sent));
    assert.deepEqual(new Set(found.map(({ kept }) => kept.sequence)), new Set(expected));
    for (const { kept, other } of found) {
      assert.equal(kept.sequence, other.sequence);
      assert.notEqual(encodeHex(kept.blockHash), encodeHex(other.blockHash));
    }
  }));
});

Deno.test("without contradictions each sequence is left once", () => {
  fc.assert(fc.property(requests, (sent) => {
    const arranged = arrangeChunks(sent);
    fc.pre(findContradictions(arranged).length === 0);
    assert.equal(new Set(arranged.map((each) => each.sequence)).size, arranged.length);
  }));
});

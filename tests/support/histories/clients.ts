/** Concurrent clients that write down what they asked and what they were told. */

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { chunk, replicateBody, sha256Hex, snapshotBody } from "../factories.ts";
import type { Answer, RequestOptions } from "../harness.ts";
import type { Chance } from "../chance.ts";
import type { Event } from "./checker.ts";
import type { LogInput, LogOutput } from "./replication.ts";
import type { SnapshotInput, SnapshotOutput } from "./snapshots.ts";

/** Sends a request; undefined when there was no answer. */
export type Send = (method: string, path: string, options?: RequestOptions) => Promise<Answer | undefined>;

/** Different contents that clients try to put at one place: few, so that they collide and agree alike. */
const RIVALS = 2;
const CHUNKS_MAX = 3;

/** What all clients of one history share. */
interface Shared {
  send: Send;
  token: string;
  chance: Chance;
  /** The highest place that anybody knows of; clients aim near it. */
  head: number;
}

/** A request of one kind of history: how it is sent, and what its answer says. */
interface Speech<Input, Output> {
  next(shared: Shared): Input;
  ask(shared: Shared, input: Input): Promise<Answer | undefined>;
  /** Undefined when the answer does not say what became of it. */
  understand(answer: Answer, input: Input): Output | undefined;
  headOf(output: Output): number | undefined;
}

/** Runs clients at once, each one request after another, and returns all that they were told. */
export async function recordHistory<Input, Output>(
  speech: Speech<Input, Output>,
  options: { send: Send; token: string; chance: Chance; clients: number; requests: number },
): Promise<Event<Input, Output>[]> {
  const shared: Shared = { ...options, head: -1 };
  const history: Event<Input, Output>[] = [];

  async function tell(client: number, input: Input): Promise<boolean> {
    const called = performance.now();
    const answer = await speech.ask(shared, input);
    const returned = performance.now();
    const output = answer === undefined ? undefined : speech.understand(answer, input);
    history.push({ client, input, output, called, returned });
    if (output === undefined) return false;
    shared.head = Math.max(shared.head, speech.headOf(output) ?? -1);
    return true;
  }

  async function run(client: number): Promise<void> {
    for (let sent = 0; sent < options.requests; sent++) {
      const input = speech.next(shared);
      // Who is not told what became of it asks again, sooner or later.
      if (!await tell(client, input) && shared.chance.one(2)) await tell(client, input);
    }
  }

  await Promise.all(Array.from({ length: options.clients }, (_, client) => run(client)));
  return history;
}

/** An answer that leaves everything open: no service, or none in time. Anything else unexpected is an error. */
function isOpen(answer: Answer): boolean {
  if (answer.status === 503) return true;
  assert.ok(answer.status < 500, answer.text);
  return false;
}

/** Snapshots of one agent. A payload's hash is that of the ciphertext, so that what is kept can be looked at. */
export function speakOfSnapshots(agent: string): Speech<SnapshotInput, SnapshotOutput> {
  const contents = new Map<string, Uint8Array>();
  return {
    next({ chance, head }) {
      if (chance.one(3)) {
        return chance.pick([{ kind: "latest" }, { kind: "at", sequence: chance.below(head + 2) }, {
          kind: "lineage",
        }]);
      }
      // Mostly what comes next, sometimes what is there, what was there, or what cannot be yet.
      const sequence = Math.max(head + chance.pick([1, 1, 1, 1, 0, -1, 2]), 0);
      const bytes = new TextEncoder().encode(`${agent} ${sequence} ${chance.below(RIVALS)}`);
      contents.set(sha256Hex(bytes), bytes);
      return { kind: "push", sequence, hash: sha256Hex(bytes) };
    },
    ask({ send, token }, input) {
      switch (input.kind) {
        case "push": {
          const over = { agent_id: agent, sequence_number: input.sequence, client_payload_hash: input.hash };
          return send("POST", "/snapshot", { token, body: snapshotBody(over, contents.get(input.hash)) });
        }
        case "latest":
          return send("GET", `/snapshot/${agent}/latest`, { token });
        case "at":
          return send("GET", `/snapshot/${agent}/${input.sequence}`, { token });
        case "lineage":
          return send("GET", `/snapshot/${agent}/lineage?limit=500`, { token });
      }
    },
    understand(answer, input) {
      if (isOpen(answer)) return undefined;
      const { status, body } = answer;
      if (input.kind === "push" && status === 200) {
        assert.deepEqual([body.sequence_number, body.client_payload_hash], [input.sequence, input.hash]);
        return { kind: "stored" };
      }
      if (body.error === "sequence_conflict") {
        return { kind: "conflict", existing: body.existing_payload_hash };
      }
      if (body.error === "sequence_gap") return { kind: "gap", head: body.head };
      if (status === 404) return { kind: "none" };
      assert.equal(status, 200, answer.text);
      if (input.kind !== "lineage") {
        return {
          kind: "snapshot",
          sequence: body.receipt.sequence_number,
          hash: body.receipt.client_payload_hash,
        };
      }
      const hashes = body.map((entry: { client_payload_hash: string }) => entry.client_payload_hash)
        .reverse();
      return { kind: "hashes", hashes };
    },
    headOf(output) {
      if (output.kind === "snapshot") return output.sequence;
      if (output.kind === "gap") return output.head ?? -1;
      return output.kind === "hashes" ? output.hashes.length - 1 : undefined;
    },
  };
}

/** One replication log, which begins at number 0. */
export function speakOfLog(name: string): Speech<LogInput, LogOutput> {
  const blockOf = (sequence: number, rival: number) => `${name} ${sequence} ${rival}`;
  const contents = new Map<string, string>();
  return {
    next({ chance, head }) {
      if (chance.one(3)) {
        return chance.pick([{ kind: "head" }, {
          kind: "replay",
          since: chance.pick([-1, Math.max(head - 2, 1)]),
        }]);
      }
      // A log may begin with number 1; these all begin with 0.
      const from = head < 0 ? 0 : Math.max(head + chance.pick([1, 1, 1, 0, -1, 2]), 0);
      const hashes = Array.from({ length: 1 + chance.below(CHUNKS_MAX) }, (_, i) => {
        const block = blockOf(from + i, chance.below(RIVALS * 2) % RIVALS);
        contents.set(sha256Hex(block), block);
        return sha256Hex(block);
      });
      return {
        kind: "append",
        from: from === 1 && head < 1 ? 0 : from,
        hashes: from === 1 && head < 1 ? [hashes[0]!] : hashes,
      };
    },
    ask({ send, token }, input) {
      switch (input.kind) {
        case "append": {
          const chunks = input.hashes.map((hash, i) => chunk(input.from + i, contents.get(hash)!));
          return send("POST", "/replicate", { token, body: replicateBody(...chunks) });
        }
        case "head":
          return send("GET", "/head", { token });
        case "replay":
          return send("GET", `/replay?since=${input.since}`, { token });
      }
    },
    understand(answer, input) {
      if (isOpen(answer)) return undefined;
      const { status, body } = answer;
      if (body.error === "sequence_gap") return { kind: "gap", head: body.head };
      if (body.error === "split_brain_detected") {
        type Conflict = { sequence_number: number; existing_block_hash: string };
        const conflicts = body.conflicts.map((
          each: Conflict,
        ) => [each.sequence_number, each.existing_block_hash]);
        return { kind: "split brain", conflicts };
      }
      if (status === 404) return { kind: "empty" };
      assert.equal(status, 200, answer.text);
      if (input.kind === "head") return { kind: "head", head: body.sequence_number };
      if (input.kind === "replay") return readBlocks(body.chunks, input.since);
      if (body.idempotent === true) return { kind: "idempotent" };
      return { kind: "accepted", count: body.accepted, head: body.sequence_number };
    },
    headOf(output) {
      if (output.kind === "accepted" || output.kind === "head") return output.head;
      if (output.kind === "gap") return output.head ?? -1;
      return output.kind === "blocks" ? output.from + output.hashes.length - 1 : undefined;
    },
  };
}

function readBlocks(
  chunks: { sequence_number: number; block_hash: string; ciphertext_b64: string }[],
  since: number,
): LogOutput {
  for (const each of chunks) {
    const bytes = Uint8Array.fromBase64(each.ciphertext_b64);
    assert.equal(createHash("sha256").update(bytes).digest("hex"), each.block_hash, "bytes out are bytes in");
  }
  const from = chunks[0]?.sequence_number ?? since + 1;
  return { kind: "blocks", from, hashes: chunks.map(({ block_hash }) => block_hash) };
}

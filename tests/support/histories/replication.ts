/** A replication log as a sequential machine: the hashes of its blocks, from number 0. */

import type { Model } from "./checker.ts";

/** What a client asks. */
export type LogInput =
  /** Blocks from a sequence on, in one request. */
  | { kind: "append"; from: number; hashes: string[] }
  | { kind: "head" }
  /** Everything after a sequence; -1 is from the start. */
  | { kind: "replay"; since: number };

/** What it is told. */
export type LogOutput =
  | { kind: "accepted"; count: number; head: number }
  /** All of it was there already. */
  | { kind: "idempotent" }
  | { kind: "split brain"; conflicts: [sequence: number, existing: string][] }
  | { kind: "gap"; head: number | null }
  | { kind: "empty" }
  | { kind: "head"; head: number }
  | { kind: "blocks"; from: number; hashes: string[] };

type Hashes = readonly string[];

/** Design section 4: all or none, what is there is skipped, what differs refuses, no gap. */
export const REPLICATION: Model<Hashes, LogInput, LogOutput> = {
  initial: [],

  step(log, input, output) {
    if (input.kind === "head") {
      const fits = output.kind === "head"
        ? output.head === log.length - 1
        : output.kind === "empty" && log.length === 0;
      return fits ? log : undefined;
    }
    if (input.kind === "replay") {
      const blocks = log.slice(input.since + 1);
      const fits = output.kind === "blocks" && equal(blocks, output.hashes) &&
        (blocks.length === 0 || output.from === input.since + 1);
      return fits ? log : undefined;
    }
    const expected = append(log, input.from, input.hashes);
    // The service repeats a call whose answer it lost; what it wrote the first time is then there already.
    if (output.kind === "idempotent" && expected.output.kind === "accepted") return expected.log;
    return JSON.stringify(expected.output) === JSON.stringify(output) ? expected.log : undefined;
  },

  unknown(log, input) {
    if (input.kind !== "append") return [];
    const { output, log: next } = append(log, input.from, input.hashes);
    return output.kind === "accepted" ? [next] : [];
  },

  key: (log) => log.join(","),
};

/** What an append must be answered, and what it leaves. */
function append(log: Hashes, from: number, hashes: string[]): { output: LogOutput; log: Hashes } {
  const conflicts = hashes.flatMap((hash, i): [number, string][] => {
    const existing = log[from + i];
    return existing === undefined || existing === hash ? [] : [[from + i, existing]];
  });
  if (conflicts.length > 0) return { output: { kind: "split brain", conflicts }, log };
  if (from > log.length) {
    return { output: { kind: "gap", head: log.length === 0 ? null : log.length - 1 }, log };
  }
  const fresh = hashes.slice(log.length - from);
  if (fresh.length === 0) return { output: { kind: "idempotent" }, log };
  const next = [...log, ...fresh];
  return { output: { kind: "accepted", count: fresh.length, head: next.length - 1 }, log: next };
}

function equal(a: Hashes, b: Hashes): boolean {
  return a.length === b.length && a.every((hash, i) => hash === b[i]);
}

/** One agent's snapshots as a sequential machine: the payload hashes of 0 to its head. */

import type { Model } from "./checker.ts";

/** What a client asks. */
export type SnapshotInput =
  | { kind: "push"; sequence: number; hash: string }
  | { kind: "latest" }
  | { kind: "at"; sequence: number }
  | { kind: "lineage" };

/** What it is told. */
export type SnapshotOutput =
  | { kind: "stored" }
  /** Another hash is there. */
  | { kind: "conflict"; existing: string }
  | { kind: "gap"; head: number | null }
  | { kind: "none" }
  | { kind: "snapshot"; sequence: number; hash: string }
  | { kind: "hashes"; hashes: string[] };

type Hashes = readonly string[];

/** Design section 4: the first confirmed wins, equal hashes share it, and only confirmed ones are ever served. */
export const SNAPSHOTS: Model<Hashes, SnapshotInput, SnapshotOutput> = {
  initial: [],

  step(hashes, input, output) {
    const head = hashes.length - 1;
    switch (output.kind) {
      case "stored": {
        if (input.kind !== "push") return undefined;
        if (input.sequence === head + 1) return [...hashes, input.hash];
        return input.sequence === head && hashes[head] === input.hash ? hashes : undefined;
      }
      case "conflict": {
        const existing = input.kind === "push" ? hashes[input.sequence] : undefined;
        const fits = input.kind === "push" && existing === output.existing && existing !== input.hash;
        return fits ? hashes : undefined;
      }
      case "gap": {
        if (input.kind !== "push" || output.head !== (head < 0 ? null : head)) return undefined;
        const older = input.sequence < head && hashes[input.sequence] === input.hash;
        return input.sequence > head + 1 || older ? hashes : undefined;
      }
      case "none": {
        const sequence = input.kind === "at" ? input.sequence : 0;
        return input.kind !== "push" && hashes[sequence] === undefined ? hashes : undefined;
      }
      case "snapshot": {
        const asked = input.kind === "latest" ? head : input.kind === "at" ? input.sequence : undefined;
        return asked === output.sequence && hashes[asked] === output.hash ? hashes : undefined;
      }
      case "hashes":
        return input.kind === "lineage" && equal(hashes, output.hashes) ? hashes : undefined;
    }
  },

  unknown(hashes, input) {
    const comesNext = input.kind === "push" && input.sequence === hashes.length;
    return comesNext ? [[...hashes, input.hash]] : [];
  },

  key: (hashes) => hashes.join(","),
};

function equal(a: Hashes, b: Hashes): boolean {
  return a.length === b.length && a.every((hash, i) => hash === b[i]);
}

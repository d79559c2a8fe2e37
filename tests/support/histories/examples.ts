/** Histories of a few operations each: those that a right service can leave, and those that it cannot. */

import type { Event } from "./checker.ts";
import type { LogInput, LogOutput } from "./replication.ts";
import type { SnapshotInput, SnapshotOutput } from "./snapshots.ts";

type Snapshots = Event<SnapshotInput, SnapshotOutput>[];
export type Log = Event<LogInput, LogOutput>[];

/** An operation from one time to another, and what its client was told. */
export function at<Input, Output>(
  called: number,
  returned: number,
  input: Input,
  output: Output | undefined,
): Event<Input, Output> {
  return { client: 0, input, output, called, returned };
}

/** An operation whose client never learned what became of it. */
function lost<Input>(called: number, input: Input): Event<Input, never> {
  return { client: 0, input, output: undefined, called, returned: called + 1 };
}

const push = (sequence: number, hash: string): SnapshotInput => ({ kind: "push", sequence, hash });
const latest: SnapshotInput = { kind: "latest" };
const stored: SnapshotOutput = { kind: "stored" };
const none: SnapshotOutput = { kind: "none" };
const is = (sequence: number, hash: string): SnapshotOutput => ({ kind: "snapshot", sequence, hash });
const conflict = (existing: string): SnapshotOutput => ({ kind: "conflict", existing });
export const gap = (head: number | null): SnapshotOutput & LogOutput => ({ kind: "gap", head });
const lineage: SnapshotInput = { kind: "lineage" };
const hashes = (...all: string[]): SnapshotOutput => ({ kind: "hashes", hashes: all });
const read = (sequence: number): SnapshotInput => ({ kind: "at", sequence });

export const GOOD_SNAPSHOTS: Record<string, Snapshots> = {
  "nothing at all": [],
  "one after another": [
    at(0, 1, push(0, "a"), stored),
    at(2, 3, push(1, "b"), stored),
    at(4, 5, latest, is(1, "b")),
  ],
  "a repetition": [at(0, 1, push(0, "a"), stored), at(2, 3, push(0, "a"), stored)],
  "a read during a write sees the old": [at(0, 9, push(0, "a"), stored), at(1, 2, latest, none)],
  "a read during a write sees the new": [at(0, 9, push(0, "a"), stored), at(1, 2, latest, is(0, "a"))],
  "a lost answer that happened": [lost(0, push(0, "a")), at(2, 3, latest, is(0, "a"))],
  "a lost answer that did not happen": [lost(0, push(0, "a")), at(2, 3, latest, none)],
  "a lost answer that happened late": [
    lost(0, push(0, "a")),
    at(2, 3, latest, none),
    at(4, 5, latest, is(0, "a")),
  ],
  "a lost answer and its repetition": [lost(0, push(0, "a")), at(2, 3, push(0, "a"), stored)],
  "two hashes at once": [at(0, 9, push(0, "a"), stored), at(0, 9, push(0, "b"), conflict("a"))],
  "two equal hashes at once": [at(0, 9, push(0, "a"), stored), at(0, 9, push(0, "a"), stored)],
  "a lost rival": [
    lost(0, push(0, "a")),
    at(1, 2, push(0, "b"), stored),
    at(3, 4, latest, is(0, "b")),
  ],
  "a gap": [
    at(0, 1, push(1, "b"), gap(null)),
    at(2, 3, push(0, "a"), stored),
    at(4, 5, push(2, "c"), gap(0)),
  ],
  "an older repetition": [
    at(0, 1, push(0, "a"), stored),
    at(2, 3, push(1, "b"), stored),
    at(4, 5, push(0, "a"), gap(1)),
  ],
  "an older rival": [
    at(0, 1, push(0, "a"), stored),
    at(2, 3, push(1, "b"), stored),
    at(4, 5, push(0, "x"), conflict("a")),
  ],
  "the next one while the first is under way": [
    at(0, 9, push(0, "a"), stored),
    at(1, 2, push(1, "b"), gap(null)),
    at(3, 8, push(1, "b"), stored),
  ],
  "a lineage": [
    at(0, 1, push(0, "a"), stored),
    at(2, 3, lineage, hashes("a")),
    at(2, 3, read(0), is(0, "a")),
  ],
  "reads may disagree while a write is under way": [
    at(0, 9, push(0, "a"), stored),
    at(1, 4, latest, none),
    at(2, 5, latest, is(0, "a")),
  ],
};

export const BAD_SNAPSHOTS: Record<string, Snapshots> = {
  "a lost acknowledgement": [at(0, 1, push(0, "a"), stored), at(2, 3, latest, none)],
  "a stale read": [
    at(0, 1, push(0, "a"), stored),
    at(2, 3, push(1, "b"), stored),
    at(4, 5, latest, is(0, "a")),
  ],
  "a stale lineage": [
    at(0, 1, push(0, "a"), stored),
    at(2, 3, push(1, "b"), stored),
    at(4, 5, lineage, hashes("a")),
  ],
  "two winners": [at(0, 9, push(0, "a"), stored), at(0, 9, push(0, "b"), stored)],
  "a read of what nobody wrote": [at(0, 1, latest, is(0, "x"))],
  "a read before the write": [at(0, 1, latest, is(0, "a")), at(2, 3, push(0, "a"), stored)],
  "a read that goes back": [
    at(0, 9, push(0, "a"), stored),
    at(1, 2, latest, is(0, "a")),
    at(3, 4, latest, none),
  ],
  "a change of hands": [
    at(0, 1, push(0, "a"), stored),
    lost(0, push(0, "b")),
    at(2, 3, latest, is(0, "a")),
    at(4, 5, latest, is(0, "b")),
  ],
  "a hole": [at(0, 1, push(1, "b"), stored)],
  "a second genesis": [at(0, 1, push(0, "a"), stored), at(2, 3, push(0, "b"), stored)],
  "a conflict with nothing": [at(0, 1, push(0, "a"), conflict("b"))],
  "a conflict with itself": [at(0, 1, push(0, "a"), stored), at(2, 3, push(0, "a"), conflict("a"))],
  "a conflict that names another": [at(0, 1, push(0, "a"), stored), at(2, 3, push(0, "b"), conflict("c"))],
  "a gap where none is": [at(0, 1, push(0, "a"), gap(null))],
  "a gap that forgets the head": [at(0, 1, push(0, "a"), stored), at(2, 3, push(5, "b"), gap(null))],
  "a refused write that is there": [
    at(0, 1, push(1, "b"), gap(null)),
    at(2, 3, push(0, "a"), stored),
    at(4, 5, read(1), is(1, "b")),
  ],
  "an older repetition that succeeds": [
    at(0, 1, push(0, "a"), stored),
    at(2, 3, push(1, "b"), stored),
    at(4, 5, push(0, "a"), stored),
  ],
  "a lost answer that happened twice": [
    lost(0, push(0, "a")),
    at(2, 3, latest, is(0, "a")),
    at(4, 5, latest, is(1, "a")),
  ],
  "a lost answer that happened before it was asked": [
    at(0, 1, latest, is(0, "a")),
    lost(2, push(0, "a")),
  ],
  "a lineage in another order": [
    at(0, 1, push(0, "a"), stored),
    at(2, 3, push(1, "b"), stored),
    at(4, 5, lineage, hashes("b", "a")),
  ],
  "a lineage with a hole": [
    at(0, 1, push(0, "a"), stored),
    at(2, 3, push(1, "b"), stored),
    at(4, 5, lineage, hashes("b")),
  ],
  "a confirmed one that is not served": [
    at(0, 1, push(0, "a"), stored),
    at(2, 3, push(1, "b"), stored),
    at(4, 5, read(0), none),
  ],
  "two lost rivals that both won": [
    lost(0, push(0, "a")),
    lost(0, push(0, "b")),
    at(2, 3, latest, is(0, "a")),
    at(4, 5, latest, is(0, "b")),
  ],
  "a gap told ahead of its time": [at(0, 1, push(2, "c"), gap(1)), at(2, 3, push(0, "a"), stored)],
  "one told stored, the next told nothing is there": [
    at(0, 1, push(0, "a"), stored),
    at(2, 3, push(1, "b"), gap(null)),
  ],
};

export const append = (from: number, ...all: string[]): LogInput => ({ kind: "append", from, hashes: all });
export const accepted = (count: number, head: number): LogOutput => ({ kind: "accepted", count, head });
export const replay = (since: number): LogInput => ({ kind: "replay", since });
export const blocks = (from: number, ...all: string[]): LogOutput => ({ kind: "blocks", from, hashes: all });
export const idempotent: LogOutput = { kind: "idempotent" };
const head: LogInput = { kind: "head" };
const headIs = (sequence: number): LogOutput => ({ kind: "head", head: sequence });
const empty: LogOutput = { kind: "empty" };
export const split = (...conflicts: [number, string][]): LogOutput => ({ kind: "split brain", conflicts });

export const GOOD_LOGS: Record<string, Log> = {
  "an empty log": [at(0, 1, head, empty), at(0, 1, replay(-1), blocks(0))],
  "appends and a replay": [
    at(0, 1, append(0, "a", "b"), accepted(2, 1)),
    at(2, 3, append(2, "c"), accepted(1, 2)),
    at(4, 5, replay(-1), blocks(0, "a", "b", "c")),
    at(4, 5, replay(1), blocks(2, "c")),
  ],
  "a repetition": [at(0, 1, append(0, "a"), accepted(1, 0)), at(2, 3, append(0, "a"), idempotent)],
  "a request that the service repeated by itself": [
    at(0, 1, append(0, "a"), idempotent),
    at(2, 3, replay(-1), blocks(0, "a")),
  ],
  "an overlap": [
    at(0, 1, append(0, "a", "b"), accepted(2, 1)),
    at(2, 3, append(1, "b", "c"), accepted(1, 2)),
  ],
  "a lost answer and its repetition": [
    lost(0, append(0, "a", "b")),
    at(2, 3, append(0, "a", "b"), idempotent),
  ],
  "a lost answer that did not happen": [lost(0, append(0, "a")), at(2, 3, head, empty)],
  "two at once, one wins": [
    at(0, 9, append(0, "a"), accepted(1, 0)),
    at(0, 9, append(0, "b"), split([0, "a"])),
  ],
  "a gap": [
    at(0, 1, append(2, "c"), gap(null)),
    at(2, 3, append(0, "a"), accepted(1, 0)),
    at(4, 5, append(2, "c"), gap(0)),
  ],
  "a tail reader": [
    at(0, 1, append(0, "a"), accepted(1, 0)),
    at(2, 9, append(1, "b"), accepted(1, 1)),
    at(3, 4, replay(0), blocks(1)),
    at(5, 6, replay(0), blocks(1, "b")),
  ],
};

export const BAD_LOGS: Record<string, Log> = {
  "a lost acknowledgement": [at(0, 1, append(0, "a"), accepted(1, 0)), at(2, 3, head, empty)],
  "half of a request": [at(0, 1, append(0, "a", "b"), accepted(2, 1)), at(2, 3, replay(-1), blocks(0, "a"))],
  "half of a lost request": [lost(0, append(0, "a", "b")), at(2, 3, replay(-1), blocks(0, "a"))],
  "new blocks beside known ones dropped": [
    at(0, 1, append(0, "a"), accepted(1, 0)),
    at(2, 3, append(0, "a", "b"), idempotent),
    at(4, 5, replay(-1), blocks(0, "a")),
  ],
  "an overlap counted twice": [
    at(0, 1, append(0, "a", "b"), accepted(2, 1)),
    at(2, 3, append(1, "b", "c"), accepted(2, 2)),
  ],
  "two winners": [at(0, 9, append(0, "a"), accepted(1, 0)), at(0, 9, append(0, "b"), accepted(1, 0))],
  "two winners of one block": [
    at(0, 9, append(0, "a"), accepted(1, 0)),
    at(0, 9, append(0, "a"), accepted(1, 0)),
  ],
  "a hole": [at(0, 1, append(0, "a"), accepted(1, 0)), at(2, 3, append(2, "c"), accepted(1, 2))],
  "a replay with a hole": [
    at(0, 1, append(0, "a", "b", "c"), accepted(3, 2)),
    at(2, 3, replay(-1), blocks(0, "a", "c")),
  ],
  "a replay in another order": [
    at(0, 1, append(0, "a", "b"), accepted(2, 1)),
    at(2, 3, replay(-1), blocks(0, "b", "a")),
  ],
  "a replay with another block": [
    at(0, 1, append(0, "a"), accepted(1, 0)),
    at(2, 3, replay(-1), blocks(0, "x")),
  ],
  "a replay that begins elsewhere": [
    at(0, 1, append(0, "a", "b"), accepted(2, 1)),
    at(2, 3, replay(0), blocks(0, "b")),
  ],
  "a reader that misses one for ever": [
    at(0, 1, append(0, "a"), accepted(1, 0)),
    at(2, 3, append(1, "b"), accepted(1, 1)),
    at(4, 5, append(2, "c"), accepted(1, 2)),
    at(6, 7, replay(0), blocks(2, "c")),
  ],
  "a head that goes back": [
    at(0, 9, append(0, "a"), accepted(1, 0)),
    at(1, 2, head, headIs(0)),
    at(3, 4, head, empty),
  ],
  "a head ahead of the log": [at(0, 1, append(0, "a"), accepted(1, 0)), at(2, 3, head, headIs(1))],
  "a stale head": [
    at(0, 1, append(0, "a"), accepted(1, 0)),
    at(2, 3, append(1, "b"), accepted(1, 1)),
    at(4, 5, head, headIs(0)),
  ],
  "a refused request that is there": [
    at(0, 1, append(0, "a"), accepted(1, 0)),
    at(2, 3, append(0, "x", "b"), split([0, "a"])),
    at(4, 5, head, headIs(1)),
  ],
  "a conflict that is none": [
    at(0, 1, append(0, "a"), accepted(1, 0)),
    at(2, 3, append(0, "a"), split([0, "a"])),
  ],
  "not every conflict named": [
    at(0, 1, append(0, "a", "b"), accepted(2, 1)),
    at(2, 3, append(0, "x", "y"), split([0, "a"])),
  ],
  "idempotent before it was there": [
    at(0, 1, append(0, "a"), idempotent),
    at(2, 3, append(0, "a"), accepted(1, 0)),
  ],
  "a gap where none is": [at(0, 1, append(0, "a"), gap(null))],
  "a lost answer that happened twice": [
    lost(0, append(0, "a")),
    at(2, 3, append(0, "a"), accepted(1, 0)),
    at(4, 5, replay(-1), blocks(0, "a", "a")),
  ],
  "an append told the head of another": [
    at(0, 1, append(0, "a"), accepted(1, 0)),
    at(2, 3, append(1, "b"), accepted(1, 5)),
  ],
  "a replay past the end that finds something": [
    at(0, 1, append(0, "a"), accepted(1, 0)),
    at(2, 3, replay(0), blocks(1, "b")),
  ],
  "a lost rival that won and lost": [
    lost(0, append(0, "a")),
    at(1, 2, append(0, "b"), accepted(1, 0)),
    at(3, 4, replay(-1), blocks(0, "b")),
    at(5, 6, replay(-1), blocks(0, "a")),
  ],
};

/** Durable appends against a bare INSERT of the same bytes into the same Postgres. */

import {
  type Bench,
  headersOf,
  newAgentsOfOne,
  newBlock,
  newPaidKey,
  openAppender,
  openInserters,
  openRepeater,
  times,
  ZERO_ROOT,
} from "./bench_service.ts";
import { makeRequest } from "./connection.ts";
import { interleave, quantile, rateRow, type Rounds, type Row, timeRow } from "./rounds.ts";

/** What is appended, over how many connections, and the ratios asked for. */
export interface AppendCase {
  bytes: number;
  connections: number;
  target: string;
  p99Target: string;
}

export const APPEND_CASES: readonly AppendCase[] = [
  { bytes: 4_096, connections: 1, target: "", p99Target: "" },
  { bytes: 4_096, connections: 8, target: "≥ 0.40", p99Target: "≤ 4" },
  { bytes: 4_096, connections: 32, target: "≥ 0.50", p99Target: "" },
  { bytes: 65_536, connections: 8, target: "≥ 0.50", p99Target: "" },
  { bytes: 65_536, connections: 32, target: "≥ 0.50", p99Target: "" },
];

/** POST /replicate with a paid key: authentication, hash, lock, insert, debit, ledger, usage. */
export async function measureAppend(bench: Bench, wanted: AppendCase, rounds: Rounds): Promise<Row[]> {
  const { bytes, connections, target, p99Target } = wanted;
  const block = newBlock(bytes);
  const { append, insert } = await interleave({
    insert: await openInserters(bench, block.bytes, connections),
    append: await times(connections, async () => openAppender(bench, (await newPaidKey(bench)).token, block)),
  }, rounds);
  const what = `append ${bytes / 1024} KiB, ${connections} connections`;
  const [ours, theirs] = [quantile(append.times, 0.99), quantile(insert.times, 0.99)];
  return [
    rateRow(what, "bare INSERT", append, insert, target),
    timeRow("its 99th percentile", "that of INSERT", ours, theirs, p99Target),
  ];
}

/** 64 chunks in one request against one by one; a repetition against a first time; one payer against many. */
export async function measureShapes(bench: Bench, rounds: Rounds): Promise<Row[]> {
  const block = newBlock(4_096);
  const key = async () => (await newPaidKey(bench)).token;
  const single = () => times(8, async () => openAppender(bench, await key(), block));
  const bulk = await interleave({
    one: await single(),
    many: await times(8, async () => openAppender(bench, await key(), block, { count: 64 })),
  }, rounds);
  const chunks = { rates: bulk.many.rates.map((rate) => rate * 64), times: [] };

  const again = await interleave({
    first: await single(),
    again: await times(8, async () => {
      const token = await key();
      await (await openAppender(bench, token, block))();
      const chunk = `{"sequence_number":0,"block_hash":"${block.hash}","ciphertext_b64":"${block.base64}"}`;
      const body = `{"chunks":[${chunk}],"merkle_root":"${ZERO_ROOT}"}`;
      return openRepeater(bench.url, makeRequest("POST", `${bench.base}/replicate`, headersOf(token), body));
    }),
  }, rounds);

  const tokens = await newAgentsOfOne(bench, 32);
  const payers = await interleave({
    many: await times(32, async () => openAppender(bench, await key(), block)),
    one: await times(32, (i) => openAppender(bench, tokens[i]!, block)),
  }, rounds);
  return [
    rateRow("chunks of 4 KiB, 64 a request", "one a request", chunks, bulk.one, "≥ 8"),
    rateRow("repeated append", "first append", again.again, again.first, "≥ 1.5"),
    rateRow("32 agents of one payer", "32 agents of 32 payers", payers.one, payers.many, "≥ 0.6"),
  ];
}

/** The same operations as the data grows: long logs, many agents, a long audit ledger. Rows are loaded by SQL. */

import { createHash } from "node:crypto";
import {
  type Bench,
  headersOf,
  newBlock,
  newPaidKey,
  openAppender,
  openInserters,
  openRepeater,
  times,
} from "./bench_service.ts";
import { makeRequest } from "./connection.ts";
import { interleave, median, rateRow, type Rounds, type Row, timeRow } from "./rounds.ts";

const CONNECTIONS = 4;
/** Bytes of the entries that logs are filled with: what is measured is their number. */
const ENTRY_BYTES = 64;

/** Append, head and a page in the middle, in logs of each length, against the shortest. */
export async function measureLogLengths(bench: Bench, lengths: number[], rounds: Rounds): Promise<Row[]> {
  const block = newBlock(4_096);
  const sides: Record<string, Awaited<ReturnType<typeof openAppender>>[]> = {};
  for (const length of lengths) {
    const tokens = await times(CONNECTIONS, () => newFilledLog(bench, length));
    const get = (path: string) => (i: number) =>
      openRepeater(bench.url, makeRequest("GET", `${bench.base}${path}`, headersOf(tokens[i]!)));
    sides[`append ${length}`] = await times(
      CONNECTIONS,
      (i) => openAppender(bench, tokens[i]!, block, { first: length }),
    );
    sides[`head ${length}`] = await times(CONNECTIONS, get("/head"));
    sides[`page ${length}`] = await times(CONNECTIONS, get(`/envelopes?limit=100&since=${length / 2}`));
  }
  await bench.pool.query("analyze");
  const results = await interleave(sides, rounds);
  const [shortest, ...longer] = lengths;
  return longer.flatMap((length) =>
    ["append", "head", "page"].map((what) =>
      rateRow(
        `${what} at ${length.toLocaleString("en")} entries`,
        `at ${shortest!.toLocaleString("en")}`,
        results[`${what} ${length}`]!,
        results[`${what} ${shortest}`]!,
        "≥ 0.9",
      )
    )
  );
}

/** Appends as a share of bare inserts, while the database holds ever more agents. */
export async function measurePopulations(bench: Bench, counts: number[], rounds: Rounds): Promise<Row[]> {
  const block = newBlock(4_096);
  const rows: Row[] = [];
  let present = 0;
  for (const count of counts) {
    await fillAgents(bench, present, count);
    present = count;
    await bench.pool.query("analyze");
    const { append, insert } = await interleave({
      insert: await openInserters(bench, block.bytes, CONNECTIONS),
      append: await times(
        CONNECTIONS,
        async () => openAppender(bench, (await newPaidKey(bench)).token, block),
      ),
    }, rounds);
    const what = `append with ${count.toLocaleString("en")} agents`;
    rows.push(rateRow(what, "bare INSERT", append, insert, ""));
  }
  return rows;
}

/** GET /teams/:id/audit/verify of one long ledger; how long it takes, and for each entry. */
export async function measureAudit(bench: Bench, session: string, entries: number): Promise<Row[]> {
  const made = await fetch(`${bench.base}/teams`, {
    method: "POST",
    headers: headersOf(session),
    body: JSON.stringify({
      name: "bench",
      owner_pubkey: "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n",
      owner_wrapped_dek: "dek",
    }),
  });
  const { id } = await made.json() as { id: string };
  await fillLedger(bench, id, entries);
  const millis: number[] = [];
  for (let i = 0; i < 3; i++) {
    const start = performance.now();
    const answer = await fetch(`${bench.base}/teams/${id}/audit/verify`, { headers: headersOf(session) });
    const text = await answer.text();
    if (answer.status !== 200) throw new Error(text);
    millis.push(performance.now() - start);
  }
  const what = `verify ${entries.toLocaleString("en")} audit entries`;
  return [timeRow(what, "1 ms for 100 entries", median(millis), entries / 100, "")];
}

/** A paid key whose log holds `length` entries from 0. */
async function newFilledLog(bench: Bench, length: number): Promise<string> {
  const { accountId, token } = await newPaidKey(bench);
  const block = newBlock(ENTRY_BYTES);
  const hash = createHash("sha256").update(block.bytes).digest();
  await bench.pool.query(
    `with log as (
       insert into app.logs (owner_id, member_id, first_sequence, head_sequence, merkle_root, total_bytes)
       values ($1, $1, 0, $2::bigint - 1, sha256('root'), $2::bigint * $3::bigint) returning id
     ), stored as (
       update app.accounts set stored_bytes = stored_bytes + $2::bigint * $3::bigint where id = $1
     )
     insert into app.log_entries (log_id, sequence_number, block_hash, ciphertext, merkle_root)
     select log.id, s, $4, $5, sha256('root') from log, generate_series(0, $2::bigint - 1) s`,
    [accountId, length, ENTRY_BYTES, hash, block.bytes],
  );
  return token;
}

/** Accounts with a key and a log of ten entries each, from one number to another. */
async function fillAgents({ pool }: Bench, from: number, to: number): Promise<void> {
  await pool.query(
    `with people as materialized (
       select i, gen_random_uuid() as id from generate_series($1::int, $2::int - 1) i
     ), owners as (insert into app.owners (id, kind) select id, 'user' from people
     ), accounts as (insert into app.accounts (id, subject, stored_bytes) select id, 'filled-' || i, 640 from people
     ), keys as (
       insert into app.api_keys (account_id, name, key_hash, masked_key)
       select id, 'key', sha256(('filled ' || i)::bytea), 'masked' from people
     ), cycles as (
       insert into app.usage_cycles (owner_id, cycle_start)
       select id, date_trunc('month', now(), 'UTC') from people
     ), logs as (
       insert into app.logs (owner_id, member_id, first_sequence, head_sequence, merkle_root, total_bytes)
       select id, id, 0, 9, sha256('root'), 640 from people returning id
     )
     insert into app.log_entries (log_id, sequence_number, block_hash, ciphertext, merkle_root)
     select logs.id, s, sha256(convert_to(repeat('x', 64), 'UTF8')), convert_to(repeat('x', 64), 'UTF8'),
            sha256('root')
       from logs, generate_series(0, 9) s`,
    [from, to],
  );
}

/** Entries as `app.append_audit` writes them, without an update of the team for each. */
async function fillLedger({ pool }: Bench, teamId: string, entries: number): Promise<void> {
  await pool.query(
    `do $$
     declare
       v_entry app.audit_entries;
       v_team app.teams;
     begin
       select * into v_team from app.teams where id = '${teamId}' for update;
       v_entry.entry_hash := v_team.audit_hash;
       for v_seq in v_team.audit_seq + 1 .. ${entries - 1} loop
         v_entry := row(v_team.id, v_seq, gen_random_uuid(), 'bench', 'member.add', 'member', 'somebody', '{}',
           v_entry.entry_hash, null, date_trunc('milliseconds', clock_timestamp()));
         v_entry.entry_hash := app.hash_audit_entry(v_entry);
         insert into app.audit_entries select v_entry.*;
       end loop;
       update app.teams set audit_seq = v_entry.seq, audit_hash = v_entry.entry_hash where id = v_team.id;
     end
     $$`,
  );
}

/**
 * The defects that a public service of this kind was found to have, each written back into ours by hand. A test must
 * notice every one of them: `deno task defects`.
 */

/** One change of one file. `find` must be there exactly once. */
export type Patch =
  | { file: string; find: string; replace: string }
  /** In the newest definition of a function, whichever migration has it. */
  | { sql: string; find: string; replace: string }
  /** In whichever migration has it. */
  | { migration: string; replace: string };

/** A defect, and the tests that are to notice it. */
export interface Defect {
  id: string;
  what: string;
  patches: Patch[];
  tests: string[];
}

const FUNCTIONS = "supabase/functions";
const SERVICE = `${FUNCTIONS}/v2-agent-state`;
const SHARED = `${FUNCTIONS}/_shared`;
const SNAPSHOTS = ["tests/http/snapshot_failures_test.ts", "tests/http/snapshots_test.ts"];
const REPLICATION = ["tests/http/replication_test.ts", "tests/http/replication_input_test.ts"];
const CONCURRENCY = "tests/http/concurrency_test.ts";
const SQL = "tests/contract/sql_test.ts";

export const DEFECTS: readonly Defect[] = [
  {
    id: "R01",
    what: "An agent's name goes into the object's path as it is",
    patches: [{
      file: `${SERVICE}/domain/snapshot.ts`,
      find: "  return `${attemptId}/${agent}/${fileName(sequence, payloadHash)}`;",
      replace: "  return `${attemptId}/${agentId}/${fileName(sequence, payloadHash)}`;",
    }],
    tests: ["tests/domain/snapshot_test.ts", ...SNAPSHOTS],
  },
  {
    id: "R02",
    what: "Objects are named without the attempt and overwritten: anybody writes over anybody's",
    patches: [
      {
        file: `${SERVICE}/domain/snapshot.ts`,
        find: "  return `${attemptId}/${agent}/${fileName(sequence, payloadHash)}`;",
        replace:
          "  return `00000000-0000-4000-8000-000000000000/${agent}/${fileName(sequence, payloadHash)}`;",
      },
      { file: `${SHARED}/platform/blob_storage.ts`, find: "upsert: false", replace: "upsert: true" },
    ],
    tests: ["tests/domain/snapshot_test.ts", ...SNAPSHOTS],
  },
  {
    id: "R03",
    what: "An agent's name is unique for everybody: whoever takes it first keeps all others out",
    patches: [{
      migration: "  unique (owner_id, agent_id)\n) with (fillfactor = 80);",
      replace: "  unique (owner_id, agent_id),\n  unique (agent_id)\n) with (fillfactor = 80);",
    }],
    tests: SNAPSHOTS,
  },
  {
    id: "R04",
    what: "A function that gives credit may be called by everybody",
    patches: [{
      migration:
        "revoke execute on function api.grant_credits(text, bigint, text, text, uuid) from public, anon, authenticated;",
      replace: "grant execute on function api.grant_credits(text, bigint, text, text, uuid) to public;",
    }],
    tests: [SQL],
  },
  {
    id: "R05",
    what: "Accounts are found by pattern: `%` is everybody",
    patches: [{
      sql: "app.open_user",
      find: "select id, email into v_id, v_email from app.accounts where subject = p_subject;",
      replace: "select id, email into v_id, v_email from app.accounts where subject ilike p_subject limit 1;",
    }],
    tests: ["tests/http/subjects_test.ts"],
  },
  {
    id: "R06",
    what: "A function with its owner's rights has no search path of its own",
    patches: [{ sql: "api.grant_credits", find: "set search_path = ''\n", replace: "" }],
    tests: [SQL],
  },
  {
    id: "R07",
    what: "A table has no row-level security",
    patches: [{ migration: "alter table app.log_entries enable row level security;\n", replace: "" }],
    tests: [SQL],
  },
  {
    id: "R08",
    what: "A balance may fall below zero by a little",
    patches: [
      {
        migration: "  credits_milli bigint not null default 0 check (credits_milli >= 0),",
        replace: "  credits_milli bigint not null default 0,",
      },
      {
        sql: "app.take_bytes",
        find: "     and credits_milli >= v_cost",
        replace: "     and credits_milli > v_cost - 1000",
      },
    ],
    tests: ["tests/http/snapshots_test.ts", "tests/http/replication_test.ts", CONCURRENCY],
  },
  {
    id: "R09",
    what: "What was charged for an upload that died is never given back",
    patches: [{
      sql: "app.fail_snapshot",
      find:
        "  perform app.give_back_bytes(\n    p_snapshot.account_id, p_snapshot.byte_size, p_snapshot.cost_milli, p_snapshot.id);\n",
      replace: "",
    }],
    tests: SNAPSHOTS,
  },
  {
    id: "R10",
    what: "An upload that died keeps its sequence for ever",
    patches: [{
      sql: "api.begin_snapshot",
      find: "  perform app.settle_agent(v_agent.id);\n",
      replace:
        "  if exists (select from app.snapshots where agent_ref = v_agent.id and sequence_number = p_sequence_number\n" +
        "      and status = 'pending') then\n    perform app.refuse('sequence_conflict');\n  end if;\n",
    }],
    tests: SNAPSHOTS,
  },
  {
    id: "R11",
    what: "A snapshot that failed counts as the latest: the next one leaves a hole",
    patches: [{
      sql: "app.fail_snapshot",
      find: "  update app.snapshots set status = 'failed' where id = p_snapshot.id;\n",
      replace: "  update app.snapshots set status = 'failed' where id = p_snapshot.id;\n" +
        "  update app.agents set head_sequence = greatest(head_sequence, p_snapshot.sequence_number)\n" +
        "   where id = p_snapshot.agent_ref;\n",
    }],
    tests: SNAPSHOTS,
  },
  {
    id: "R12",
    what: "A confirmation that fails is told to the client as success",
    patches: [{
      file: `${SERVICE}/flows/store_snapshot.ts`,
      find: "    if (refused) await giveUp(platform, attemptId, name);\n    throw error;",
      replace:
        '    if (refused) await giveUp(platform, attemptId, name);\n    return { receipt: { status: "confirmed" }, told: false };',
    }],
    tests: ["tests/http/snapshot_failures_test.ts"],
  },
  {
    id: "R13",
    what: "Two writers of one sequence: the loser gets a 500",
    patches: [{
      sql: "api.begin_snapshot",
      find: "     and client_payload_hash = p_client_payload_hash and byte_size = p_byte_size;",
      replace: "     and client_payload_hash = p_client_payload_hash and byte_size = p_byte_size and false;",
    }],
    tests: [CONCURRENCY, "tests/http/snapshot_failures_test.ts"],
  },
  {
    id: "R14",
    what: "What an upload of unknown outcome has left in the bucket stays there, paid by nobody",
    patches: [{
      sql: "api.settle_snapshots",
      find: "           where status = 'failed' and",
      replace: "           where false and",
    }],
    tests: ["tests/http/snapshot_failures_test.ts", "tests/proof/storage_faults_test.ts"],
  },
  {
    id: "R15",
    what: "A refund has no key and is not remembered: it is given again and again",
    patches: [
      {
        sql: "app.fail_snapshot",
        find: "  update app.snapshots set status = 'failed' where id = p_snapshot.id;\n",
        replace: "",
      },
      {
        sql: "app.give_back_bytes",
        find: "    values (p_account_id, 'snapshot_refund', p_cost_milli, p_bytes, p_reference);",
        replace: "    values (p_account_id, 'snapshot_refund', p_cost_milli, p_bytes, gen_random_uuid());",
      },
    ],
    tests: SNAPSHOTS,
  },
  {
    id: "R16",
    what: "A repetition of the latest snapshot is told of a gap instead of its receipt",
    patches: [{
      sql: "api.begin_snapshot",
      find: "    elsif p_sequence_number = v_agent.head_sequence then",
      replace: "    elsif p_sequence_number = v_agent.head_sequence + 1 then",
    }],
    tests: ["tests/http/snapshots_test.ts"],
  },
  {
    id: "R17",
    what: "Money is taken before it is known whether a block is there already",
    patches: [{
      sql: "api.append_log",
      find: "    if v_registered = v_count then",
      replace:
        "    perform app.take_bytes(v_principal, 1000, p_quota_bytes, 'replication', null);\n    if v_registered = v_count then",
    }],
    tests: REPLICATION,
  },
  {
    id: "R18",
    what: "New blocks beside known ones are dropped, and the client is told that all is well",
    patches: [{
      sql: "api.append_log",
      find: "    if v_registered = v_count then",
      replace: "    if v_registered > 0 then",
    }],
    tests: REPLICATION,
  },
  {
    id: "R19",
    what: "A log may have holes",
    patches: [{
      sql: "api.append_log",
      find: "    if p_sequences[v_count] <> v_log.head_sequence + v_count - v_registered then",
      replace: "    if false then",
    }],
    tests: REPLICATION,
  },
  {
    id: "R20",
    what: "A block's hash is not compared with its bytes",
    patches: [{
      file: `${SERVICE}/handlers/replication.ts`,
      find: "  if (!equalBytes(sha256(sent.ciphertext_b64), sent.block_hash)) {",
      replace: "  if (sent.block_hash.length !== 32) {",
    }],
    tests: REPLICATION,
  },
  {
    id: "R22",
    what: "Bytes go through JSON as an object of numbers",
    patches: [{
      file: `${SHARED}/platform/database_rest.ts`,
      find: "value instanceof Uint8Array ? `\\\\x${encodeHex(value)}` : value;",
      replace: "value instanceof Uint8Array ? JSON.stringify({ ...value }) : value;",
    }],
    tests: REPLICATION,
  },
  {
    id: "R23",
    what: "Bytes are spread into arguments: 256 KiB are too many",
    patches: [{
      file: `${SHARED}/domain/bytes.ts`,
      find: '  return asBuffer(bytes).toString("base64");',
      replace: "  return btoa(String.fromCharCode(...bytes));",
    }],
    tests: ["tests/domain/bytes_test.ts", "tests/http/replay_stream_test.ts", ...REPLICATION],
  },
  {
    id: "R24",
    what: "A page of a replay is held in memory whole",
    patches: [{
      file: `${SERVICE}/domain/limits.ts`,
      find: "export const READ_PAGE_BYTES = 1024 * 1024;",
      replace: "export const READ_PAGE_BYTES = 1024 * 1024 * 1024;",
    }],
    tests: ["tests/http/replay_stream_test.ts"],
  },
  {
    id: "R25",
    what: "Base64 is read leniently: the same bytes have many spellings",
    patches: [{
      file: `${SHARED}/domain/bytes.ts`,
      find: '  return bytes?.toString("base64") === text ? bytes : undefined;',
      replace: "  return bytes;",
    }],
    tests: ["tests/domain/bytes_test.ts", ...REPLICATION],
  },
  {
    id: "R26",
    what: "Numbers of a path are whatever JavaScript makes of them",
    patches: [{
      file: `${SHARED}/middleware/shapes.ts`,
      find: "  return z.string().regex(/^(0|[1-9][0-9]{0,15})$/, code).transform(Number).refine(",
      replace: "  return z.string().transform(Number).refine(",
    }],
    tests: [
      "tests/http/snapshots_test.ts",
      "tests/http/snapshot_input_test.ts",
      "tests/http/layer_a_test.ts",
    ],
  },
  {
    id: "R27",
    what: "Numbers beyond 2^53 are taken and become others",
    patches: [{
      file: `${SHARED}/middleware/shapes.ts`,
      find: 'export const sequence = z.int("bad_sequence").min(0, "bad_sequence");',
      replace:
        'export const sequence = z.number("bad_sequence").refine(Number.isInteger, "bad_sequence").min(0, "bad_sequence");',
    }],
    tests: ["tests/http/snapshot_input_test.ts", "tests/http/replication_input_test.ts"],
  },
  {
    id: "R28",
    what: "A body is read whole, whatever its size",
    patches: [{
      file: `${SHARED}/middleware/parse.ts`,
      find: "    maxSize: maxBytes,",
      replace: "    maxSize: Infinity,",
    }],
    tests: [
      "tests/http/frame_test.ts",
      "tests/http/snapshot_input_test.ts",
      "tests/http/replication_input_test.ts",
    ],
  },
  {
    id: "R29",
    what: "Names in the public bucket can be guessed",
    patches: [{
      file: `${SERVICE}/flows/store_snapshot.ts`,
      find: "  const name = objectName(attemptId, upload.agentId, upload.sequence, hash);",
      replace:
        "  const name = objectName(`${hash.slice(0, 8)}-0000-4000-8000-${hash.slice(0, 12)}`, upload.agentId, upload.sequence, hash);",
    }],
    tests: [...SNAPSHOTS, "tests/http/secrets_test.ts"],
  },
  {
    id: "R30",
    what: "A project token may keep as much as it likes",
    patches: [{
      sql: "app.take_bytes",
      find: "     and (p_principal.metered or stored_bytes + p_bytes <= p_quota_bytes)",
      replace: "",
    }],
    tests: ["tests/http/snapshots_test.ts", "tests/http/replication_test.ts"],
  },
  {
    id: "R31",
    what: "An array of one hash passes for a hash",
    patches: [{
      file: `${SHARED}/middleware/shapes.ts`,
      find: "  return z.string(code).regex(/^[0-9a-fA-F]{64}$/, code).transform(decodeHex);",
      replace: "  return z.coerce.string(code).regex(/^[0-9a-fA-F]{64}$/, code).transform(decodeHex);",
    }],
    tests: ["tests/http/snapshot_input_test.ts", "tests/http/replication_input_test.ts"],
  },
  {
    id: "R32",
    what: "Halves of surrogate pairs are taken: two names become one",
    patches: [{
      file: `${SHARED}/middleware/shapes.ts`,
      find: '  return value.isWellFormed() && !value.includes("\\0");',
      replace: '  return !value.includes("\\0");',
    }],
    tests: ["tests/http/snapshot_input_test.ts", "tests/http/account_test.ts"],
  },
  {
    id: "R33",
    what: "A NUL in a text reaches the database, and the answer is a 500",
    patches: [
      {
        file: `${SHARED}/middleware/shapes.ts`,
        find: '  return value.isWellFormed() && !value.includes("\\0");',
        replace: "  return value.isWellFormed();",
      },
      {
        file: `${SHARED}/platform/database.ts`,
        find: "const UNSTORABLE = /^(22021|22P05)$/;",
        replace: "const UNSTORABLE = /^never$/;",
      },
    ],
    tests: ["tests/http/snapshot_input_test.ts", "tests/http/account_test.ts"],
  },
  {
    id: "R34",
    what: "The ledger's chain is not enforced: entries can be changed and removed",
    patches: [{
      migration:
        "create trigger audit_entries_only_grow before update or delete on app.audit_entries\n  for each row execute function app.forbid_change();\n",
      replace: "",
    }],
    tests: ["tests/http/team_audit_tampering_test.ts", "tests/http/team_audit_test.ts", SQL],
  },
];

/** Defects that cannot be written back, and why. */
export const NOT_APPLICABLE: Record<string, string> = {
  R21:
    "A wallet's address in a uuid column: accounts are opened by subject, and no text of a client is ever an id of ours",
};

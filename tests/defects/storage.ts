/** Defects of what is kept and paid for: tenants, money, snapshots. */

import { CONCURRENCY, type Defect, SERVICE, SHARED, SNAPSHOTS, SQL } from "./defect.ts";

export const STORAGE_DEFECTS: readonly Defect[] = [
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
      sql: "app.orphaned_attempts",
      find: "   where t.status = 'failed' and",
      replace: "   where false and",
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
];

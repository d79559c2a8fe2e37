/** Defects of logs, bytes, numbers and texts, and of the ledger. */

import { type Defect, REPLICATION, SERVICE, SHARED, SNAPSHOTS, SQL } from "./defect.ts";

export const INPUT_DEFECTS: readonly Defect[] = [
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
      find: '  if (mismatch >= 0) await refuse(c, "block_hash_mismatch"',
      replace: '  if (mismatch >= 1e9) await refuse(c, "block_hash_mismatch"',
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
      find: "  const padding = text.endsWith",
      replace: "  return decodeLeniently(text);\n  const padding = text.endsWith",
    }],
    tests: ["tests/domain/bytes_test.ts", ...REPLICATION],
  },
  {
    id: "R26",
    what: "Numbers of a path are whatever JavaScript makes of them",
    patches: [{
      file: `${SHARED}/middleware/shapes.ts`,
      find: "  return z.string().regex(/^(0|[1-9][0-9]{0,15})$/, code).transform(Number)\n",
      replace: "  return z.string().transform(Number)\n",
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

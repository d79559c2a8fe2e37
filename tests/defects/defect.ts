/** What a defect is, and where it is written back. */

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

export const FUNCTIONS = "supabase/functions";
export const SERVICE = `${FUNCTIONS}/v2-agent-state`;
export const SHARED = `${FUNCTIONS}/_shared`;
export const SNAPSHOTS = ["tests/http/snapshot_failures_test.ts", "tests/http/snapshots_test.ts"];
export const REPLICATION = ["tests/http/replication_test.ts", "tests/http/replication_input_test.ts"];
export const CONCURRENCY = "tests/http/concurrency_test.ts";
export const SQL = "tests/contract/sql_test.ts";

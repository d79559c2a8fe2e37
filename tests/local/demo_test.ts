/** The demos do what the README says. */

import assert from "node:assert/strict";
import { runCommand, withDataDir } from "../support/service.ts";

Deno.test("task demo ends with its verdict: everything came back", () =>
  withDataDir(async (dataDir) => {
    const { code, output } = await runCommand("demo", [], dataDir);
    assert.equal(code, 0, output);
    assert.match(output, /✓ the memory from the snapshots is equal byte for byte/);
    assert.match(output, /✓ the memory from the replication log is equal byte for byte/);
    assert.match(output, /Verdict: everything came back\.$/);
  }));

Deno.test("task demo says what is wrong when the service cannot be reached", () =>
  withDataDir(async (dataDir) => {
    const { code, output } = await runCommand("demo", ["--url", "http://127.0.0.1:9"], dataDir);
    assert.equal(code, 1);
    assert.match(output, /Verdict: the demo failed/);
  }));

Deno.test("task demo:team shares, removes and rotates, and its ledger verifies offline", () =>
  withDataDir(async (dataDir) => {
    const file = `${dataDir}/audit.json`;
    const demo = await runCommand("demo_team", ["--export", file], dataDir);
    assert.equal(demo.code, 0, demo.output);
    assert.match(demo.output, /bob {7}is refused: no_grant, not_a_team_member/);
    const verified = await runCommand("verify_audit", [file], dataDir);
    assert.equal(verified.code, 0, verified.output);
  }));

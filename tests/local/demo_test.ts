/** The demos do what the README says, and the client's cryptography in them agrees with the published vectors. */

import assert from "node:assert/strict";
import { EMPTY_ROOT, newKey, nextRoot, open, seal, sha256Hex } from "../../local/agent_crypto.ts";
import { runCommand, withDataDir } from "../support/service.ts";

/** Blocks of existing logs, with their hashes and the root after each. */
const VECTORS = [
  [
    "block-0",
    "b8c6f33f1780d30977c5e964f62e7959102a3694f1c28ae0834ab12f98a3dcb0",
    "755421a57572f4a13d6f22741167e9ed69dc87104c802675b09bf552ff58e08d",
  ],
  [
    "block-1",
    "89a1a98e709fa672374b463bbd8d5946ff4f530c5e65be07bf17ef8473ec96e9",
    "a2227dc8ba634ef9658eecf1563a8fc75f1bbbcf71b12090e05d76639b4231d4",
  ],
  [
    "block-2",
    "2453695514ac2ba4f06e40a20e20cbc76b7a6c6d9a438c4a30e2acea3be39f57",
    "b105d9600d8cbf5e266a5f54e67e3d41da6505acce657979804a9f6a41b7dad3",
  ],
] as const;

Deno.test("nextRoot() chains block hashes as existing logs do", () => {
  let root = EMPTY_ROOT;
  for (const [block, hash, expected] of VECTORS) {
    assert.equal(sha256Hex(new TextEncoder().encode(block)), hash);
    root = nextRoot(root, hash);
    assert.equal(root, expected);
  }
});

Deno.test("open() refuses a block of which a single bit has changed", async () => {
  const key = await newKey();
  const block = new Uint8Array(await seal(key, new TextEncoder().encode("memory")));
  assert.equal(new TextDecoder().decode(await open(key, block)), "memory");
  for (let i = 0; i < block.length; i++) {
    const changed = block.slice();
    changed[i]! ^= 1;
    await assert.rejects(open(key, changed));
  }
});

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

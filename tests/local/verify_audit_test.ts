/** `deno task verify-audit`: its exit codes and what it says, on real exports. */

import assert from "node:assert/strict";
import type { AuditExport } from "../../supabase/functions/_shared/domain/audit_chain.ts";
import { onOneBackend, type World } from "../support/harness.ts";
import { exportOf } from "../support/stored_ledger.ts";
import { grant, newTeam } from "../support/teams.ts";

const ROOT = new URL("../..", import.meta.url).pathname;

/** Runs the command with no more rights than its task has. */
async function verify(input: string | Uint8Array | undefined, ...args: string[]) {
  const command = ["run", "--allow-read", "--no-prompt", "local/verify_audit.ts"];
  const child = new Deno.Command(Deno.execPath(), {
    args: [...command, ...args],
    cwd: ROOT,
    env: { NO_COLOR: "1" },
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const bytes = typeof input === "string" ? new TextEncoder().encode(input) : input ?? new Uint8Array();
  const writer = child.stdin.getWriter();
  // A command that does not read its input has closed it.
  await writer.write(new Uint8Array(bytes)).then(() => writer.close()).catch(() => {});
  const { code, stdout, stderr } = await child.output();
  const decode = (each: Uint8Array) => new TextDecoder().decode(each).trim();
  return { code, said: decode(stdout), complained: decode(stderr) };
}

async function newExport(world: World): Promise<AuditExport> {
  const team = await newTeam(world);
  for (let i = 0; i < 3; i++) await grant(world, team, team.owner, { role: "admin" });
  return await exportOf(world, team);
}

onOneBackend((test) => {
  test("verify-audit says what it checked, from a file and from standard input", async (world) => {
    const exported = await newExport(world);
    const file = await Deno.makeTempFile();
    try {
      await Deno.writeTextFile(file, JSON.stringify(exported));
      const expected = [
        `VALID: 4 entries, ${exported.entries[0]!.created_at} to ${exported.entries[3]!.created_at}`,
        `Team ${exported.team_id}`,
        `Head 3:${exported.head_hash}`,
        "Keep the head elsewhere and pass it as --head next time: only that shows that nothing was rewritten.",
      ].join("\n");
      assert.deepEqual(await verify(undefined, file), { code: 0, said: expected, complained: "" });
      const pretty = await verify(JSON.stringify(exported, null, 2), "-");
      assert.deepEqual(pretty, { code: 0, said: expected, complained: "" });
    } finally {
      await Deno.remove(file);
    }
  });

  test("verify-audit says so when an export is of a period", async (world) => {
    const whole = await newExport(world);
    const part = { ...whole, from: whole.entries[0]!.created_at };
    const { code, said } = await verify(JSON.stringify(part), "-");
    assert.equal(code, 0);
    assert.match(said, /^VALID SEGMENT: 4 entries, /);
    assert.match(said, /what was before and after it was not checked/);
  });

  test("verify-audit ends with 1 at the first broken entry and names it", async (world) => {
    const exported = await newExport(world);
    const edited = exported.entries.with(2, { ...exported.entries[2]!, actor: "mallory" });
    assert.deepEqual(await verify(JSON.stringify({ ...exported, entries: edited }), "-"), {
      code: 1,
      said: "",
      complained: "BROKEN at entry 2: its entry_hash is not the hash of it.",
    });
    const cut = await verify(JSON.stringify({ ...exported, entries: exported.entries.slice(0, 2) }), "-");
    assert.deepEqual([cut.code, cut.complained], [
      1,
      "BROKEN at entry 2: it is missing: the head is entry 3.",
    ]);
  });

  test("verify-audit takes an earlier head and says whether the ledger still begins with it", async (world) => {
    const exported = await newExport(world);
    const text = JSON.stringify(exported);
    const good = await verify(text, "-", "--head", `1:${exported.entries[1]!.entry_hash}`);
    assert.equal(good.code, 0);
    assert.match(good.said, /\nBegins with the earlier ledger that ended at entry 1\.$/);
    const rewritten = await verify(text, "-", "--head", `1:${exported.entries[2]!.entry_hash}`);
    assert.equal(rewritten.code, 1);
    assert.match(rewritten.complained, /^BROKEN at entry 1: .*rewritten\.$/);
    const shorter = await verify(text, "-", "--head", `9:${exported.head_hash}`);
    assert.deepEqual([shorter.code, /^BROKEN at entry 4: it is missing/.test(shorter.complained)], [1, true]);
  });

  test("verify-audit ends with 2 when there is nothing to check", async (world) => {
    const exported = await newExport(world);
    const text = JSON.stringify(exported);
    const twice = text.replace('"actor":', '"actor":"mallory","actor":');
    const inputs: (string | Uint8Array)[] = [
      "",
      "not JSON",
      "null",
      "[]",
      "{}",
      text.slice(0, -1),
      text + "x",
      twice,
      "[".repeat(200_000),
      `${"[".repeat(200_000)}${"]".repeat(200_000)}`,
      JSON.stringify({ ...exported, format: "v2-agent-state/audit/2" }),
      new Uint8Array([0x22, 0xff, 0x22]),
    ];
    for (const input of inputs) {
      const { code, said, complained } = await verify(input, "-");
      assert.deepEqual([code, said], [2, ""], complained);
      assert.match(complained, /^Cannot (read|check) -: [^\n]+$/);
    }
    assert.match((await verify(twice, "-")).complained, /has a field twice/);
  });

  test("verify-audit ends with 2 when it is called wrongly", async () => {
    const hash = "0".repeat(64);
    const calls = [
      [],
      ["a", "b"],
      [""],
      ["-", "--head"],
      ["-", "--head", "x"],
      ["-", "--head", `-2:${hash}`],
      ["-", "--other"],
    ];
    for (const args of calls) {
      const { code, complained } = await verify(undefined, ...args);
      assert.equal(code, 2, args.join(" "));
      assert.match(complained, /Usage: deno task verify-audit FILE/);
    }
    const missing = await verify(undefined, "/nowhere/audit.json");
    assert.deepEqual([missing.code, /^Cannot read \/nowhere/.test(missing.complained)], [2, true]);
  });
});

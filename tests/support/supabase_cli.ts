/** The Supabase CLI, as an operator runs it: with npx, at the version that docs/deploy.md names. */

const VERSION = "3.1.0";

/** What a command printed, and how it ended. */
export interface CliResult {
  code: number;
  stdout: string;
  stderr: string;
}

/** Runs the CLI to its end. It finds the project in `cwd`. */
export async function runSupabase(args: readonly string[], cwd: string): Promise<CliResult> {
  const output = await new Deno.Command("npx", {
    args: ["-y", `supabase@${VERSION}`, ...args],
    cwd,
    env: { NO_COLOR: "1", DO_NOT_TRACK: "1", SUPABASE_TELEMETRY_DISABLED: "1" },
    stdin: "null",
  }).output();
  const decoder = new TextDecoder();
  return { code: output.code, stdout: decoder.decode(output.stdout), stderr: decoder.decode(output.stderr) };
}

/** Types of schema `api` in a database, as the CLI generates them, formatted. */
export async function generateTypes(databaseUrl: string, cwd: string): Promise<string> {
  const made = await runSupabase(["gen", "types", `--remote=${databaseUrl}`, "--schema", "api"], cwd);
  // A note on how it connected comes before them.
  const start = made.stdout.indexOf("export type Json");
  if (made.code !== 0 || start < 0) throw new Error(`supabase gen types failed:\n${made.stderr}`);
  const formatter = new Deno.Command(Deno.execPath(), {
    args: ["fmt", "--no-config", "--line-width", "110", "--ext", "ts", "-"],
    stdin: "piped",
    stdout: "piped",
  }).spawn();
  const writer = formatter.stdin.getWriter();
  await writer.write(new TextEncoder().encode(made.stdout.slice(start)));
  await writer.close();
  const { code, stdout } = await formatter.output();
  if (code !== 0) throw new Error("The generated types could not be formatted");
  return new TextDecoder().decode(stdout);
}

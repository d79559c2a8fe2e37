/** Fetches the script that draws docs/reference.html from npm: `deno task vendor-reference`. */

import { join } from "node:path";
import { print } from "../local/print.ts";
import { SCALAR, sha256Of, VENDORED } from "./support/reference_page.ts";

const REPOSITORY = join(import.meta.dirname!, "..");

const directory = await Deno.makeTempDir();
try {
  // npm checks what it gets against the registry's own hash; the project checks it against the one it knows.
  await run("npm", ["pack", "--silent", `${SCALAR.name}@${SCALAR.version}`]);
  await run("sh", ["-c", `tar -xzf *.tgz package/${SCALAR.file}`]);
  const text = await Deno.readTextFile(join(directory, "package", SCALAR.file));
  const script = text.replace(/\n?\/\/# sourceMappingURL=.*\s*$/, "\n");
  await Deno.writeTextFile(join(REPOSITORY, VENDORED), script);
  print(`${VENDORED}  ${(script.length / 1e6).toFixed(1)} MB  sha256 ${await sha256Of(script)}`);
} finally {
  await Deno.remove(directory, { recursive: true });
}

async function run(command: string, args: string[]): Promise<void> {
  const { success, stderr } = await new Deno.Command(command, { args, cwd: directory }).output();
  if (!success) throw new Error(`${command} ${args.join(" ")}: ${new TextDecoder().decode(stderr)}`);
}

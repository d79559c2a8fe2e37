/** What docs/audit.md holds for machines: the test vectors and the verifier in Python. */

const PAGE = new URL("../../docs/audit.md", import.meta.url);

/** The page's only block of a language. */
export function readBlock(language: "json" | "python"): string {
  const blocks = [...readPage().matchAll(new RegExp("^```" + language + "\\n([\\s\\S]*?)^```$", "gm"))];
  if (blocks.length !== 1) throw new Error(`docs/audit.md has ${blocks.length} blocks of ${language}`);
  return blocks[0]![1]!;
}

/** The page itself. */
export function readPage(): string {
  return Deno.readTextFileSync(PAGE);
}

/** Runs the page's verifier on an export: its exit code and what it said; undefined where there is no Python. */
export async function runPython(exported: string): Promise<{ code: number; text: string } | undefined> {
  const file = await Deno.makeTempFile();
  try {
    await Deno.writeTextFile(file, exported);
    const command = new Deno.Command("python3", { args: ["-c", readBlock("python"), file], stdin: "null" });
    const { code, stderr } = await command.output();
    return { code, text: new TextDecoder().decode(stderr).trim() };
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  } finally {
    await Deno.remove(file);
  }
}

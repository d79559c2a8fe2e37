/** What the tests prove, counted: each claim with its number of cases, written down where `deno task proof` asks for it. */

/** Whether everything is tried, as `deno task proof` does, or a part that fits beside the other tests. */
export const THOROUGH = Deno.env.get("PROOF") === "thorough";

/** One line of the report. */
export interface Claim {
  claim: string;
  cases: number;
}

/** Says that a claim held in so many cases. To be called when they have all passed. */
export function claim(text: string, cases: number): void {
  const report = Deno.env.get("PROOF_REPORT");
  if (!report) return;
  const line: Claim = { claim: text, cases };
  Deno.writeTextFileSync(report, `${JSON.stringify(line)}\n`, { append: true });
}

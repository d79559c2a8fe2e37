/** What the tests prove, counted: each claim with its number of cases, written down where `deno task proof` asks for it. */

/** Whether everything is tried, as `deno task proof` does, or a part that fits beside the other tests. */
export const THOROUGH = Deno.env.get("PROOF") === "thorough";

/** One line of the report: a claim that is to be proved, or that has held. */
export interface ClaimLine {
  claim: string;
  /** Undefined as long as it is only claimed. */
  cases?: number;
}

let failed = false;

/** Says that a test of this file has failed: none of its claims holds. */
export function noteFailure(): void {
  failed = true;
}

/**
 * Claims something. The function that comes back says in how many cases it held, and is to be called when they have all
 * passed: a claim that nobody says has held has not.
 */
export function openClaim(claim: string): (cases: number) => void {
  write({ claim });
  return (cases) => {
    if (!failed) write({ claim, cases });
  };
}

function write(line: ClaimLine): void {
  const report = Deno.env.get("PROOF_REPORT");
  if (report) Deno.writeTextFileSync(report, `${JSON.stringify(line)}\n`, { append: true });
}

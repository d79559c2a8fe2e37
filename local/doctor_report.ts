/** What the doctor found, as lines for people. */

/** One thing that was looked at. Only `fail` makes a deployment unfit; `warn` is something to know. */
export interface Finding {
  /** A short name, the same whatever was found. */
  check: string;
  state: "ok" | "warn" | "fail";
  /** What was seen. */
  saw: string;
  /** What to do about it; empty when nothing has to be done. */
  mend: string;
}

const MARKS = { ok: "✓", warn: "!", fail: "✗" };

export function ok(check: string, saw: string): Finding {
  return { check, state: "ok", saw, mend: "" };
}

export function warn(check: string, saw: string, mend: string): Finding {
  return { check, state: "warn", saw, mend };
}

export function fail(check: string, saw: string, mend: string): Finding {
  return { check, state: "fail", saw, mend };
}

/** One line for what is well, two for what is not. */
export function show({ check, state, saw, mend }: Finding): string {
  const line = `${MARKS[state]} ${check.padEnd(16)} ${saw}`;
  return mend === "" ? line : `${line}\n  ${"".padEnd(16)} → ${mend}`;
}

/** The last line. */
export function summarise(findings: readonly Finding[]): string {
  const count = (state: Finding["state"]) => findings.filter((each) => each.state === state).length;
  const [failed, warned] = [count("fail"), count("warn")];
  const notes = warned === 0 ? "" : `, ${warned} to know of`;
  return failed === 0
    ? `Healthy: ${findings.length} checks${notes}.`
    : `Unfit: ${failed} of ${findings.length} checks failed${notes}.`;
}

/** Whether a secret is one that somebody could guess: a word from a manual, or hardly any variety. */
export function isPlaceholder(secret: string): boolean {
  return PLACEHOLDERS.includes(secret) || new Set(secret).size < 6 ||
    /change.?me|placeholder|your.?(cron|secret|key)|example|password|secret.?secret|<[^>]*>/i.test(secret);
}

/** What manuals, ours too, write where a secret belongs. */
export const PLACEHOLDERS = [
  "change-me-change-me",
  "changemechangeme",
  "your-cron-secret-here",
  "0123456789abcdef",
  "secret-secret-secret",
];

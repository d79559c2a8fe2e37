/** Looks at a file of settings: what is given to `supabase secrets set --env-file`, or to systemd. */

import { parseEnv } from "node:util";
import { readSettings } from "../supabase/functions/_shared/env.ts";
import { fail, type Finding, isPlaceholder, ok, warn } from "./doctor_report.ts";

/** Variables that let whoever knows them in, or sign for us. */
const SECRETS = [
  "CRON_SECRET",
  "UNSUBSCRIBE_SECRET",
  "POLAR_WEBHOOK_SECRET",
  "POLAR_ACCESS_TOKEN",
  "RESEND_API_KEY",
];

/** What a deployment can do without, and what is missing then. */
const WANTED: [name: string, without: string][] = [
  ["RESEND_API_KEY", "no mail is sent"],
  ["MAIL_FROM", "mails come from no-reply@localhost, which nobody accepts"],
  ["APP_URL", "invitation mails have no link"],
  ["POLAR_ACCESS_TOKEN", "nothing can be sold"],
  ["POLAR_WEBHOOK_SECRET", "nothing that is sold is noticed"],
];

/** Looks at the text of the file. Values of secrets are in no finding. */
export function lookAtSettings(text: string): Finding[] {
  const env = parseEnv(text) as Record<string, string | undefined>;
  const findings: Finding[] = [checkSyntax(env)];
  for (const name of SECRETS) {
    if (env[name] && env[name].split(/\s+/).some(isPlaceholder)) {
      findings.push(fail(`${name} set`, "can be guessed", "Make one: openssl rand -hex 32"));
    }
  }
  if (!env.CRON_SECRET) {
    findings.push(fail("CRON_SECRET set", "is missing: no job can run", "Make one: openssl rand -hex 32"));
  }
  if (
    env.WEBHOOK_ALLOW_PRIVATE && env.WEBHOOK_ALLOW_PRIVATE !== "false" && env.WEBHOOK_ALLOW_PRIVATE !== "0"
  ) {
    findings.push(
      fail(
        "webhooks",
        "may reach private addresses: users could probe the network",
        "Remove WEBHOOK_ALLOW_PRIVATE.",
      ),
    );
  }
  for (const [name, without] of WANTED) {
    if (!env[name]) {
      findings.push(
        warn(`${name} set`, `is missing: ${without}`, "Set it if that is wanted: README, Configuration."),
      );
    }
  }
  if (/sandbox/.test(env.POLAR_API_URL ?? "")) {
    findings.push(warn("POLAR_API_URL set", "is the sandbox: no money moves", "Remove it in production."));
  }
  return findings;
}

function checkSyntax(env: Record<string, string | undefined>): Finding {
  try {
    readSettings(env);
    return ok("settings", `${Object.keys(env).length} variables, all readable`);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    return fail("settings", reason, "README, Configuration, says what each may be.");
  }
}

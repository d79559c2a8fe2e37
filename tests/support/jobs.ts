/** The scheduled jobs for tests: a service that has the secret, and time that passes when a test says so. */

import assert from "node:assert/strict";
import type { Mail } from "../../supabase/functions/_shared/platform/mod.ts";
import type { Answer, Overrides, World } from "./harness.ts";

/** What lets the jobs in. */
export const CRON_SECRET = "a-secret-for-the-jobs-of-tests";

/** What mails need besides: where they unsubscribe, and what signs their tokens. */
export const MAIL_SETTINGS = {
  apiUrl: "https://api.example/functions/v1/v2-agent-state",
  linkSecrets: ["a-secret-that-signs-the-tokens-of-mails"],
};

/** The service with its jobs switched on. */
export function withJobs(world: World, overrides: Overrides = {}) {
  const settings = { cronSecret: CRON_SECRET, ...MAIL_SETTINGS, ...overrides.settings };
  return world.with({ ...overrides, settings });
}

/** The same world, all of whose requests go to the service with its jobs: so each mail that it sends has its links. */
export function worldWithJobs(world: World): World {
  return { ...world, ...withJobs(world) };
}

type Service = Pick<World, "request">;

/** Runs a job and returns its report. */
// deno-lint-ignore no-explicit-any
export async function runJob(service: Service, path: string): Promise<any> {
  const answer = await callJob(service, path);
  assert.equal(answer.status, 200, answer.text);
  return answer.body;
}

/** Asks for a job, with the secret. */
export function callJob(service: Service, path: string): Promise<Answer> {
  return service.request("POST", path, { token: CRON_SECRET, body: {} });
}

/** Lets two days pass for every upload that has not been confirmed. */
export async function endLeases(world: World): Promise<void> {
  await world.sql.query(
    "update app.snapshot_attempts set lease_expires_at = now() - interval '2 days' where status <> 'confirmed'",
  );
}

/** Sends what is due until nothing is; returns what went to an address, oldest first. */
export async function mailsDueTo(world: World, email: string): Promise<Mail[]> {
  await runJob(world, "/lifecycle/dispatch");
  return world.mails.filter(({ to }) => to === email);
}

/** What else belongs to the person who has signed in: settings, telemetry, usage, subscription, salt. Spec 4.6–4.8. */

import { z } from "zod";
import type { AppContext } from "../../_shared/context.ts";
import { parseBody } from "../../_shared/middleware/parse.ts";
import { sessionArguments } from "../../_shared/middleware/require_session.ts";
import { freeText, instant } from "../../_shared/middleware/shapes.ts";
import { KDF_SALT_BYTES, PROJECT_DESC_LENGTH_MAX, PROJECT_NAME_LENGTH_MAX } from "../domain/limits.ts";
import { freeSubscription } from "../domain/plans.ts";

/** PUT /settings: its body. */
export const SETTINGS = z.object({
  project_name: freeText(PROJECT_NAME_LENGTH_MAX).optional(),
  project_desc: freeText(PROJECT_DESC_LENGTH_MAX).optional(),
  session_lock: z.boolean().optional(),
  hosted_sync: z.boolean().optional(),
  telemetry_opt_in: z.boolean().optional(),
});

const count = z.int().min(0).optional();
const COUNTS = { memory_count: count, device_count: count, bytes_stored: count, sync_ops: count };
const AGGREGATES = z.object({ ...COUNTS, window_start: instant.optional() });

/** POST /telemetry: its body. A foreign key is named before anything else: whatever it holds, it is not ours to look at. */
export const REPORT = z.strictObject(
  Object.fromEntries(Object.keys(AGGREGATES.shape).map((key) => [key, z.unknown().optional()])),
  "non_aggregate_field",
).pipe(AGGREGATES);

/** GET /settings: 200 `{settings}`, the defaults when nothing was saved. */
export async function readSettings(c: AppContext): Promise<Response> {
  return c.json({ settings: await c.var.platform.db.call("read_settings", sessionArguments(c)) });
}

/** PUT /settings: changes the fields that are given. 200 with all of them; a wrong type changes none. */
export async function updateSettings(c: AppContext): Promise<Response> {
  const given = await parseBody(c, SETTINGS);
  const settings = await c.var.platform.db.call("update_settings", {
    ...sessionArguments(c),
    p_project_name: given.project_name ?? null,
    p_project_desc: given.project_desc ?? null,
    p_session_lock: given.session_lock ?? null,
    p_hosted_sync: given.hosted_sync ?? null,
    p_telemetry_opt_in: given.telemetry_opt_in ?? null,
  });
  return c.json({ settings });
}

/** POST /telemetry: 201 `{aggregate}`. Errors, in order: `telemetry_disabled`, `non_aggregate_field`. */
export async function reportTelemetry(c: AppContext): Promise<Response> {
  await c.var.platform.db.call("check_telemetry", sessionArguments(c));
  const report = await parseBody(c, REPORT);
  const aggregate = await c.var.platform.db.call("report_telemetry", {
    ...sessionArguments(c),
    p_window_start: report.window_start ?? null,
    p_memory_count: report.memory_count ?? null,
    p_device_count: report.device_count ?? null,
    p_bytes_stored: report.bytes_stored ?? null,
    p_sync_ops: report.sync_ops ?? null,
  });
  return c.json({ aggregate }, 201);
}

/** GET /billing/usage: 200 `{usage}`, over all keys of the caller, in the running cycle. */
export async function readUsage(c: AppContext): Promise<Response> {
  return c.json({ usage: await c.var.platform.db.call("read_usage", sessionArguments(c)) });
}

/** GET /billing/subscription: 200 `{subscription}`; the Free plan when there is none. */
export async function readSubscription(c: AppContext): Promise<Response> {
  const subscription = await c.var.platform.db.call("read_subscription", sessionArguments(c));
  return c.json({
    subscription: subscription ?? freeSubscription(c.var.session.subject, c.var.platform.now()),
  });
}

/** GET /account/kdf-salt and /kdf-salt: 200 `{kdf_salt}`, 32 bytes in base64, the same for ever. */
export async function readKdfSalt(c: AppContext): Promise<Response> {
  const args = {
    ...sessionArguments(c),
    p_fresh_salt: crypto.getRandomValues(new Uint8Array(KDF_SALT_BYTES)),
  };
  return c.json(await c.var.platform.db.call<Record<string, unknown>>("read_kdf_salt", args));
}

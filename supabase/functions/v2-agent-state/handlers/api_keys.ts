/** API keys of the person who has signed in. Spec 2.7 and 4.4. */

import { z } from "zod";
import type { AppContext } from "../../_shared/context.ts";
import { sha256 } from "../../_shared/domain/bytes.ts";
import { maskKey, mintLiveKey } from "../../_shared/domain/credential.ts";
import { limitTries } from "../../_shared/middleware/limit_tries.ts";
import { parse, parseBody } from "../../_shared/middleware/parse.ts";
import { sessionArguments } from "../../_shared/middleware/require_session.ts";
import { name } from "../../_shared/middleware/shapes.ts";
import { RATE_LIMITS } from "../domain/rate_limits.ts";

/**
 * POST /api-keys: its body; DELETE /api-keys/:id: its path. A key without scopes may do everything that an agent does;
 * one with scopes only what they say.
 */
export const NEW_KEY = z.object({ name, scopes: z.tuple([z.literal("vault:check_in")]).nullish() });
export const KEY = z.object({ id: z.uuid("api_key_not_found") });

/** A key as `app.show_api_key` returns it. */
interface ShownKey {
  id: string;
  label: string;
  prefix: string;
  masked_key: string;
  created_at: string;
  /** Absent on an ordinary key. */
  scopes?: string[];
}

/** POST /api-keys: 201 with the new key; `raw_secret` is in this answer and nowhere else. Errors: `rate_limited`. */
export async function createApiKey(c: AppContext): Promise<Response> {
  const body = await parseBody(c, NEW_KEY);
  await limitTries(c, RATE_LIMITS.key_creation);
  const secret = mintLiveKey((count) => crypto.getRandomValues(new Uint8Array(count)));
  const { id, label, prefix, masked_key, created_at, scopes } = await c.var.platform.db.call<ShownKey>(
    "create_api_key",
    {
      ...sessionArguments(c),
      p_name: body.name,
      p_key_hash: sha256(secret),
      p_masked_key: maskKey(secret),
      p_scopes: body.scopes ?? null,
    },
  );
  return c.json({ id, label, prefix, masked_key, raw_secret: secret, created_at, scopes }, 201);
}

/** GET /api-keys: 200, an array of all keys, active and revoked, newest first. */
export async function listApiKeys(c: AppContext): Promise<Response> {
  return c.json(await c.var.platform.db.call<unknown[]>("list_api_keys", sessionArguments(c)));
}

/** DELETE /api-keys/:id: 200 `{id, revoked_at, message}`; revoked for good. Errors: `api_key_not_found`. */
export async function revokeApiKey(c: AppContext): Promise<Response> {
  const { id } = await parse(c, KEY, c.req.param());
  const args = { ...sessionArguments(c), p_key_id: id };
  return c.json(await c.var.platform.db.call<Record<string, unknown>>("revoke_api_key", args));
}

/** Assets of a vault: ciphertext, and its key wrapped for heirs. Spec 4.9; docs/vault.md. */

import { z } from "zod";
import type { AppContext } from "../../_shared/context.ts";
import { parse, parseBody } from "../../_shared/middleware/parse.ts";
import { base64, id, name, wrappedKey } from "../../_shared/middleware/shapes.ts";
import { type AssetRow, showAsset } from "../domain/asset.ts";
import { ASSET_BYTES_MAX, HEIRS_MAX } from "../domain/limits.ts";
import { vaultArguments } from "../middleware/vault_arguments.ts";

const wrappedKeys = z.array(z.object({ heir_id: z.uuid().toLowerCase(), wrapped_key: wrappedKey }))
  .max(HEIRS_MAX)
  .refine((keys) => new Set(keys.map((key) => key.heir_id)).size === keys.length);
export const NEW_ASSET = z.object({
  name,
  ciphertext_b64: base64(ASSET_BYTES_MAX, "ciphertext_too_large"),
  wrapped_keys: wrappedKeys.default([]),
});
export const KEYS = z.object({ wrapped_keys: wrappedKeys.min(1) });
export const ASSET = z.object({ asset_id: id("asset_not_found") });

type Json = Record<string, unknown>;

/** POST /api/vault/:id/asset: 201 with the asset, without its ciphertext. Errors: `unknown_heir`. */
export async function addAsset(c: AppContext): Promise<Response> {
  const vault = await vaultArguments(c);
  const body = await parseBody(c, NEW_ASSET);
  const asset = await c.var.platform.db.call<Json>("add_asset", {
    ...vault,
    p_asset_id: crypto.randomUUID(),
    p_name: body.name,
    p_ciphertext: body.ciphertext_b64,
    p_heir_ids: body.wrapped_keys.map((key) => key.heir_id),
    p_wrapped_keys: body.wrapped_keys.map((key) => key.wrapped_key),
  });
  return c.json(asset, 201);
}

/** POST …/asset/:asset_id/keys: wraps its key for more heirs, or anew. 200 with the asset. */
export async function wrapAsset(c: AppContext): Promise<Response> {
  const asset = await assetArguments(c);
  const body = await parseBody(c, KEYS);
  const args = {
    ...asset,
    p_heir_ids: body.wrapped_keys.map((key) => key.heir_id),
    p_wrapped_keys: body.wrapped_keys.map((key) => key.wrapped_key),
  };
  return c.json(await c.var.platform.db.call<Json>("wrap_asset", args));
}

/** GET …/asset/:asset_id: 200 with the asset and `ciphertext_b64`. */
export async function readAsset(c: AppContext): Promise<Response> {
  const args = await assetArguments(c);
  const [row] = await c.var.platform.db.rows<AssetRow>("read_asset", args, ["ciphertext"]);
  return c.json(showAsset(row!));
}

/** DELETE …/asset/:asset_id: 200 `{id, status: "removed"}`. Errors: `wrong_vault_state` while a release runs. */
export async function removeAsset(c: AppContext): Promise<Response> {
  return c.json(await c.var.platform.db.call<Json>("remove_asset", await assetArguments(c)));
}

async function assetArguments(c: AppContext) {
  const vault = await vaultArguments(c);
  const { asset_id } = await parse(c, ASSET, { asset_id: c.req.param("asset_id") });
  return { ...vault, p_asset_id: asset_id };
}

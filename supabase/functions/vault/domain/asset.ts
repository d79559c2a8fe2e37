/** An asset as it is answered. Pure. */

import { encodeBase64 } from "../../_shared/domain/bytes.ts";

/** An asset and its bytes, as SQL returns them. */
export interface AssetRow {
  asset: Record<string, unknown>;
  ciphertext: Uint8Array;
}

/** An asset with its ciphertext. */
export function showAsset({ asset, ciphertext }: AssetRow): Record<string, unknown> {
  return { ...asset, ciphertext_b64: encodeBase64(ciphertext) };
}

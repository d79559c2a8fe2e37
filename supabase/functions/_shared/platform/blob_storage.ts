/** Blobs in Supabase Storage: one public bucket, objects written once under names that cannot be guessed. */

import type { SupabaseClient } from "@supabase/supabase-js";
import type { BlobStore } from "./mod.ts";

export const BUCKET = "agent-state";
/** Objects never change, so every cache may keep them for a year. */
const CACHE_SECONDS = "31536000";
const TRIES_MAX = 2;

/** Builds the blob store on a client that acts as `service_role`. */
export function openBlobStorage(client: SupabaseClient): BlobStore {
  const bucket = client.storage.from(BUCKET);

  /** The name was made for this one upload: if it is taken, an earlier try got through without our knowing. */
  async function upload(name: string, bytes: Uint8Array): Promise<void> {
    const options = { contentType: "application/octet-stream", cacheControl: CACHE_SECONDS, upsert: false };
    for (let tries = 1;; tries++) {
      const { error } = await bucket.upload(name, bytes, options);
      if (error === null) return;
      const status = Number((error as { statusCode?: string | number }).statusCode ?? error.status);
      if (status === 409) return;
      const mayPass = Number.isNaN(status) || status >= 500 || status === 429;
      if (!mayPass || tries === TRIES_MAX) throw error;
    }
  }

  return {
    async put(name, bytes) {
      await upload(name, bytes);
      // Trust what is kept, not what was answered: a cut-off upload must not become somebody's only copy.
      const { data, error } = await bucket.info(name);
      if (error !== null) throw error;
      // The server of today names the size at the top, others only in the object's metadata.
      const size = data.size ?? data.metadata?.size;
      if (size !== bytes.length) throw new Error(`Stored ${size} bytes instead of ${bytes.length}`);
    },
    publicUrl: (name) => bucket.getPublicUrl(name).data.publicUrl,
    async remove(names) {
      if (names.length === 0) return;
      const { error } = await bucket.remove([...names]);
      if (error !== null) throw error;
    },
    async ping() {
      const { error } = await client.storage.getBucket(BUCKET);
      if (error !== null) throw error;
    },
  };
}

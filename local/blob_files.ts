/** The blob store of the local stack: one file for each blob, served under the URL shape of Supabase Storage. */

import { dirname, join } from "node:path";
import type { BlobStore } from "../supabase/functions/_shared/platform/mod.ts";
import { syncDirectory, writeDurably } from "./files.ts";

const PUBLIC_PATH = "/storage/v1/object/public/agent-state/";
const NAME = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?:\/[A-Za-z0-9_=.-]+)+$/;

/** File systems end at 255 bytes for one segment of a path. */
const LONGEST_SEGMENT = 240;

/** Opens the store under `root`, made first if need be. `origin` is asked at each use. */
export async function openBlobFiles(root: string, origin: () => string): Promise<BlobStore> {
  const temporaries = join(root, ".tmp");
  // Nothing acknowledged is in there: what a crash left is of no use.
  await Deno.remove(temporaries, { recursive: true }).catch(ignoreMissing);
  await Deno.mkdir(temporaries, { recursive: true });
  await syncDirectory(dirname(root));

  return {
    async put(name, bytes) {
      const path = pathOf(root, name);
      const temporary = join(temporaries, crypto.randomUUID());
      try {
        using file = await Deno.open(temporary, { write: true, createNew: true });
        await writeDurably(file, bytes);
        await moveInto(temporary, path);
      } catch (error) {
        await Deno.remove(temporary).catch(ignoreMissing);
        throw error;
      }
      for (let directory = dirname(path); directory.length >= root.length; directory = dirname(directory)) {
        await syncDirectory(directory);
      }
    },

    publicUrl(name) {
      pathOf(root, name);
      return `${origin()}${PUBLIC_PATH}${name}`;
    },

    async remove(names) {
      for (const name of names) {
        const path = pathOf(root, name);
        await Deno.remove(path).catch(ignoreMissing);
        for (let directory = dirname(path); directory.length > root.length; directory = dirname(directory)) {
          // Refused, and rightly, while another blob is in there.
          const removed = await Deno.remove(directory).then(() => true, () => false);
          if (!removed) break;
        }
      }
    },

    async ping() {
      const probe = join(temporaries, crypto.randomUUID());
      await Deno.writeFile(probe, new Uint8Array(1), { createNew: true });
      await Deno.remove(probe);
    },
  };
}

/** Answers a request for a public blob: its bytes, or 404. */
export async function serveBlob(request: Request, root: string): Promise<Response> {
  const name = requestedName(request);
  if (name === undefined) return notFound();
  let file: Deno.FsFile;
  try {
    file = await Deno.open(pathOf(root, name));
  } catch (error) {
    if (error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory) {
      return notFound();
    }
    throw error;
  }
  const { size, isFile } = await file.stat();
  const empty = request.method === "HEAD" || !isFile;
  if (empty) file.close();
  if (!isFile) return notFound();
  return new Response(empty ? null : file.readable, {
    headers: {
      "content-length": String(size),
      "content-type": "application/octet-stream",
      // A name is never used again for other bytes.
      "cache-control": "public, max-age=31536000, immutable",
      "x-content-type-options": "nosniff",
      "access-control-allow-origin": "*",
    },
  });
}

function requestedName(request: Request): string | undefined {
  const { pathname } = new URL(request.url);
  if (!pathname.startsWith(PUBLIC_PATH) || !["GET", "HEAD"].includes(request.method)) return undefined;
  try {
    const name = decodeURIComponent(pathname.slice(PUBLIC_PATH.length));
    return isName(name) ? name : undefined;
  } catch {
    return undefined;
  }
}

function isName(name: string): boolean {
  return NAME.test(name) && !name.split("/").some((segment) => /^\.+$/.test(segment));
}

/** The file of a blob. Throws on what is no name of one. */
export function pathOf(root: string, name: string): string {
  if (!isName(name)) throw new TypeError("Not a blob's name");
  return join(root, ...name.split("/").flatMap(shorten));
}

/**
 * Splits a segment that is too long for a file system into several. The `+` marks a split, and is in no name, so
 * that two names never meet in one path.
 */
function shorten(segment: string): string[] {
  const parts = segment.match(new RegExp(`.{1,${LONGEST_SEGMENT}}`, "g")) ?? [];
  return parts.map((part, index) => index < parts.length - 1 ? `${part}+` : part);
}

/** Renames, making the directories of `path`; a concurrent removal may take them away in between. */
async function moveInto(temporary: string, path: string): Promise<void> {
  for (let tries = 1;; tries++) {
    await Deno.mkdir(dirname(path), { recursive: true });
    try {
      return await Deno.rename(temporary, path);
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound) || tries === 3) throw error;
    }
  }
}

function notFound(): Response {
  return Response.json({ error: "not_found" }, {
    status: 404,
    headers: { "access-control-allow-origin": "*", "cache-control": "no-store" },
  });
}

function ignoreMissing(error: unknown): void {
  if (!(error instanceof Deno.errors.NotFound)) throw error;
}

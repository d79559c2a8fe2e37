/** The file blob store: durable, idempotent, and deaf to odd names. */

import assert from "node:assert/strict";
import { openBlobFiles, serveBlob } from "../../local/blob_files.ts";

const UUID = "0b9d1c52-7a44-4e1f-9f3c-2f6f1a0c9d11";
const ORIGIN = "http://127.0.0.1:1";

Deno.test("blobs: a stored blob is served with headers for ever, HEAD included", () =>
  withStore(async (store, root) => {
    const name = `${UUID}/user/agent=2F.x/0.bin`;
    const bytes = new Uint8Array(70_000).map((_, i) => i * 31);
    await store.put(name, bytes);
    await store.put(name, bytes);
    const url = store.publicUrl(name);
    assert.equal(url, `${ORIGIN}/storage/v1/object/public/agent-state/${name}`);

    const response = await serveBlob(new Request(url), root);
    assert.equal(response.status, 200);
    assert.equal(response.headers.get("content-type"), "application/octet-stream");
    assert.match(response.headers.get("cache-control")!, /immutable/);
    assert.deepEqual(new Uint8Array(await response.arrayBuffer()), bytes);

    const head = await serveBlob(new Request(url, { method: "HEAD" }), root);
    assert.equal(head.headers.get("content-length"), "70000");
    assert.equal(head.body, null);
  }));

Deno.test("blobs: a segment longer than a file name may be is kept and served", () =>
  withStore(async (store, root) => {
    const name = `${UUID}/${"a".repeat(900)}/0`;
    await store.put(name, new Uint8Array([7]));
    const response = await serveBlob(new Request(store.publicUrl(name)), root);
    assert.deepEqual(new Uint8Array(await response.arrayBuffer()), new Uint8Array([7]));
  }));

Deno.test("blobs: removing twice is fine, and leaves no directories", () =>
  withStore(async (store, root) => {
    await store.put(`${UUID}/a/1`, new Uint8Array([1]));
    await store.put(`${UUID}/a/2`, new Uint8Array([2]));
    await store.remove([`${UUID}/a/1`, `${UUID}/a/1`, `${UUID}/never/was`]);
    assert.equal((await serveBlob(new Request(store.publicUrl(`${UUID}/a/1`)), root)).status, 404);
    const other = await serveBlob(new Request(store.publicUrl(`${UUID}/a/2`)), root);
    assert.equal((await other.arrayBuffer()).byteLength, 1);
    await store.remove([`${UUID}/a/2`]);
    assert.deepEqual(Array.from(Deno.readDirSync(root), ({ name }) => name), [".tmp"]);
  }));

Deno.test("blobs: names outside the safe characters are refused, and never served", () =>
  withStore(async (store, root) => {
    const odd = ["", "x", UUID, "not-a-uuid/a", "/etc/passwd", "../a"];
    const oddSegments = [
      "..",
      ".",
      "a//b",
      "../../x",
      "a/../b",
      "ä",
      "a b",
      "a%2Fb",
      "a\\b",
      "a\0",
      "a\n",
      "a/",
    ];
    for (const name of [...odd, ...oddSegments.map((segment) => `${UUID}/${segment}`)]) {
      await assert.rejects(store.put(name, new Uint8Array(1)), TypeError, name);
      await assert.rejects(store.remove([name]), TypeError, name);
      const url = `${ORIGIN}/storage/v1/object/public/agent-state/${name}`;
      assert.equal((await serveBlob(new Request(url), root)).status, 404, name);
    }
    const encoded = `${ORIGIN}/storage/v1/object/public/agent-state/${UUID}/%2e%2e%2f%2e%2e%2fsecret`;
    assert.equal((await serveBlob(new Request(encoded), root)).status, 404);
  }));

Deno.test("blobs: what a crash left half-written goes at the next start", () =>
  withStore(async (_store, root) => {
    await Deno.writeTextFile(`${root}/.tmp/left-over`, "half");
    const store = await openBlobFiles(root, () => ORIGIN);
    assert.deepEqual(Array.from(Deno.readDirSync(`${root}/.tmp`)), []);
    await store.ping();
  }));

async function withStore(
  run: (store: Awaited<ReturnType<typeof openBlobFiles>>, root: string) => Promise<void>,
): Promise<void> {
  const directory = await Deno.makeTempDir();
  try {
    const root = `${directory}/blobs`;
    await run(await openBlobFiles(root, () => ORIGIN), root);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}

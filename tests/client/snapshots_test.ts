/** Snapshots through the client: what is stored comes back, and what is not as it was stored does not. */

import assert from "node:assert/strict";
import { AgentStateClient, generateKey, type Json, seal } from "../../client/mod.ts";
import {
  ConflictError,
  IntegrityError,
  NetworkError,
  NotFoundError,
  RollbackError,
  TooLargeError,
} from "../../client/errors.ts";
import { createMemoryStore } from "../../client/store.ts";
import { encodeText } from "../../client/bytes.ts";
import { canonicalize } from "../../client/canonical_json.ts";
import { hashDocument } from "../../client/snapshot_document.ts";
import type { FoundSnapshot, LineageEntry } from "../../client/wire.ts";
import { onEveryBackend, onOneBackend } from "../support/harness.ts";
import { newClient, newToken, serve, spoil } from "./support.ts";

const STATE: Json = { goal: "write the report", notes: ["ü", "🦉", "\u0000"], steps: { b: 1.5, a: null } };

function failsWith(code: string, kind: new (...args: never[]) => Error = IntegrityError) {
  return (error: Error & { code?: string }) => error instanceof kind && error.code === code;
}

onEveryBackend((test) => {
  test("client: a new device with address, token and key has every snapshot back", async (world) => {
    await using served = serve(world);
    const [token, key] = [newToken(), generateKey()];
    const first = newClient(served, { token });
    for (const step of [0, 1, 2]) {
      const receipt = await first.snapshot({ key, payload: { step, STATE } });
      assert.equal(receipt.sequence_number, step);
      assert.equal(receipt.storage_path, `agent/seq-${step}-${receipt.client_payload_hash.slice(0, 12)}.bin`);
    }

    const second = newClient(served, { token });
    assert.deepEqual((await second.restore({ key })).payload, { step: 2, STATE });
    assert.deepEqual((await second.restoreAt({ sequence: 0, key })).payload, { step: 0, STATE });
    assert.deepEqual((await second.lineage()).map((entry) => entry.sequence_number), [2, 1, 0]);
    assert.equal((await second.snapshot({ key, payload: "anything" })).sequence_number, 3);
  });
});

onOneBackend((test) => {
  test("client: agents with names of every kind keep apart", async (world) => {
    await using served = serve(world);
    const [token, key] = [newToken(), generateKey()];
    const names = ["a/b", "a%2Fb", "..", ".", "latest", "ü 🦉", "x".repeat(512), "?q=1#f"];
    for (const agentId of names) {
      await newClient(served, { token, agentId }).snapshot({ key, payload: agentId });
    }
    for (const agentId of names) {
      const { payload } = await newClient(served, { token, agentId }).restore({ key });
      assert.equal(payload, agentId);
    }
  });

  test("client: an agent without snapshots is NotFoundError", async (world) => {
    await using served = serve(world);
    const client = newClient(served);
    await assert.rejects(
      client.restore({ key: generateKey() }),
      failsWith("no_snapshots_for_agent", NotFoundError),
    );
    assert.deepEqual(await client.lineage(), []);
  });

  test("client: another key, or one changed bit of the ciphertext, restores nothing", async (world) => {
    await using served = serve(world);
    const [token, key] = [newToken(), generateKey()];
    const client = newClient(served, { token });
    await client.snapshot({ key, payload: STATE });
    await assert.rejects(client.restore({ key: generateKey() }), failsWith("decryption_failed"));

    let change = (bytes: Uint8Array) => bytes;
    const meddled = newClient(served, {
      token,
      async fetch(url, init) {
        const response = await fetch(url, init);
        if (url.startsWith(served.baseUrl)) return response;
        return new Response(change(new Uint8Array(await response.arrayBuffer())) as BodyInit);
      },
    });
    assert.deepEqual((await meddled.restore({ key })).payload, STATE);
    change = (bytes) => bytes.map((byte, i) => i === 40 ? byte ^ 1 : byte);
    await assert.rejects(meddled.restore({ key }), failsWith("decryption_failed"));
    change = (bytes) => bytes.subarray(1);
    await assert.rejects(meddled.restore({ key }), failsWith("size_mismatch"));
  });

  test("client: no snapshot can stand in for another, and a missing parent is noticed", async (world) => {
    await using served = serve(world);
    const [token, key] = [newToken(), generateKey()];
    const client = newClient(served, { token });
    for (const step of [0, 1, 2]) await client.snapshot({ key, payload: step });
    const stranger = () => newClient(served, { token });

    const older = await (await fetch(`${served.baseUrl}/snapshot/agent/1`, {
      headers: { authorization: `Bearer ${token}` },
    })).json() as FoundSnapshot;
    served.meddle(spoil(/GET .*latest/, (found: FoundSnapshot) => ({
      receipt: { ...older.receipt, sequence_number: found.receipt.sequence_number },
      ciphertextUrl: older.ciphertextUrl,
    })));
    await assert.rejects(stranger().restore({ key }), failsWith("lineage_broken"));

    served.meddle(spoil(/GET .*latest/, ({ receipt, ciphertextUrl }: FoundSnapshot) => ({
      receipt: { ...receipt, client_payload_hash: "0".repeat(64) },
      ciphertextUrl,
    })));
    await assert.rejects(stranger().restore({ key }), failsWith("payload_hash_mismatch"));

    served.meddle(spoil(/GET .*\/1$/, (found: FoundSnapshot) => ({
      ...found,
      receipt: { ...found.receipt, storage_path: "agent/seq-1-000000000000.bin" },
    })));
    await assert.rejects(stranger().restore({ key }), failsWith("lineage_broken"));

    served.meddle(spoil(/lineage/, (entries: LineageEntry[]) => entries.toSpliced(1, 1)));
    await assert.rejects(stranger().lineage(), failsWith("lineage_broken"));
    served.meddle(spoil(/GET .*\/0$/, () => older));
    await assert.rejects(stranger().restoreAt({ sequence: 0, key }), failsWith("lineage_broken"));
  });

  test("client: a service that forgets what it acknowledged raises the alarm, in a later process too", async (world) => {
    await using served = serve(world);
    const [token, key, store] = [newToken(), generateKey(), createMemoryStore()];
    const client = newClient(served, { token, store });
    for (const step of [0, 1]) await client.snapshot({ key, payload: step });
    const later = () => newClient(served, { token, store });

    served.meddle((request, forward) =>
      forward(new Request(request.url.replace("latest", "0"), { headers: request.headers }))
    );
    await assert.rejects(later().restore({ key }), RollbackError);
    await assert.rejects(later().snapshot({ key, payload: 2 }), RollbackError);
    served.meddle(() => Promise.resolve(Response.json({ error: "no_snapshots_for_agent" }, { status: 404 })));
    await assert.rejects(later().restore({ key }), RollbackError);
    served.meddle(spoil(/lineage/, () => []));
    await assert.rejects(later().lineage(), RollbackError);

    served.meddle(undefined);
    assert.equal((await later().restore({ key })).payload, 1);
  });

  test("client: an answer that is lost is asked for again, stored once and charged once", async (world) => {
    await using served = serve(world);
    const client = newClient(served);
    const key = generateKey();
    let lost = 0;
    served.meddle(async (request, forward) => {
      const response = await forward(request);
      if (request.method !== "POST" || lost++ > 0) return response;
      await response.body?.cancel();
      return new Response("cut off", { status: 502 });
    });
    assert.equal((await client.snapshot({ key, payload: 0 })).sequence_number, 0);
    assert.equal((await client.snapshot({ key, payload: 1 })).sequence_number, 1);
    assert.equal(served.requests.filter((each) => each.startsWith("POST")).length, 3);
  });

  test("client: another writer makes it ConflictError, and the next snapshot goes after theirs", async (world) => {
    await using served = serve(world);
    const [token, key] = [newToken(), generateKey()];
    const [one, other] = [newClient(served, { token }), newClient(served, { token })];
    await one.snapshot({ key, payload: "one" });
    await other.snapshot({ key, payload: "other" });
    await assert.rejects(one.snapshot({ key, payload: "one again" }), ConflictError);
    assert.equal((await one.snapshot({ key, payload: "one again" })).sequence_number, 2);
    await assert.rejects(one.snapshot({ key, payload: "far", sequence: 7, parent: "x" }), ConflictError);
  });

  test("client: concurrent snapshots of one client take their turn", async (world) => {
    await using served = serve(world);
    const client = newClient(served);
    const key = generateKey();
    const receipts = await Promise.all([0, 1, 2, 3].map((payload) => client.snapshot({ key, payload })));
    assert.deepEqual(receipts.map((receipt) => receipt.sequence_number), [0, 1, 2, 3]);
    assert.equal((await client.restoreAt({ sequence: 2, key })).payload, 2);
  });

  test("client: what is too large, or no JSON, is refused before anything is sent", async (world) => {
    await using served = serve(world);
    const client = newClient(served);
    const key = generateKey();
    await client.snapshot({ key, payload: "x".repeat(200_000) });
    await assert.rejects(
      client.snapshot({ key, payload: "x".repeat(262_144) }),
      failsWith("ciphertext_too_large", TooLargeError),
    );
    const noJson = [undefined, NaN, "\ud800", new Map(), () => 1] as unknown as Json[];
    for (const payload of noJson) await assert.rejects(client.snapshot({ key, payload }));
    assert.equal(served.requests.filter((each) => each.startsWith("POST")).length, 1);
  });

  test("client: a snapshot of an existing client, without salt, is read", async (world) => {
    await using served = serve(world);
    const [token, key] = [newToken(), generateKey()];
    const envelope = {
      agent_id: "agent",
      sequence_number: 0,
      parent_snapshot: null,
      policy_hash: "0".repeat(64),
      timestamp: "2026-01-01T00:00:00.000Z",
    };
    const document = { ...envelope, active_context: { project: "acme" }, wallet_balances: {} };
    const client_payload_hash = hashDocument(document);
    const block = await seal(key, encodeText(canonicalize({ ...document, client_payload_hash })));
    const ciphertext_b64 = block.toBase64();
    const stored = await fetch(`${served.baseUrl}/snapshot`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}` },
      body: JSON.stringify({ ...envelope, client_payload_hash, ciphertext_b64, byte_size: block.length }),
    });
    assert.equal(stored.status, 200, await stored.text());
    const restored = await newClient(served, { token }).restore({ key });
    assert.deepEqual(restored.payload, { project: "acme" });
    assert.deepEqual(restored.document.wallet_balances, {});
  });

  test("client: no address answers, and it says so after its tries", async () => {
    const client = new AgentStateClient({
      baseUrl: "http://127.0.0.1:9/x",
      token: newToken(),
      agentId: "a",
      sleep: () => Promise.resolve(),
    });
    await assert.rejects(client.lineage(), failsWith("network_error", NetworkError));
  });
});

/**
 * Object storage for tests: what the service asks of Supabase Storage, over real HTTP, and every way in which it can
 * fail. Objects outlive the faults, so that a test can look at what is really kept.
 */

import { Buffer } from "node:buffer";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** What the service asks for. `download` is a client's own request for a public object. */
export type StorageRequest = "upload" | "info" | "remove" | "bucket" | "download";

/** How a request goes wrong. */
export type StorageFailure =
  /** Answers with this status and does nothing. */
  | { kind: "status"; status: number }
  /** Breaks the connection off and does nothing. */
  | { kind: "cut" }
  /** Does it, then breaks the connection off. */
  | { kind: "cut after" }
  /** Does it, then answers with this status. */
  | { kind: "status after"; status: number }
  /** Keeps only the first half of the bytes and says that all is well. */
  | { kind: "truncate" }
  /** Does nothing until the fault is lifted, then goes on as usual. */
  | { kind: "stall" }
  /** Does it, and holds the answer back until the fault is lifted. */
  | { kind: "stall after" }
  /** Says that all is well and does nothing. */
  | { kind: "lie" };

/** What goes wrong, and how often. */
export interface StorageFault {
  request: StorageRequest;
  failure: StorageFailure;
  /** How many requests it meets; all of them when left out. */
  times?: number;
}

/** A running store. */
export interface StorageServer extends AsyncDisposable {
  /** What SUPABASE_URL is set to. */
  url: string;
  /** The objects, by their names in the bucket. */
  readonly objects: Map<string, Uint8Array>;
  /** Paths that were asked for, exactly as they came over the wire. */
  readonly paths: string[];
  inject(fault: StorageFault): { readonly hits: number; lift(): void };
}

interface Active {
  fault: StorageFault;
  hits: number;
  lifted: Promise<void>;
  lift(): void;
}

const BUCKET = "agent-state";
const OBJECT = `/storage/v1/object/${BUCKET}/`;
const INFO = `/storage/v1/object/info/${BUCKET}/`;
const PUBLIC = `/storage/v1/object/public/${BUCKET}/`;

/** Starts an empty store. */
export async function startStorageServer(): Promise<StorageServer> {
  const objects = new Map<string, Uint8Array>();
  const faults = new Set<Active>();
  const paths: string[] = [];

  function take(request: StorageRequest): Active | undefined {
    for (const active of faults) {
      if (active.fault.request !== request) continue;
      active.hits++;
      if (active.hits >= (active.fault.times ?? Infinity)) faults.delete(active);
      return active;
    }
    return undefined;
  }

  async function answer(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = incoming.url ?? "/";
    paths.push(path);
    const body = await readBody(incoming);
    const { request, act } = understand(objects, incoming.method ?? "GET", path, body);
    const active = request === undefined ? undefined : take(request);
    const failure = active?.fault.failure;
    switch (failure?.kind) {
      case undefined:
        return reply(response, act(body));
      case "status":
        return reply(response, refusal(failure.status));
      case "cut":
        return void incoming.socket.destroy();
      case "cut after":
        act(body);
        return void incoming.socket.destroy();
      case "status after":
        act(body);
        return reply(response, refusal(failure.status));
      case "truncate":
        return reply(response, act(body.subarray(0, body.length >> 1)));
      case "stall":
        await active!.lifted;
        return reply(response, act(body));
      case "stall after": {
        const done = act(body);
        await active!.lifted;
        return reply(response, done);
      }
      case "lie":
        return reply(response, json(200, {}));
    }
  }

  const server = createServer((incoming, response) => {
    answer(incoming, response).catch(() => incoming.socket.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    objects,
    paths,
    inject(fault) {
      const { promise: lifted, resolve } = Promise.withResolvers<void>();
      const active: Active = { fault, hits: 0, lifted, lift: resolve };
      faults.add(active);
      return {
        get hits() {
          return active.hits;
        },
        lift() {
          faults.delete(active);
          resolve();
        },
      };
    },
    async [Symbol.asyncDispose]() {
      for (const active of faults) active.lift();
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}

interface Reply {
  status: number;
  type: string;
  body: Uint8Array | string;
}

/** What a request asks for, and how it is done. Deciding is apart from doing, so that a fault can come in between. */
function understand(
  objects: Map<string, Uint8Array>,
  method: string,
  path: string,
  sent: Uint8Array,
): { request: StorageRequest | undefined; act(body: Uint8Array): Reply } {
  const nameAfter = (prefix: string) => decodeURIComponent(path.slice(prefix.length));
  if (method === "POST" && path.startsWith(OBJECT)) {
    const name = nameAfter(OBJECT);
    return { request: "upload", act: (body) => store(objects, name, body) };
  }
  if (method === "GET" && path.startsWith(INFO)) {
    const found = objects.get(nameAfter(INFO));
    return {
      request: "info",
      act: () => found === undefined ? refusal(404) : json(200, { size: found.length }),
    };
  }
  if (method === "GET" && path.startsWith(PUBLIC)) {
    const found = objects.get(nameAfter(PUBLIC));
    return {
      request: "download",
      act: () =>
        found === undefined ? refusal(404) : { status: 200, type: "application/octet-stream", body: found },
    };
  }
  if (method === "DELETE" && path === OBJECT.slice(0, -1)) {
    const { prefixes } = JSON.parse(new TextDecoder().decode(sent)) as { prefixes: string[] };
    return { request: "remove", act: () => remove(objects, prefixes) };
  }
  if (method === "GET" && path === `/storage/v1/bucket/${BUCKET}`) {
    return { request: "bucket", act: () => json(200, { id: BUCKET, name: BUCKET, public: true }) };
  }
  return { request: undefined, act: () => refusal(404) };
}

function store(objects: Map<string, Uint8Array>, name: string, body: Uint8Array): Reply {
  // As Supabase says that a name is taken: the status is in the body.
  if (objects.has(name)) return json(400, { statusCode: "409", error: "Duplicate", message: "exists" });
  objects.set(name, body.slice());
  return json(200, { Id: crypto.randomUUID(), Key: `${BUCKET}/${name}` });
}

function remove(objects: Map<string, Uint8Array>, names: string[]): Reply {
  const removed = names.filter((name) => objects.delete(name));
  return json(200, removed.map((name) => ({ name })));
}

function refusal(status: number): Reply {
  return json(status, { statusCode: String(status), error: "Failure", message: "told to fail" });
}

function json(status: number, value: unknown): Reply {
  return { status, type: "application/json", body: JSON.stringify(value) };
}

function reply(response: ServerResponse, { status, type, body }: Reply): void {
  response.writeHead(status, { "content-type": type, "content-length": Buffer.byteLength(body) });
  response.end(body);
}

async function readBody(incoming: IncomingMessage): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  for await (const part of incoming) parts.push(part as Uint8Array);
  return new Uint8Array(Buffer.concat(parts));
}

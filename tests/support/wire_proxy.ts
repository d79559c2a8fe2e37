/**
 * Stands between the service and Postgres, and speaks enough of the protocol to break a connection at a chosen moment
 * of one call: before the call is sent, when it has run but is not committed, when it is committed but not answered.
 */

/** Where a call is broken. */
export type Moment =
  /** The server never hears of it. */
  | "unsent"
  /** The server has run it and is waiting for the Sync that would commit it. */
  | "uncommitted"
  /** It is committed, and nothing of the answer comes through. */
  | "unanswered"
  /** It is committed, and half of the answer comes through. */
  | "half answered"
  /** It waits in front of the server until the fault is lifted. */
  | "stalled";

/** What to break. */
export interface WireFault {
  /** The function of schema `api` whose calls are meant; any when left out. */
  call?: string;
  moment: Moment;
  /** How many calls are broken; all of them when left out. */
  times?: number;
}

/** A fault that is under way. */
export interface InjectedFault {
  /** How many calls it has broken so far. */
  readonly hits: number;
  lift(): void;
}

/** A running proxy. */
export interface WireProxy extends AsyncDisposable {
  /** The connection string that leads through it. */
  url: string;
  inject(fault: WireFault): InjectedFault;
  /** Whether new connections are closed as they come. */
  refusing: boolean;
  /** Ends every connection there is. */
  cutAll(): void;
  /** Calls that came by, oldest first. */
  readonly calls: string[];
}

interface Active {
  fault: WireFault;
  hits: number;
  lifted: Promise<void>;
  lift(): void;
}

/** Starts a proxy in front of the Postgres of a connection string. */
export function startWireProxy(databaseUrl: string): WireProxy {
  const upstream = new URL(databaseUrl);
  const target = { hostname: upstream.hostname, port: Number(upstream.port || "5432") };
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const links = new Set<Link>();
  const faults = new Set<Active>();
  const calls: string[] = [];

  /** The fault that is due for a call, counted as having hit. */
  function take(call: string): Active | undefined {
    calls.push(call);
    for (const active of faults) {
      const { fault } = active;
      if (fault.call !== undefined && fault.call !== call) continue;
      active.hits++;
      if (active.hits >= (fault.times ?? Infinity)) faults.delete(active);
      return active;
    }
    return undefined;
  }

  async function accept(): Promise<void> {
    for await (const client of listener) {
      if (proxy.refusing) {
        client.close();
        continue;
      }
      open(client).catch(() => close(client));
    }
  }

  async function open(client: Deno.TcpConn): Promise<void> {
    const server = await Deno.connect(target);
    // The proxy is not to slow down what it does not break: small messages would wait 40 ms for an acknowledgement.
    for (const connection of [client, server]) connection.setNoDelay(true);
    const link = new Link(client, server, take);
    links.add(link);
    await link.run();
    links.delete(link);
  }

  const accepting = accept().catch(() => {});
  const url = new URL(databaseUrl);
  url.hostname = "127.0.0.1";
  url.port = String(listener.addr.port);
  const proxy: WireProxy = {
    url: url.href,
    refusing: false,
    calls,
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
    cutAll() {
      for (const link of links) link.cut();
    },
    async [Symbol.asyncDispose]() {
      for (const active of faults) active.lift();
      listener.close();
      proxy.cutAll();
      await accepting;
    },
  };
  return proxy;
}

const SYNC = "S".charCodeAt(0);
const FLUSH = Uint8Array.of("H".charCodeAt(0), 0, 0, 0, 4);
/** What ends a batch of a client: Sync, a simple Query, Flush, Terminate, a password, a function call. */
const ENDS_BATCH = new Set(Array.from("SQHXpF", (letter) => letter.charCodeAt(0)));

/** One client's connection and its twin to the server. */
class Link {
  /** What is done with the server's bytes: passed on, or looked at while a fault is under way. */
  #receive: ((bytes: Uint8Array) => Promise<void>) | undefined;
  /** Which function a prepared statement calls. */
  readonly #statements = new Map<string, string>();

  constructor(
    private readonly client: Deno.Conn,
    private readonly server: Deno.Conn,
    private readonly take: (call: string) => Active | undefined,
  ) {}

  async run(): Promise<void> {
    await Promise.race([this.#fromClient().catch(() => {}), this.#fromServer().catch(() => {})]);
    this.cut();
  }

  cut(): void {
    close(this.client);
    close(this.server);
  }

  async #fromServer(): Promise<void> {
    for (let bytes = await read(this.server); bytes !== null; bytes = await read(this.server)) {
      await (this.#receive?.(bytes) ?? writeAll(this.client, bytes));
    }
  }

  async #fromClient(): Promise<void> {
    const messages = new Splitter(true);
    let batch: Uint8Array[] = [];
    let call: string | undefined;
    for (let bytes = await read(this.client); bytes !== null; bytes = await read(this.client)) {
      for (const message of messages.push(bytes)) {
        batch.push(message);
        call = this.#calledBy(message) ?? call;
        // The first message of a connection has no type, and is sent on as it is.
        if (!messages.started || ENDS_BATCH.has(message[0]!)) {
          await this.#send(batch, call);
          batch = [];
          call = undefined;
        }
      }
    }
  }

  async #send(batch: Uint8Array[], call: string | undefined): Promise<void> {
    const active = call === undefined ? undefined : this.take(call);
    switch (active?.fault.moment) {
      case undefined:
        break;
      case "stalled":
        await active!.lifted;
        break;
      case "unsent":
        return this.cut();
      case "uncommitted":
        this.#cutWhen("CE", 0);
        // Everything but the Sync; Flush makes the server say how it went.
        for (const message of batch) if (message[0] !== SYNC) await writeAll(this.server, message);
        return await writeAll(this.server, FLUSH);
      case "unanswered":
        this.#cutWhen("Z", 0);
        break;
      case "half answered":
        this.#cutWhen("Z", 0.5);
        break;
    }
    await writeAll(this.server, join(batch));
  }

  /** Keeps what the server says back until one of these messages has come, passes `share` of it on, and cuts. */
  #cutWhen(types: string, share: number): void {
    const messages = new Splitter(false);
    const kept: Uint8Array[] = [];
    this.#receive = async (bytes) => {
      kept.push(bytes);
      for (const message of messages.push(bytes)) {
        if (!types.includes(String.fromCharCode(message[0]!))) continue;
        const all = join(kept);
        if (share > 0) await writeAll(this.client, all.subarray(0, Math.floor(all.length * share)));
        return this.cut();
      }
    };
  }

  /** The function that a Parse or a Bind is about. */
  #calledBy(message: Uint8Array): string | undefined {
    const type = String.fromCharCode(message[0]!);
    if (type !== "P" && type !== "B") return undefined;
    const [first = "", second = ""] = readStrings(message.subarray(5), 2);
    if (type === "B") return this.#statements.get(second);
    const call = /\bapi\.(\w+)\(/.exec(second)?.[1];
    if (call !== undefined) this.#statements.set(first, call);
    return call;
  }
}

/** Cuts a stream of bytes into messages: a type, a length that counts itself, and the rest. */
class Splitter {
  #rest = new Uint8Array();
  /** Whether the connection's first message, which has no type, has been seen. */
  started: boolean;

  constructor(isClient: boolean) {
    this.started = !isClient;
  }

  *push(bytes: Uint8Array): Generator<Uint8Array> {
    this.#rest = join([this.#rest, bytes]);
    for (;;) {
      const head = this.started ? 1 : 0;
      if (this.#rest.length < head + 4) return;
      const size = head + new DataView(this.#rest.buffer, this.#rest.byteOffset).getUint32(head);
      if (this.#rest.length < size) return;
      const message = this.#rest.subarray(0, size);
      this.#rest = this.#rest.subarray(size);
      yield message;
      this.started = true;
    }
  }
}

function readStrings(bytes: Uint8Array, count: number): string[] {
  const strings: string[] = [];
  for (let start = 0; strings.length < count;) {
    const end = bytes.indexOf(0, start);
    if (end < 0) break;
    strings.push(new TextDecoder().decode(bytes.subarray(start, end)));
    start = end + 1;
  }
  return strings;
}

function join(parts: Uint8Array[]): Uint8Array<ArrayBuffer> {
  const all = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let offset = 0;
  for (const part of parts) {
    all.set(part, offset);
    offset += part.length;
  }
  return all;
}

async function read(connection: Deno.Conn): Promise<Uint8Array | null> {
  const buffer = new Uint8Array(65_536);
  const size = await connection.read(buffer);
  return size === null ? null : buffer.subarray(0, size);
}

async function writeAll(connection: Deno.Conn, bytes: Uint8Array): Promise<void> {
  for (let rest = bytes; rest.length > 0;) rest = rest.subarray(await connection.write(rest));
}

function close(connection: Deno.Conn): void {
  try {
    connection.close();
  } catch {
    // It was closed already.
  }
}

/**
 * A keep-alive HTTP/1.1 connection that costs as little as can be, so that a measurement is of the service and not of
 * its client: no fetch, no parsing of bodies, requests made ready beforehand. For loopback and for benches only.
 */

const CR = 13;
const LF = 10;
const CONTENT_LENGTH = /\r\ncontent-length: *([0-9]+)/i;

/** What came back: the status, and the body as bytes that the next request overwrites. */
export interface Reply {
  status: number;
  body: Uint8Array;
}

/** One connection, one request at a time. */
export class Connection {
  #socket: Deno.TcpConn;
  #buffer = new Uint8Array(256 * 1024);
  #decoder = new TextDecoder();

  private constructor(socket: Deno.TcpConn) {
    this.#socket = socket;
    socket.setNoDelay(true);
  }

  /** Connects to the host and port of `url`. */
  static async open(url: string): Promise<Connection> {
    const { hostname, port } = new URL(url);
    return new Connection(await Deno.connect({ hostname, port: Number(port) }));
  }

  /** Sends the bytes of a whole request and reads the whole answer. */
  async send(request: Uint8Array): Promise<Reply> {
    for (let sent = 0; sent < request.length;) {
      sent += await this.#socket.write(sent === 0 ? request : request.subarray(sent));
    }
    let filled = 0;
    for (;;) {
      if (filled === this.#buffer.length) this.#grow();
      const count = await this.#socket.read(this.#buffer.subarray(filled));
      if (count === null) throw new Error("The service closed the connection");
      filled += count;
      const end = findHeadEnd(this.#buffer, filled);
      if (end < 0) continue;
      const head = this.#decoder.decode(this.#buffer.subarray(0, end));
      const status = Number(head.slice(9, 12));
      const length = status === 204 ? "0" : CONTENT_LENGTH.exec(head)?.[1];
      const size = length === undefined ? chunkedEnd(this.#buffer, end, filled) : end + Number(length);
      if (size < 0 || filled < size) continue;
      return { status, body: this.#buffer.subarray(end, size) };
    }
  }

  close(): void {
    this.#socket.close();
  }

  #grow(): void {
    const larger = new Uint8Array(this.#buffer.length * 4);
    larger.set(this.#buffer);
    this.#buffer = larger;
  }
}

/** Bytes of a request; `body` is sent as it is. */
export function makeRequest(
  method: string,
  url: string,
  headers: Record<string, string>,
  body: string | Uint8Array = "",
): Uint8Array {
  const { host, pathname, search } = new URL(url);
  const bytes = typeof body === "string" ? new TextEncoder().encode(body) : body;
  const all = { host, ...headers, ...(method === "GET" ? {} : { "content-length": String(bytes.length) }) };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`).join("");
  const head = new TextEncoder().encode(`${method} ${pathname}${search} HTTP/1.1\r\n${lines}\r\n`);
  const request = new Uint8Array(head.length + bytes.length);
  request.set(head);
  request.set(bytes, head.length);
  return request;
}

/** Where the body begins, or -1 while the head is incomplete. */
function findHeadEnd(buffer: Uint8Array, filled: number): number {
  for (let i = 3; i < filled; i++) {
    if (buffer[i] === LF && buffer[i - 1] === CR && buffer[i - 2] === LF && buffer[i - 3] === CR) {
      return i + 1;
    }
  }
  return -1;
}

/** A chunked answer is whole once it ends with an empty chunk. */
function chunkedEnd(buffer: Uint8Array, start: number, filled: number): number {
  const tail = "0\r\n\r\n";
  if (filled - start < tail.length) return -1;
  for (let i = 0; i < tail.length; i++) {
    if (buffer[filled - tail.length + i] !== tail.charCodeAt(i)) return -1;
  }
  return filled;
}

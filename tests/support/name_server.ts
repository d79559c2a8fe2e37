/** A name server on loopback, over UDP and TCP: the TXT records of a map, and the ways in which a server can fail. */

import { Buffer } from "node:buffer";
import { createSocket } from "node:dgram";

/** What is known of a name: records, each in its parts, or the code of a failure. No entry: the name does not exist. */
export type Zone = Map<string, string[][] | "SERVFAIL" | "REFUSED" | "silent" | "garbage">;

/** A running server. */
export interface NameServer extends AsyncDisposable {
  address: { ipAddr: string; port: number };
  zone: Zone;
  /** Each name that was asked for, with how. */
  questions: string[];
}

const RESPONSE_CODES = { NOERROR: 0, SERVFAIL: 2, NXDOMAIN: 3, REFUSED: 5 };
const TXT = 16;
const UDP_BYTES_MAX = 512;

/** Starts one. */
export async function startNameServer(): Promise<NameServer> {
  const zone: Zone = new Map();
  const questions: string[] = [];
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr as Deno.NetAddr;
  const socket = createSocket("udp4");
  socket.on("message", (message, from) => {
    const answer = answerTo(message, "udp");
    if (answer !== undefined) socket.send(answer, from.port, from.address);
  });
  await new Promise<void>((resolve) => socket.bind(port, "127.0.0.1", resolve));
  const serving = (async () => {
    for await (const connection of listener) serveStream(connection).catch(() => {});
  })();

  function answerTo(message: Uint8Array, over: "udp" | "tcp"): Buffer | undefined {
    const { name, end } = readName(message, 12);
    questions.push(`${over} ${name}`);
    const found = zone.get(name.toLowerCase().replace(/\.$/, ""));
    if (found === "silent") return undefined;
    if (found === "garbage") return Buffer.from("no answer at all");
    const records = Array.isArray(found) ? found : [];
    const code = Array.isArray(found) ? "NOERROR" : found ?? "NXDOMAIN";
    const question = Buffer.from(message.subarray(12, end + 4));
    const whole = Buffer.concat([
      header(message, code, records.length, false),
      question,
      ...records.map(spellRecord),
    ]);
    return over === "udp" && whole.length > UDP_BYTES_MAX
      ? Buffer.concat([header(message, code, 0, true), question])
      : whole;
  }

  async function serveStream(connection: Deno.Conn): Promise<void> {
    try {
      for (;;) {
        const length = await readExactly(connection, 2);
        const answer = answerTo(await readExactly(connection, (length[0]! << 8) | length[1]!), "tcp");
        if (answer === undefined) continue;
        const prefix = Buffer.alloc(2);
        prefix.writeUInt16BE(answer.length);
        await connection.write(Buffer.concat([prefix, answer]));
      }
    } finally {
      connection.close();
    }
  }

  return {
    address: { ipAddr: "127.0.0.1", port },
    zone,
    questions,
    async [Symbol.asyncDispose]() {
      listener.close();
      await serving.catch(() => {});
      await new Promise<void>((resolve) => socket.close(() => resolve()));
    },
  };
}

function header(
  request: Uint8Array,
  code: keyof typeof RESPONSE_CODES,
  answers: number,
  truncated: boolean,
): Buffer {
  const bytes = Buffer.alloc(12);
  bytes.set(request.subarray(0, 2));
  bytes.writeUInt16BE(0x8580 | (truncated ? 0x0200 : 0) | RESPONSE_CODES[code], 2);
  bytes.writeUInt16BE(1, 4);
  bytes.writeUInt16BE(answers, 6);
  return bytes;
}

function spellRecord(parts: string[]): Buffer {
  const data = Buffer.concat(parts.map((part) => {
    const text = Buffer.from(part);
    return Buffer.concat([Buffer.from([text.length]), text]);
  }));
  const fields = Buffer.alloc(12);
  fields.writeUInt16BE(0xc00c, 0); // the name of the question
  fields.writeUInt16BE(TXT, 2);
  fields.writeUInt16BE(1, 4);
  fields.writeUInt32BE(1, 6);
  fields.writeUInt16BE(data.length, 10);
  return Buffer.concat([fields, data]);
}

function readName(message: Uint8Array, start: number): { name: string; end: number } {
  const labels: string[] = [];
  let at = start;
  while (message[at] !== 0) {
    const length = message[at]!;
    labels.push(new TextDecoder().decode(message.subarray(at + 1, at + 1 + length)));
    at += 1 + length;
  }
  return { name: `${labels.join(".")}.`, end: at + 1 };
}

async function readExactly(connection: Deno.Conn, count: number): Promise<Uint8Array> {
  const bytes = new Uint8Array(count);
  for (let have = 0; have < count;) {
    const read = await connection.read(bytes.subarray(have));
    if (read === null) throw new Error("The connection ended");
    have += read;
  }
  return bytes;
}

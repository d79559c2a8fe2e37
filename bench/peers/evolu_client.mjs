/**
 * Writes to an Evolu relay in its own protocol: `node evolu_client.mjs MODULES URL CONNECTIONS BYTES`. Says `ready`, and
 * then for each line with the number of a connection sends one message on it, and says the number again once the relay
 * has accepted it, or the error after the number. The ciphertext is random: the relay cannot tell, and encrypting it
 * would be work of the client alone.
 */

import { randomBytes } from "node:crypto";
import process from "node:process";
import { createInterface } from "node:readline";

const [modules, url, connections, bytes] = process.argv.slice(2);
const common = await import(`${modules}/@evolu/common/dist/src/index.js`);
const evolu = await import(`${modules}/@evolu/common/dist/src/local-first/index.js`);

// An answer without messages or ranges touches no storage.
const run = common.createRun({ storage: {} });
const deps = { randomBytes: common.createRandomBytes() };
const change = randomBytes(Number(bytes));

/** A connection of an owner of its own; a step is one message with a new timestamp. */
async function openOwner() {
  const owner = evolu.createAppOwner(evolu.createOwnerSecret(deps));
  const { nodeId } = evolu.createInitialTimestamp(deps);
  const transport = evolu.createOwnerWebSocketTransport({ url, ownerId: owner.id });
  const socket = new WebSocket(transport.url);
  socket.binaryType = "arraybuffer";
  let waiting = Promise.withResolvers();
  socket.onopen = () => waiting.resolve();
  socket.onmessage = ({ data }) => waiting.resolve(new Uint8Array(data));
  socket.onclose = () => waiting.reject(new Error("The relay closed the connection"));
  await waiting.promise;
  let millis = Date.now();
  return async function step() {
    const message = evolu.createProtocolMessageBuffer(owner.id, {
      messageType: evolu.MessageType.Request,
      writeKey: owner.writeKey,
    });
    message.addMessage({ timestamp: evolu.createTimestamp({ millis: millis++, nodeId }), change });
    waiting = Promise.withResolvers();
    socket.send(message.unwrap());
    const result = await run(evolu.applyProtocolMessageAsClient(await waiting.promise));
    if (!result.ok) throw new Error(result.error.type);
  };
}

const steps = await Promise.all(Array.from({ length: Number(connections) }, openOwner));
process.stdout.write("ready\n");
for await (const line of createInterface({ input: process.stdin })) {
  steps[Number(line)]().then(
    () => process.stdout.write(`${line}\n`),
    (error) => process.stdout.write(`${line} ${error.message}\n`),
  );
}
process.exit();

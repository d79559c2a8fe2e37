/** Runs the durable-streams server with files in the working directory: `node durable_streams.mjs MODULES PORT`. */

import process from "node:process";

const [modules, port] = process.argv.slice(2);
const { DurableStreamTestServer } = await import(`${modules}/@durable-streams/server/dist/index.js`);

await new DurableStreamTestServer({ port: Number(port), host: "127.0.0.1", dataDir: process.cwd() }).start();

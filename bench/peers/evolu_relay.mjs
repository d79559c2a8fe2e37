/** Runs the Evolu relay as its own `@evolu/relay` does, in the working directory: `node evolu_relay.mjs MODULES PORT`. */

import process from "node:process";

const [modules, port] = process.argv.slice(2);
const { createRelayDeps, createRun, startRelay } = await import(`${modules}/@evolu/nodejs/dist/src/index.js`);

const run = createRun(createRelayDeps());
const relay = await run.orThrow(startRelay({ port: Number(port), isOwnerWithinQuota: () => true }));
await run.deps.shutdown;
await relay[Symbol.asyncDispose]();

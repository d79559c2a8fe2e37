/** A service of one's own for a demo: on a free port, with a data directory that goes away with it. */

import { print, printError } from "./print.ts";
import { type Stack, startStack } from "./stack.ts";

/** Starts it; it stops when `parts` is disposed. */
export async function startOwnStack(
  parts: AsyncDisposableStack,
  env: Record<string, string> = {},
): Promise<Stack> {
  print("Starting a service of our own …");
  const dataDir = await Deno.makeTempDir({ prefix: "agent-state-demo-" });
  parts.defer(() => Deno.remove(dataDir, { recursive: true }));
  // Root runs Postgres as another user, who must get in.
  await Deno.chmod(dataDir, 0o711);
  const stack = await startStack({ dataDir, port: 0, quiet: true, say: printError, env });
  parts.defer(() => stack.stop());
  return stack;
}

/** The base address of the agent-state function of a stack. */
export function baseOf(stack: Stack): string {
  return `${stack.url}/functions/v1/v2-agent-state`;
}

/** `deno task session USER [--email E]`: prints a session for the local stack, on the last line of its output. */

import { parseArgs } from "node:util";
import { findRunningStack } from "./data_dir.ts";
import { print, printError } from "./print.ts";
import { LOCAL_AUDIENCE, LOCAL_ISSUER, openSessionIssuer } from "./session_issuer.ts";

const USAGE = "Usage: deno task session USER [--email E]";

async function main(): Promise<void> {
  const { user, email } = readArguments();
  const dataDir = Deno.env.get("DATA_DIR") || ".data";
  const stack = await findRunningStack(dataDir);
  const issuer = stack?.issuer ?? (Deno.env.get("SESSION_ISSUER") || LOCAL_ISSUER);
  const audience = stack?.audience ?? (Deno.env.get("SESSION_AUDIENCE") || LOCAL_AUDIENCE);
  const sessions = await openSessionIssuer(dataDir);
  print(await sessions.issueSession({ sub: user, issuer, audience, ...(email ? { email } : {}) }));
}

function readArguments(): { user: string; email: string | undefined } {
  try {
    const { positionals, values } = parseArgs({
      args: Deno.args,
      allowPositionals: true,
      options: { email: { type: "string" } },
    });
    const [user, ...rest] = positionals;
    if (user === undefined || user === "" || rest.length > 0) throw new Error("Name one user.");
    return { user, email: values.email };
  } catch (error) {
    printError(`${error instanceof Error ? error.message : error}\n${USAGE}`);
    Deno.exit(1);
  }
}

await main();

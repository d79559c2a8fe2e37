/** `deno task credits USER [MILLI]`: adds credit to an account of the running stack, and says what it has. */

// @deno-types="npm:@types/pg@8.23.1"
import pg from "pg";
import { findRunningStack } from "./data_dir.ts";
import { print, printError } from "./print.ts";

const USAGE =
  "Usage: deno task credits USER [MILLI]   (MILLI: whole thousandths of a cent to add, at least 1)";

interface Balance {
  credits_milli: number;
}

async function main(): Promise<void> {
  const [user, amount, ...rest] = Deno.args;
  if (!user || rest.length > 0) return fail(USAGE);
  if (amount !== undefined && (!/^[0-9]{1,15}$/.test(amount) || Number(amount) === 0)) {
    return fail(`Not an amount: ${amount}\n${USAGE}`);
  }
  const dataDir = Deno.env.get("DATA_DIR") || ".data";
  const stack = await findRunningStack(dataDir);
  if (stack === undefined) return fail(`Nothing is running on ${dataDir}. Run deno task start first.`);

  const client = new pg.Client({ connectionString: stack.databaseUrl, connectionTimeoutMillis: 10_000 });
  client.on("error", () => {});
  try {
    await client.connect();
    const balance = amount === undefined ? await read(client, user) : await add(client, user, amount);
    print(`${user} ${amount === undefined ? "has" : "now has"} ${balance.credits_milli} milli-cents.`);
  } catch (error) {
    return fail(`That did not work: ${error instanceof Error ? error.message : error}`);
  } finally {
    await client.end().catch(() => {});
  }
}

async function add(client: pg.Client, user: string, amount: string): Promise<Balance> {
  const { rows } = await client.query<{ result: Balance }>(
    "select api.grant_credits(p_subject => $1, p_amount_milli => $2, p_actor => $3, p_note => $4, " +
      "p_reference => $5) as result",
    [user, amount, "operator", "deno task credits", crypto.randomUUID()],
  );
  return rows[0]!.result;
}

async function read(client: pg.Client, user: string): Promise<Balance> {
  const sql = "select api.read_balance(p_subject => $1) as result";
  return (await client.query<{ result: Balance }>(sql, [user])).rows[0]!.result;
}

function fail(message: string): never {
  printError(message);
  Deno.exit(1);
}

await main();

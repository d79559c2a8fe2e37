/** What may be kept of a secret: its SHA-256, and nothing else, in every table and every line of the log. */

import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { randomBytes } from "node:crypto";
import { settled } from "../support/eventually.ts";
import { chunk, newProjectToken, replicateBody, sha256Hex, snapshotBody } from "../support/factories.ts";
import { onOneBackend, type World } from "../support/harness.ts";

/** What one run of the whole service gave out or took in. */
interface Issued {
  /** Nowhere, in no form. */
  tokens: string[];
  /** In the database, never in the log. */
  emails: string[];
  salts: string[];
  ciphertexts: Uint8Array[];
  /** Ciphertext that was refused: nowhere. */
  refused: Uint8Array[];
  /** Chosen by the client; in the database, never in the log. */
  identifiers: string[];
}

/** A row of any table, with the table it is from. */
interface Row {
  table: string;
  text: string;
}

onOneBackend((test) => {
  test("no key, project token or session is in the database, in any table and any form", async (world) => {
    const { tokens, refused } = await run(world);
    const rows = await dump(world);
    for (const token of tokens) {
      const forms = formsOf(token);
      for (const { table, text } of rows) {
        for (const [form, secret] of forms) {
          assert.ok(!text.includes(secret), `${form} of a token in ${table}`);
        }
      }
    }
    for (const block of refused) {
      const hex = Buffer.from(block).toString("hex");
      assert.ok(!rows.some((row) => row.text.includes(hex)), "ciphertext that was refused");
    }
  });

  test("the dump would show a token that was kept: it shows e-mail addresses, salts and ciphertext", async (world) => {
    const { emails, salts, ciphertexts } = await run(world);
    const rows = await dump(world);
    const shows = (part: string) => rows.some((row) => row.text.includes(part));
    for (const email of emails) assert.ok(shows(email), "an e-mail address");
    for (const salt of salts) assert.ok(shows(Buffer.from(salt, "base64").toString("hex")), "a salt");
    for (const block of ciphertexts) {
      assert.ok(shows(Buffer.from(block).toString("hex")), "a block of ciphertext");
    }
  });

  test("of keys and project tokens the database keeps the SHA-256, and no column besides", async (world) => {
    const { tokens } = await run(world);
    const agents = tokens.filter((token) => token.startsWith("sov_"));
    const { rows: kept } = await world.sql.query(
      `select encode(key_hash, 'hex') as hash from app.api_keys
        union all select encode(token_hash, 'hex') from app.accounts where token_hash is not null`,
    );
    const hashes = new Set(kept.map((row) => row.hash));
    for (const token of agents) assert.ok(hashes.has(sha256Hex(token)), token.slice(0, 9));
    const holders = (await dump(world)).filter(({ text }) =>
      agents.some((token) => text.includes(sha256Hex(token)))
    );
    assert.deepEqual(new Set(holders.map((row) => row.table)), new Set(["app.accounts", "app.api_keys"]));
  });

  test("no secret, salt, e-mail address, ciphertext or client's identifier is in the log", async (world) => {
    const { tokens, emails, salts, ciphertexts, refused, identifiers } = await run(world);
    await settled("the log", () => world.logs.length);
    const log = world.logs.map((record) => JSON.stringify(record)).join("\n");
    assert.ok(world.logs.length > 40);
    for (const token of tokens) {
      for (const [form, secret] of formsOf(token)) assert.ok(!log.includes(secret), `${form} of a token`);
      assert.ok(!log.includes(sha256Hex(token).slice(0, 16)), "the hash of a token");
    }
    for (const text of [...emails, ...salts, ...identifiers]) assert.ok(!log.includes(text), text);
    for (const block of [...ciphertexts, ...refused]) {
      for (const encoding of ["hex", "base64"] as const) {
        const start = Buffer.from(block).toString(encoding).slice(0, 16);
        assert.ok(!log.includes(start), `ciphertext in ${encoding}`);
      }
    }
  });
});

/** Every route with every kind of credential, with requests that succeed and requests that are refused. */
async function run(world: World): Promise<Issued> {
  const issued: Issued = { tokens: [], emails: [], salts: [], ciphertexts: [], refused: [], identifiers: [] };
  for (let person = 0; person < 2; person++) {
    const subject = `user-${crypto.randomUUID()}`;
    const email = `${crypto.randomUUID()}@example.test`;
    const session = await world.issuer.token(subject, { claims: { email } });
    await world.platform.db.call("grant_credits", {
      p_subject: subject,
      p_amount_milli: 1_000_000,
      p_actor: "test",
      p_note: "opening balance",
      p_reference: crypto.randomUUID(),
    });
    issued.tokens.push(session, await useSession(world, session, issued), newProjectToken());
    issued.emails.push(email);
    issued.identifiers.push(subject);
    for (const token of issued.tokens.slice(-2)) await useAgent(world, token, issued);
    await world.request("DELETE", `/api-keys/${(await listKeys(world, session))[0]!.id}`, { token: session });
    for (const token of issued.tokens.slice(-3)) await misuse(world, token, issued);
  }
  return issued;
}

/** Everything that a session opens; returns the secret of the key it made. */
async function useSession(world: World, token: string, { salts, identifiers }: Issued): Promise<string> {
  const name = `name-${crypto.randomUUID()}`;
  const project_name = `project-${crypto.randomUUID()}`;
  identifiers.push(name, project_name);
  const key = await world.request("POST", "/api-keys", { token, body: { name } });
  const body = { project_name, telemetry_opt_in: true };
  assert.equal((await world.request("PUT", "/settings", { token, body })).status, 200);
  assert.equal((await world.request("POST", "/telemetry", { token, body: { sync_ops: 1 } })).status, 201);
  for (const path of ["/api-keys", "/settings", "/billing/usage", "/billing/subscription"]) {
    assert.equal((await world.request("GET", path, { token })).status, 200);
  }
  salts.push((await world.request("GET", "/kdf-salt", { token })).body.kdf_salt);
  return key.body.raw_secret;
}

/** Everything that an agent's key opens. */
async function useAgent(world: World, token: string, { ciphertexts, identifiers }: Issued): Promise<void> {
  const agent_id = `agent-${crypto.randomUUID()}`;
  const device = `device-${crypto.randomUUID()}`;
  const block = randomBytes(100);
  ciphertexts.push(block);
  identifiers.push(agent_id, device);
  const headers = { "x-device-id": device };
  const writes = [["/snapshot", snapshotBody({ agent_id })], [
    "/replicate",
    replicateBody(chunk(0, block)),
  ]] as const;
  for (const [path, body] of writes) {
    assert.equal((await world.request("POST", path, { token, headers, body })).status, 200);
  }
  const reads = ["/head", "/replay?since=0", "/envelopes", "/metadata", `/snapshot/${agent_id}/latest`];
  for (const path of reads) {
    assert.equal((await world.request("GET", path, { token, headers })).status, 200, path);
  }
}

/** Requests that fail, the token also where it does not belong. */
async function misuse(world: World, token: string, { refused }: Issued): Promise<void> {
  const block = randomBytes(100);
  refused.push(block);
  for (const wrong of [token, `${token}x`, "hello"]) {
    const bodies: [string, string, unknown][] = [
      ["POST", "/api-keys", { name: [token] }],
      ["PUT", "/settings", { session_lock: token }],
      ["POST", "/telemetry", { [token]: 1 }],
      ["DELETE", `/api-keys/${encodeURIComponent(token)}`, undefined],
      ["POST", "/replicate", replicateBody(chunk(7, block))],
      ["POST", "/snapshot", `{"agent_id":"${token}`],
      ["GET", `/${encodeURIComponent(token)}?token=${encodeURIComponent(token)}`, undefined],
    ];
    for (const [method, path, body] of bodies) {
      const answer = await world.request(method, path, { token: wrong, body });
      assert.ok(answer.status >= 400 && answer.status < 500, `${method} ${answer.text}`);
      assert.ok(!answer.text.includes(token), "an answer repeats a token");
    }
  }
}

async function listKeys(world: World, token: string): Promise<{ id: string }[]> {
  return (await world.request("GET", "/api-keys", { token })).body;
}

/** A token as text and as bytes, whole and without what all of its kind have in common. */
function formsOf(token: string): [string, string][] {
  const bare = token.startsWith("sov_") ? token.slice(9) : token.split(".")[2]!;
  return [
    ["the text", bare],
    ["the hex", Buffer.from(bare).toString("hex")],
    ["the base64", Buffer.from(token).toString("base64").slice(0, 40)],
    ["the text without dashes", bare.replaceAll("-", "")],
  ];
}

/** Every row of every table of the schema; bytes as hex and with what is printable in them. */
async function dump(world: World): Promise<Row[]> {
  const { rows: columns } = await world.sql.query(
    `select table_name as name, array_agg(column_name::text) filter (where data_type = 'bytea') as bytes
       from information_schema.tables join information_schema.columns using (table_schema, table_name)
      where table_schema = 'app' and table_type = 'BASE TABLE'
      group by table_name`,
  );
  assert.ok(columns.length >= 12);
  const rows: Row[] = [];
  for (const { name, bytes } of columns) {
    const escaped = (bytes ?? []).map((column: string) =>
      ` || ' ' || coalesce(encode(t.${column}, 'escape'), '')`
    );
    const { rows: found } = await world.sql.query(
      `select t::text${escaped.join("")} as text from app.${name} t`,
    );
    rows.push(...found.map(({ text }) => ({ table: `app.${name}`, text })));
  }
  return rows;
}

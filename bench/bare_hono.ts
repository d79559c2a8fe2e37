/** The least that a service on the same parts could do: what the reads and the decoding are measured against. */

import { Hono } from "hono";
// @deno-types="npm:@types/pg@8.23.1"
import pg from "pg";
import { decodeBase64 } from "../supabase/functions/_shared/domain/bytes.ts";

const pool = new pg.Pool({ connectionString: Deno.env.get("BARE_DATABASE_URL"), max: 8 });
const app = new Hono();

app.get("/select", async (c) => c.json((await pool.query({ name: "one", text: "select 1 as one" })).rows[0]));
app.post("/decode", async (c) => {
  const { chunks } = await c.req.json<{ chunks: { ciphertext_b64: string }[] }>();
  return c.json({
    bytes: chunks.reduce((sum, chunk) => sum + decodeBase64(chunk.ciphertext_b64)!.length, 0),
  });
});

Deno.serve({
  hostname: "127.0.0.1",
  port: 0,
  onListen: ({ port }) => Deno.writeTextFileSync(Deno.env.get("BARE_PORT_FILE")!, String(port)),
}, app.fetch);

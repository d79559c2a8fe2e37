/**
 * Stands in for Supabase's REST layer (PostgREST) and Storage: `@supabase/lite` over the test's own Postgres,
 * spoken to by the real `supabase-js` over real HTTP.
 */

// deno-lint-ignore-file no-console
import { App } from "npm:@supabase/lite@0.10.0";
import { createPostgresConnection } from "npm:@supabase/lite@0.10.0/postgres";
// The connection above loads this driver without declaring it.
import "npm:postgres@3.4.9";
import { createClient } from "@supabase/supabase-js";
import { BUCKET, openBlobStorage } from "../../supabase/functions/_shared/platform/blob_storage.ts";
import { openRestDatabase } from "../../supabase/functions/_shared/platform/database_rest.ts";
import type { LogRecord } from "../../supabase/functions/_shared/platform/mod.ts";

// It prints every refusal of the database, with its stack; ours are answers, not faults.
const printError = console.error;
console.error = (...args: unknown[]) => {
  const refusal = (args[0] as { code?: unknown } | undefined)?.code === "22ZKE";
  if (!refusal) printError(...args);
};

const SECRET_KEY = "sb_secret_for_tests";

/**
 * On Supabase `service_role` passes over row-level security. The stand-in's storage tables let it do the same here,
 * where the role is an ordinary one.
 */
const LET_SERVICE_ROLE_STORE = `
  grant usage on schema storage to service_role;
  grant all on all tables in schema storage to service_role;
  create policy service on storage.buckets to service_role using (true) with check (true);
  create policy service on storage.objects to service_role using (true) with check (true);
`;

/** PostgREST hands `bytea` on as the text that it is in JSON; the stand-in's driver would encode that text again. */
const BYTEA = { to: 17, from: [17], serialize: (value: unknown) => value, parse: (value: string) => value };

/** Opens both adapters on a database; `url` and `key` are what a deployed function would be given. */
export async function openSupabaseStandIn(
  database: { url: string; sql: { query(text: string): Promise<unknown> } },
  log: (record: LogRecord) => void,
) {
  const connection = createPostgresConnection({
    url: database.url,
    postgresOptions: { types: { bytea: BYTEA } },
  });
  const app = new App({
    connection,
    api: { schemas: ["public", "api"] },
    auth: { enabled: false },
    storage: { enabled: true },
    options: { server: { apiKeys: { resolver: resolveKey } } },
    // deno-lint-ignore no-explicit-any
  } as any);
  // deno-lint-ignore no-explicit-any
  (app as any)._storageAdapter = createMemoryAdapter();
  await app.ensureSystemSchema();
  await database.sql.query(LET_SERVICE_ROLE_STORE);
  await app.init();
  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    (request) => app.server.fetch(request),
  );
  const url = `http://127.0.0.1:${server.addr.port}`;
  const client = createClient(url, SECRET_KEY, {
    auth: { persistSession: false, autoRefreshToken: false },
  });
  const { error } = await client.storage.createBucket(BUCKET, { public: true });
  if (error !== null) throw error;
  return {
    url,
    key: SECRET_KEY,
    db: openRestDatabase(client, log),
    blobs: openBlobStorage(client),
    async [Symbol.asyncDispose]() {
      await server.shutdown();
      await connection.close();
    },
  };
}

async function resolveKey(key: string) {
  return key === SECRET_KEY ? { type: "secret", claims: { role: "service_role" } } : null;
}

/** Where the stand-in keeps bytes: it brings adapters for disks and S3, but does not export them. */
function createMemoryAdapter() {
  const objects = new Map<string, Uint8Array>();
  const keyOf = (bucket: string, name: string) => `${bucket}/${name}`;
  const describe = (bytes: Uint8Array) => ({
    size: bytes.length,
    contentLength: bytes.length,
    mimetype: "application/octet-stream",
    cacheControl: "max-age=31536000",
    lastModified: new Date(),
    eTag: '"none"',
    httpStatusCode: 200,
  });
  function find(bucket: string, name: string): Uint8Array {
    const bytes = objects.get(keyOf(bucket, name));
    if (bytes === undefined) throw new Error("No such object");
    return bytes;
  }
  return {
    driver: null,
    async uploadObject(bucket: string, name: string, _version: string | undefined, body: BodyInit) {
      const bytes = new Uint8Array(await new Response(body).arrayBuffer());
      objects.set(keyOf(bucket, name), bytes);
      return describe(bytes);
    },
    async headObject(bucket: string, name: string) {
      return describe(find(bucket, name));
    },
    async getObject(bucket: string, name: string) {
      const bytes = find(bucket, name);
      return { metadata: describe(bytes), httpStatusCode: 200, body: new Blob([bytes as BlobPart]).stream() };
    },
    async deleteObject(bucket: string, name: string) {
      objects.delete(keyOf(bucket, name));
    },
    async deleteObjects(bucket: string, names: string[]) {
      for (const key of [...objects.keys()]) {
        if (names.some((name) => key.startsWith(`${bucket}/${name}`))) objects.delete(key);
      }
    },
  };
}

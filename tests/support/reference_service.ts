/** A function with a reference over real HTTP, as tests try it. */

import type { Hono } from "hono";
import type { AppEnv } from "../../supabase/functions/_shared/context.ts";
import { readSettings, type Settings } from "../../supabase/functions/_shared/env.ts";
import type { Platform } from "../../supabase/functions/_shared/platform/mod.ts";
import { openPolar } from "../../supabase/functions/_shared/platform/payments_polar.ts";
import type { Example, Reference } from "../../supabase/functions/_shared/reference/operation.ts";
import { exampleRequest } from "./arbitrary_requests.ts";
import type { Book, DescribedOperation } from "./documented.ts";
import type { World } from "./harness.ts";
import { startReceiver } from "./hooks.ts";
import { MAIL_SETTINGS } from "./jobs.ts";
import { SETTINGS as POLAR, withPolar } from "./polar.ts";

/** All that the payment provider is asked for, in one. */
const POLAR_ANSWER = {
  id: "subscription-1",
  url: "https://polar.example.com/checkout/1",
  customer_portal_url: "https://polar.example.com/portal/1",
};
export const CRON_SECRET = "the-secret-of-the-jobs";

/** A request as it goes out. */
export interface Sent {
  method: string;
  path: string;
  headers?: Record<string, string>;
  body?: string | Uint8Array<ArrayBuffer>;
}

/** The service on a port, with a payment provider and a receiver of webhooks. */
export interface ReferenceService extends AsyncDisposable {
  send(sent: Sent): Promise<{ status: number; text: string; body: unknown; headers: Headers }>;
  webhookUrl: string;
}

/** What a scene is played by: who has which credential. */
export interface Cast<Scene> {
  scene: Scene;
  /** By security scheme: the headers that let in. */
  credentials: Record<string, Record<string, string>>;
  /** The headers of a body that the payment provider signed, where it sends any. */
  sign?(body: string): Record<string, string>;
}

/** One function, and who plays the examples of its reference. */
export interface Stage<Scene> {
  /** As it is deployed. */
  name: string;
  reference: Reference<Scene>;
  book: Book;
  createApp(platform: Platform, settings: Settings): Hono<AppEnv>;
  /** Makes everything that the examples need; with `route`, so that this one's works. */
  newCast(world: World, service: ReferenceService, route?: string): Promise<Cast<Scene>>;
}

/** The header that a token is sent in. */
export function bearer(token: string): { authorization: string } {
  return { authorization: `Bearer ${token}` };
}

/** An example as it goes out, with the headers of whoever sends it. */
export function toRequest(
  described: DescribedOperation,
  example: Example,
  credential: Record<string, string> = {},
): Sent {
  const { headers, ...request } = exampleRequest(described, example);
  return { ...request, headers: { ...headers, ...credential } };
}

/**
 * Serves the world over HTTP. `over` replaces parts of its platform; without `configured` nothing is set up; `more` are
 * settings of its own.
 */
export async function serveReference(
  { name, createApp }: Pick<Stage<unknown>, "name" | "createApp">,
  world: World,
  over: Partial<Platform> = {},
  configured = true,
  more: Partial<Settings> = {},
): Promise<ReferenceService> {
  await using parts = new AsyncDisposableStack();
  const receiver = parts.use(startReceiver());
  const { promise: stopped, resolve: stop } = Promise.withResolvers<void>();
  const { promise: started, resolve: start } = Promise.withResolvers<typeof POLAR>();
  const provider = withPolar(
    () => Response.json(POLAR_ANSWER),
    (settings) => (start(settings), stopped),
  );
  parts.defer(() => (stop(), provider));
  const polar = configured ? await started : readSettings({}).polar;
  const settings = {
    ...readSettings({}),
    polar,
    billingReturnOrigins: ["https://app.example"],
    cronSecret: configured ? CRON_SECRET : undefined,
    ...MAIL_SETTINGS,
    ...more,
  };
  const app = createApp({ ...world.platform, ...openPolar(polar, () => {}), ...over }, settings);
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, app.fetch);
  parts.defer(() => server.shutdown());
  const kept = parts.move();
  return {
    webhookUrl: receiver.url,
    async send({ method, path, headers = {}, body }) {
      const url = `http://127.0.0.1:${server.addr.port}/functions/v1/${name}${path}`;
      const response = await fetch(url, { method, headers, ...(body === undefined ? {} : { body }) });
      const text = await response.text();
      const isJson = response.headers.get("content-type")?.includes("json") ?? false;
      return {
        status: response.status,
        text,
        body: isJson ? JSON.parse(text) : undefined,
        headers: response.headers,
      };
    },
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  };
}

/**
 * The service in a process of its own, with failpoints: the live platform of a deployed function, configured by the
 * environment, and a second port by which a test arms the failpoints.
 *
 * Prints `{"port":…,"control":…}` and serves until it is killed. Control: `POST /arm` with {@link Armed}; `POST /lift`
 * lets go of what is held; `GET /points` tells which were reached since the last `POST /reset`; `GET /quiet` answers once
 * no call is under way; `GET /held` tells whether somebody is held.
 */

import { readSettings } from "../../supabase/functions/_shared/env.ts";
import { createPlatform } from "../../supabase/functions/_shared/platform/live.ts";
import { createApp } from "../../supabase/functions/v2-agent-state/app.ts";
import { createApp as createVault } from "../../supabase/functions/vault/app.ts";
import { type Failpoint, failureAt, placeFailpoints } from "./failpoints.ts";

/** What happens at a failpoint, and how often. */
export interface Armed {
  point: Failpoint;
  /** `kill` ends the process as SIGKILL does; `hold` waits until lifted. */
  action: "fail" | "kill" | "hold";
  times: number;
}

/** Long enough for whoever has been answered to begin what comes next. */
const QUIET_MS = 25;

let armed: Armed | undefined;
let { promise: lifted, resolve: lift } = Promise.withResolvers<void>();
let reached: Failpoint[] = [];
let held = 0;
let underWay = 0;
let lastMoved = performance.now();

async function reach(point: Failpoint): Promise<void> {
  reached.push(point);
  if (armed?.point !== point || armed.times === 0) return;
  armed.times--;
  switch (armed.action) {
    case "kill":
      Deno.kill(Deno.pid, "SIGKILL");
      return await new Promise(() => {});
    case "hold":
      held++;
      await lifted;
      held--;
      return;
    case "fail":
      throw failureAt(point);
  }
}

function move(by: 1 | -1): void {
  underWay += by;
  lastMoved = performance.now();
}

async function control(request: Request): Promise<Response> {
  const { pathname } = new URL(request.url);
  switch (pathname) {
    case "/arm":
      armed = await request.json();
      return new Response();
    case "/lift":
      armed = undefined;
      lift();
      ({ promise: lifted, resolve: lift } = Promise.withResolvers<void>());
      return new Response();
    case "/reset":
      reached = [];
      return new Response();
    case "/points":
      return Response.json(reached);
    case "/held":
      return Response.json(held);
    case "/memory":
      return Response.json(Deno.memoryUsage().rss);
    case "/quiet":
      while (underWay > 0 || performance.now() - lastMoved < QUIET_MS) {
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
      return new Response();
  }
  return new Response(null, { status: 404 });
}

const settings = readSettings(Deno.env.toObject());
const platform = placeFailpoints(createPlatform(settings), {
  reach,
  begun: () => move(1),
  ended: () => move(-1),
});
const service = createApp(platform, settings).fetch;
const vault = createVault(platform, settings).fetch;

const options = { hostname: "127.0.0.1", port: 0, onListen() {} };
const server = Deno.serve(options, (request) => {
  return new URL(request.url).pathname.startsWith("/functions/v1/vault") ? vault(request) : service(request);
});
const controls = Deno.serve(options, control);
const line = JSON.stringify({ port: server.addr.port, control: controls.addr.port });
Deno.stdout.writeSync(new TextEncoder().encode(`${line}\n`));

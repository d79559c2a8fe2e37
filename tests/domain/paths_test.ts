/** The path that the router sees, whatever prefixes and dots a request's URL went through. */

import assert from "node:assert/strict";
import fc from "npm:fast-check@4.10.2";
import { rawPath, stripPrefixes } from "../../supabase/functions/_shared/domain/paths.ts";
import { routePath } from "../../supabase/functions/v2-agent-state/domain/route_path.ts";

const ORIGIN = "https://project.example";
const PREFIXES = ["/functions/v1", "/v2-agent-state", "/v2"];

const ROUTES: [url: string, route: string][] = [
  ["/snapshot", "/snapshot"],
  ["/v2/snapshot", "/snapshot"],
  ["/v2-agent-state/snapshot", "/snapshot"],
  ["/v2-agent-state/v2/snapshot", "/snapshot"],
  ["/functions/v1/v2-agent-state/snapshot", "/snapshot"],
  ["/functions/v1/v2-agent-state/v2/snapshot", "/snapshot"],
  ["/v2/v2/snapshot", "/snapshot"],
  ["/v2-agent-state/v2-agent-state/snapshot", "/snapshot"],
  ["/v2/functions/v1/snapshot", "/snapshot"],
  ["", "/"],
  ["/", "/"],
  ["/v2", "/"],
  ["/v2/", "/"],
  ["/functions/v1/v2-agent-state", "/"],
  ["/functions/v1/v2-agent-state/v2/", "/"],
  // Only whole segments are prefixes, and only in front.
  ["/v2x/snapshot", "/v2x/snapshot"],
  ["/v2-agent-state-2/snapshot", "/v2-agent-state-2/snapshot"],
  ["/functions/v2/snapshot", "/functions/v2/snapshot"],
  ["/V2/snapshot", "/V2/snapshot"],
  ["/snapshot/v2/latest", "/snapshot/v2/latest"],
  ["/snapshot/v2-agent-state/latest", "/snapshot/v2-agent-state/latest"],
  // What the client escaped stays escaped: the router decodes it, after it has split the path.
  ["/v2/snapshot/a%2Fb/latest", "/snapshot/a%2Fb/latest"],
  ["/v2/snapshot/%E2%82%AC/0", "/snapshot/%E2%82%AC/0"],
  ["/v2/replay?since=0", "/replay"],
  ["/v2/replay?next=/v2/replay", "/replay"],
  ["/v2/head#/v2", "/head"],
];

for (const [path, route] of ROUTES) {
  Deno.test(`${path || "an address without a path"} is the route ${route}`, () => {
    assert.equal(routePath(new Request(ORIGIN + path).url), route);
  });
}

Deno.test("prefixes are stripped in any order and number", () => {
  const prefixes = fc.array(fc.constantFrom(...PREFIXES), { maxLength: 6 });
  const route = fc.constantFrom(
    "/snapshot",
    "/snapshot/agent/latest",
    "/replicate",
    "/head",
    "/envelopes",
    "/x",
  );
  fc.assert(fc.property(prefixes, route, (before, wanted) => {
    assert.equal(routePath(new Request(`${ORIGIN}${before.join("")}${wanted}`).url), wanted);
  }));
});

Deno.test("what was stripped is not stripped again", () => {
  const segment = fc.constantFrom("v2", "functions", "v1", "v2-agent-state", "snapshot", "", "a");
  fc.assert(fc.property(fc.array(segment), (segments) => {
    const once = stripPrefixes(`/${segments.join("/")}`, PREFIXES);
    assert.equal(stripPrefixes(once, PREFIXES), once);
    assert.ok(once.startsWith("/"));
  }));
});

const DOT_AGENTS: [agent: string, segment: string][] = [[".", "%2E"], ["..", "%2E%2E"]];
const RESTORE_ROUTES = ["latest", "lineage", "0", "7", "1234567890"];

for (const [agent, segment] of DOT_AGENTS) {
  for (const spelling of new Set([agent, segment, segment.toLowerCase(), `${agent.slice(1)}%2e`])) {
    Deno.test(`the agent "${agent}" written ${spelling} is restored behind every prefix`, () => {
      const prefixes = ["", "/v2", "/v2-agent-state", "/functions/v1/v2-agent-state/v2"];
      for (const prefix of prefixes) {
        for (const rest of RESTORE_ROUTES) {
          // A request drops dot segments, as every client's URL parser does.
          const url = new Request(`${ORIGIN}${prefix}/snapshot/${spelling}/${rest}?limit=1`).url;
          assert.equal(routePath(url), `/snapshot/${segment}/${rest}`, url);
        }
      }
    });
  }
}

Deno.test("paths that only resemble a restored one are left alone", () => {
  for (
    const path of ["/latest/", "/snapshot/", "/snapshot/01", "/007", "/snapshot/latest/x", "/snapshot/-1"]
  ) {
    assert.equal(routePath(ORIGIN + path), path);
  }
});

Deno.test("an agent's identifier reaches the router escaped exactly as it was sent", () => {
  const agent = fc.string({ unit: "grapheme", minLength: 1, maxLength: 40 })
    .filter((text) => text !== "." && text !== ".." && text.isWellFormed());
  fc.assert(fc.property(agent, (text) => {
    const url =
      new Request(`${ORIGIN}/functions/v1/v2-agent-state/snapshot/${encodeURIComponent(text)}/latest`).url;
    const segments = routePath(url).split("/");
    assert.equal(segments.length, 4);
    assert.equal(decodeURIComponent(segments[2]!), text);
  }));
});

Deno.test("the raw path ends where the query or the fragment begins", () => {
  assert.equal(rawPath("https://h/a/b?c=/d#e"), "/a/b");
  assert.equal(rawPath("https://h/a#b?c"), "/a");
  assert.equal(rawPath("http://127.0.0.1:8787/"), "/");
  assert.equal(rawPath("https://h"), "/");
});

/** The functions that have a reference: what each is made of, and where its document is kept. */

import { readSettings } from "../../supabase/functions/_shared/env.ts";
import type { Platform } from "../../supabase/functions/_shared/platform/mod.ts";
import type { Reference } from "../../supabase/functions/_shared/reference/operation.ts";
import { createApp as createAgentState } from "../../supabase/functions/v2-agent-state/app.ts";
import { rawPath, stripPrefixes } from "../../supabase/functions/_shared/domain/paths.ts";
import { routePath } from "../../supabase/functions/v2-agent-state/domain/route_path.ts";
import { REFERENCE as AGENT_STATE } from "../../supabase/functions/v2-agent-state/reference/mod.ts";
import { createApp as createVault } from "../../supabase/functions/vault/app.ts";
import { REFERENCE as VAULT } from "../../supabase/functions/vault/reference/mod.ts";
import { buildDocument, listMounted, type Mounted } from "./openapi.ts";
import type { Json } from "./openapi_schemas.ts";

/** One function. */
export interface Documented {
  /** Its folder below `supabase/functions`, where the copy is that it serves. */
  name: string;
  /** The document that people read. */
  path: string;
  // Its scene is its own; here it is only handed on.
  // deno-lint-ignore no-explicit-any
  reference: Reference<any>;
  mounted: Mounted[];
  /** The route of a URL, without the prefixes that may stand before it. */
  routePath(url: string): string;
}

/** Mounting routes asks the platform for nothing. */
const settings = readSettings({});
const platform = {} as Platform;

export const DOCUMENTED: Documented[] = [
  {
    name: "v2-agent-state",
    path: "docs/openapi.json",
    reference: AGENT_STATE,
    mounted: listMounted(createAgentState(platform, settings)),
    routePath,
  },
  {
    name: "vault",
    path: "docs/vault.openapi.json",
    reference: VAULT,
    mounted: listMounted(createVault(platform, settings)),
    routePath: (url) => stripPrefixes(rawPath(url), ["/functions/v1", "/vault"]),
  },
];

/** The document of a function as it is now. */
export function documentOf({ reference, mounted }: Documented): Json {
  return buildDocument(reference, mounted);
}

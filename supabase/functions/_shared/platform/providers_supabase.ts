/** Identity providers at Supabase Auth, through its admin interface, with `fetch`. Spec 4.8. */

import { z } from "zod";
import type { Settings } from "../env.ts";
import { ApiError } from "../errors.ts";
import { type GuardOptions, openGuardedFetch } from "./guarded_fetch.ts";
import type { LogRecord, ProviderDirectory, ProviderRegistration } from "./mod.ts";

const TIMEOUT_MS = 10_000;
const USER_AGENT = "agent-state-metadata/1";

/** Refusals that say nothing about the request: our key is not in order, or the other side is busy. */
const NOT_ABOUT_THE_REQUEST = [401, 403, 405, 408, 425, 429];

const CREATED = z.object({ id: z.uuid() });
const LIST = z.object({
  items: z.array(z.object({
    id: z.uuid(),
    created_at: z.string(),
    saml: z.object({ entity_id: z.string() }).optional(),
  })),
});
const ANYTHING = z.unknown();

/** Opens the directory. Providers are registered only where the operator has said so. */
export function openProviders(
  { supabaseUrl, supabaseKey, supabaseAuthAdmin }: Settings,
  guard: GuardOptions,
  log: (record: LogRecord) => void,
): ProviderDirectory {
  const guarded = openGuardedFetch(guard);
  const registers = supabaseAuthAdmin && supabaseUrl !== undefined && supabaseKey !== undefined;
  const base = `${supabaseUrl?.replace(/\/+$/, "")}/auth/v1/admin/sso/providers`;

  async function send(
    method: string,
    path: string,
    body?: object,
  ): Promise<{ status: number; text: string }> {
    try {
      const response = await fetch(base + path, {
        method,
        redirect: "manual",
        signal: AbortSignal.timeout(TIMEOUT_MS),
        headers: {
          "authorization": `Bearer ${supabaseKey}`,
          "apikey": supabaseKey!,
          "content-type": "application/json",
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      return { status: response.status, text: await response.text() };
    } catch {
      return { status: 0, text: "" };
    }
  }

  async function call<T extends z.ZodType>(
    method: string,
    path: string,
    answer: T,
    body?: object,
    fine: number[] = [],
  ): Promise<z.output<T> | undefined> {
    if (!registers) throw new ApiError("sso_provider_unavailable", { reason: "not_configured" });
    const { status, text } = await send(method, path, body);
    if (fine.includes(status)) return undefined;
    const parsed = status >= 200 && status < 300 ? answer.safeParse(parseJson(text)) : undefined;
    if (parsed?.success) return parsed.data;
    log({ level: "warn", event: "sso_provider_failed", status });
    const refused = status >= 400 && status < 500 && !NOT_ABOUT_THE_REQUEST.includes(status);
    throw new ApiError(refused ? "sso_provider_refused" : "sso_provider_unavailable");
  }

  return {
    registers,
    async fetchMetadata(url, bytesMax) {
      const headers = {
        "accept": "application/samlmetadata+xml, application/xml, text/xml",
        "user-agent": USER_AGENT,
      };
      const { bytes, fault } = await guarded.get(url, headers, bytesMax);
      if (bytes === null) return { fault };
      const xml = decode(bytes);
      return xml === undefined ? { fault: "not_utf8" } : { xml };
    },
    async create(provider) {
      const created = await call("POST", "", CREATED, { type: "saml", ...spell(provider) });
      return created!.id;
    },
    async update(id, changes) {
      return await call("PUT", `/${id}`, CREATED, spell(changes), [404]) !== undefined;
    },
    async remove(id) {
      await call("DELETE", `/${id}`, ANYTHING, undefined, [404]);
    },
    async find(entityId) {
      const list = await call("GET", "", LIST);
      const found = list!.items.find(({ saml }) => saml?.entity_id === entityId);
      return found === undefined ? undefined : { id: found.id, createdAt: found.created_at };
    },
  };
}

/** Always the text that was checked, never its address: what is fetched again may be something else. */
function spell({ metadataXml, domains, attributeMapping }: Partial<ProviderRegistration>): object {
  return {
    ...(metadataXml === undefined ? {} : { metadata_xml: metadataXml }),
    ...(domains === undefined ? {} : { domains }),
    ...(attributeMapping === undefined ? {} : { attribute_mapping: attributeMapping }),
  };
}

function decode(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

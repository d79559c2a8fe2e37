/** Supabase Auth's admin interface for identity providers, as far as it is used: real HTTP, and the rules it has. */

import { parseMetadata } from "../../supabase/functions/v2-agent-state/domain/saml_metadata.ts";
import { readSettings, type Settings } from "../../supabase/functions/_shared/env.ts";
import { openProviders } from "../../supabase/functions/_shared/platform/providers_supabase.ts";
import type { ProviderDirectory } from "../../supabase/functions/_shared/platform/mod.ts";

const KEY = "service-role-key";

/** A provider as Supabase Auth keeps it. */
export interface KeptProvider {
  id: string;
  created_at: string;
  entityId: string;
  domains: string[];
  attributeMapping: unknown;
}

/** A running stand-in. */
export interface AuthAdmin extends AsyncDisposable {
  settings: Settings;
  directory: ProviderDirectory;
  providers: Map<string, KeptProvider>;
  /** Method and path of each request. */
  requests: string[];
  /** Answers instead, once, after having done what was asked. */
  interrupt: (() => Response) | undefined;
}

/** Starts one. */
export function startAuthAdmin(): AuthAdmin {
  const providers = new Map<string, KeptProvider>();
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
    const { pathname } = new URL(request.url);
    const path = pathname.replace("/auth/v1/admin/sso/providers", "");
    admin.requests.push(`${request.method} ${path}`);
    const body = request.method === "POST" || request.method === "PUT" ? await request.json() : {};
    const answer = request.headers.get("authorization") === `Bearer ${KEY}`
      ? carryOut(request.method, path.slice(1), body)
      : Response.json({ msg: "no" }, { status: 401 });
    const interrupt = admin.interrupt;
    admin.interrupt = undefined;
    return interrupt?.() ?? answer;
  });

  // deno-lint-ignore no-explicit-any
  function carryOut(method: string, id: string, body: any): Response {
    if (method === "GET") {
      const items = [...providers.values()].map((each) => ({
        id: each.id,
        created_at: each.created_at,
        saml: { entity_id: each.entityId },
      }));
      return Response.json({ items });
    }
    const present = providers.get(id);
    if (method === "POST" ? body.type !== "saml" : present === undefined) {
      return Response.json({ code: 404 }, { status: 404 });
    }
    if (method === "DELETE") {
      providers.delete(id);
      return Response.json(present);
    }
    const entityId = body.metadata_xml === undefined
      ? present!.entityId
      : parseMetadata(body.metadata_xml, new Date()).entityId;
    if (present !== undefined && present.entityId !== entityId) return Response.json({}, { status: 400 });
    const others = [...providers.values()].filter((each) => each.id !== id);
    if (others.some((each) => each.entityId === entityId)) return Response.json({}, { status: 422 });
    const domains: string[] = body.domains ?? present?.domains ?? [];
    if (others.some((each) => each.domains.some((domain) => domains.includes(domain)))) {
      return Response.json({}, { status: 400 });
    }
    const kept = {
      id: present?.id ?? crypto.randomUUID(),
      created_at: present?.created_at ?? new Date().toISOString(),
      entityId,
      domains,
      attributeMapping: body.attribute_mapping ?? {},
    };
    providers.set(kept.id, kept);
    return Response.json(kept, { status: method === "POST" ? 201 : 200 });
  }

  const settings = readSettings({
    SUPABASE_URL: `http://127.0.0.1:${server.addr.port}`,
    SUPABASE_SERVICE_ROLE_KEY: KEY,
    SUPABASE_AUTH_ADMIN: "1",
  });
  const admin: AuthAdmin = {
    settings,
    directory: openProviders(settings, { allowPrivate: true }, () => {}),
    providers,
    requests: [],
    interrupt: undefined,
    [Symbol.asyncDispose]: () => server.shutdown(),
  };
  return admin;
}

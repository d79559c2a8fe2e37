/** The reference as a page for people: one file with the documents in it, drawn by a script that is kept beside it. */

import { Buffer } from "node:buffer";
import type { Json } from "./openapi_schemas.ts";

/** Who draws the page. MIT licence. */
export const SCALAR = {
  name: "@scalar/api-reference",
  version: "1.72.1",
  file: "dist/browser/standalone.js",
  sha256: "1a5cce004d71df433aa212327902dd765928104149b5af13e769495c0270129d",
};

/** Where its script is kept. */
export const VENDORED = "docs/vendor/scalar.js";

/** Switches off all that would ask anybody but the service that the reader chose. */
const CONFIGURATION = {
  agent: { disabled: true },
  mcp: { disabled: true },
  telemetry: false,
  withDefaultFonts: false,
  hideClientButton: true,
  showDeveloperTools: "never",
  proxyUrl: "",
  persistAuth: false,
  defaultOpenAllTags: false,
  orderSchemaPropertiesBy: "preserve",
  defaultHttpClient: { targetKey: "shell", clientKey: "curl" },
  metaData: { title: "Reference of v2-agent-state and vault" },
};

/**
 * What the page may do, whatever the script would like to: no other script, font, image or frame, and requests only to
 * this machine and to Supabase projects. A key that is typed in goes nowhere else.
 */
const POLICY = [
  "default-src 'none'",
  "script-src 'self' file: 'unsafe-inline'",
  "style-src 'unsafe-inline'",
  "img-src data:",
  "font-src data:",
  "connect-src http://127.0.0.1:* http://localhost:* https://*.supabase.co",
  "form-action 'none'",
  "base-uri 'none'",
].join("; ");

/** The page. The first document is the one that it opens with. */
export function referencePage(documents: readonly Json[]): string {
  const sources = documents.map((document) => ({
    title: document.info.title,
    slug: document.info.title,
    content: document,
  }));
  return `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <meta http-equiv="Content-Security-Policy" content="${POLICY}">
    <title>${CONFIGURATION.metaData.title}</title>
    <link rel="icon" href="data:,">
  </head>
  <body>
    <noscript>This page needs JavaScript. The documents that it shows are openapi.json and vault.openapi.json.</noscript>
    <div id="reference"></div>
    <script type="application/json" id="sources">
${embed(sources)}
    </script>
    <script src="${VENDORED.replace("docs/", "")}"></script>
    <script>
      Scalar.createApiReference("#reference", {
        ...${embed(CONFIGURATION)},
        sources: JSON.parse(document.getElementById("sources").textContent),
      });
    </script>
  </body>
</html>
`;
}

/** JSON that may stand inside a script element. */
function embed(value: unknown): string {
  return JSON.stringify(value).replaceAll("<", "\\u003c");
}

/** SHA-256 of a text in hex. */
export async function sha256Of(text: string): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return Buffer.from(digest).toString("hex");
}

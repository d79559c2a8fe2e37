/**
 * Metadata of SAML identity providers: read strictly, or refused with a reason. Pure.
 *
 * `saxes` checks well-formedness and namespaces as XML 1.0 says and knows no entities but the five; whatever declares
 * some is refused anyway. Only elements at their exact place count, and text that anything interrupts is refused, so
 * that nobody who reads the same file sees other values. What passes here Supabase Auth takes.
 */

import { X509Certificate } from "node:crypto";
import { SaxesParser, type SaxesTagNS } from "saxes";
import { decodeBase64, encodeHex, sha256 } from "../../_shared/domain/bytes.ts";
import { METADATA_BYTES_MAX } from "./limits.ts";

const MD = "urn:oasis:names:tc:SAML:2.0:metadata";
const DS = "http://www.w3.org/2000/09/xmldsig#";
const BINDING = "urn:oasis:names:tc:SAML:2.0:bindings:";
/** What a browser is sent with, the better one first. */
const BINDINGS = ["HTTP-Redirect", "HTTP-POST"];
const DEPTH_MAX = 64;
const ENTITY_LENGTH_MAX = 1_024;
const URL_LENGTH_MAX = 2_048;
const CERTIFICATES_MAX = 10;

const PROVIDER = `{${MD}}EntityDescriptor/{${MD}}IDPSSODescriptor`;
const SERVICE = `${PROVIDER}/{${MD}}SingleSignOnService`;
const KEY = `${PROVIDER}/{${MD}}KeyDescriptor`;
const CERTIFICATE = `${KEY}/{${DS}}KeyInfo/{${DS}}X509Data/{${DS}}X509Certificate`;

/** Why metadata is refused. */
export type MetadataReason =
  | "too_large"
  | "not_utf8"
  | "doctype"
  | "not_well_formed"
  | "too_deep"
  | "not_an_entity_descriptor"
  | "no_entity_id"
  | "no_idp_descriptor"
  | "several_idp_descriptors"
  | "no_sso_service"
  | "sso_url_not_https"
  | "no_certificate"
  | "bad_certificate"
  | "certificate_not_live";

/** Metadata that cannot be used. */
export class MetadataFault extends Error {
  readonly reason: MetadataReason;

  constructor(reason: MetadataReason) {
    super(reason);
    this.name = "MetadataFault";
    this.reason = reason;
  }
}

/** A certificate that the provider signs with. */
export interface Certificate {
  fingerprint_sha256: string;
  /** ISO 8601. */
  expires_at: string;
}

/** What is kept of an identity provider. */
export interface IdentityProvider {
  entityId: string;
  ssoUrl: string;
  /** URN. */
  ssoBinding: string;
  /** The one that lasts longest first. */
  certificates: Certificate[];
}

/** Reads metadata. `now` tells whether a certificate is live. Throws `MetadataFault`. */
export function parseMetadata(xml: string, now: Date): IdentityProvider {
  if (new TextEncoder().encode(xml).length > METADATA_BYTES_MAX) throw new MetadataFault("too_large");
  if (!xml.isWellFormed()) throw new MetadataFault("not_utf8");
  // Before anything reads it: neither may occur in metadata, wherever it stands.
  if (/<!(?:DOCTYPE|ENTITY)/i.test(xml)) throw new MetadataFault("doctype");
  const found = readElements(xml.replace(/^\ufeff/, ""));
  if (!found.isEntity) throw new MetadataFault("not_an_entity_descriptor");
  const entityId = found.entityId.trim();
  if (entityId === "" || entityId.length > ENTITY_LENGTH_MAX || /\p{Cc}/u.test(entityId)) {
    throw new MetadataFault("no_entity_id");
  }
  if (found.providers === 0) throw new MetadataFault("no_idp_descriptor");
  if (found.providers > 1) throw new MetadataFault("several_idp_descriptors");
  return {
    entityId,
    ...chooseService(found.services),
    certificates: readCertificates(found.certificates, now),
  };
}

interface Service {
  binding: string;
  location: string;
}

interface Elements {
  isEntity: boolean;
  entityId: string;
  providers: number;
  services: Service[];
  certificates: string[];
}

function readElements(xml: string): Elements {
  const found: Elements = { isEntity: false, entityId: "", providers: 0, services: [], certificates: [] };
  const parser = new SaxesParser({ xmlns: true, defaultXMLVersion: "1.0" });
  const path: string[] = [];
  let isSigning = true;
  let text: string | undefined;

  function open(tag: SaxesTagNS): void {
    interrupt();
    if (path.push(`{${tag.uri}}${tag.local}`) > DEPTH_MAX) throw new MetadataFault("too_deep");
    const place = path.join("/");
    if (place === `{${MD}}EntityDescriptor`) {
      found.isEntity = true;
      found.entityId = attributeOf(tag, "entityID");
    }
    // Anywhere: another reader might look for them there.
    if (tag.uri === MD && tag.local === "IDPSSODescriptor") found.providers++;
    if (place === SERVICE) {
      found.services.push({ binding: attributeOf(tag, "Binding"), location: attributeOf(tag, "Location") });
    }
    if (place === KEY) isSigning = attributeOf(tag, "use") !== "encryption";
    if (place === CERTIFICATE && isSigning) text = "";
  }

  /** Nothing may stand inside a text that is kept. */
  function interrupt(): void {
    if (text !== undefined) throw new MetadataFault("bad_certificate");
  }

  parser.on("error", () => {
    throw new MetadataFault("not_well_formed");
  });
  parser.on("xmldecl", ({ encoding }) => {
    if (encoding !== undefined && encoding.toLowerCase() !== "utf-8") throw new MetadataFault("not_utf8");
  });
  parser.on("doctype", () => {
    throw new MetadataFault("doctype");
  });
  parser.on("comment", interrupt);
  parser.on("cdata", interrupt);
  parser.on("processinginstruction", interrupt);
  parser.on("opentag", open);
  parser.on("text", (part) => {
    if (text !== undefined) text += part;
  });
  parser.on("closetag", () => {
    path.pop();
    if (text !== undefined) found.certificates.push(text);
    text = undefined;
  });
  parser.write(xml).close();
  return found;
}

function attributeOf(tag: SaxesTagNS, name: string): string {
  const attribute = tag.attributes[name];
  return attribute === undefined ? "" : attribute.value;
}

function chooseService(services: Service[]): { ssoUrl: string; ssoBinding: string } {
  const usable = BINDINGS.flatMap((name) => services.filter(({ binding }) => binding === BINDING + name));
  if (usable.length === 0) throw new MetadataFault("no_sso_service");
  if (!usable.every(({ location }) => isHttps(location))) throw new MetadataFault("sso_url_not_https");
  return { ssoUrl: usable[0]!.location, ssoBinding: usable[0]!.binding };
}

function isHttps(location: string): boolean {
  if (location.length > URL_LENGTH_MAX || /[\s\\\p{Cc}]/u.test(location) || !URL.canParse(location)) {
    return false;
  }
  const { protocol, username, password } = new URL(location);
  return protocol === "https:" && username === "" && password === "";
}

function readCertificates(texts: string[], now: Date): Certificate[] {
  if (texts.length === 0) throw new MetadataFault("no_certificate");
  if (texts.length > CERTIFICATES_MAX) throw new MetadataFault("bad_certificate");
  const read = texts.map(readCertificate);
  if (!read.some(({ from, to }) => from <= now && now < to)) throw new MetadataFault("certificate_not_live");
  return read.sort((a, b) => b.to.getTime() - a.to.getTime())
    .map(({ fingerprint, to }) => ({ fingerprint_sha256: fingerprint, expires_at: to.toISOString() }));
}

function readCertificate(text: string): { fingerprint: string; from: Date; to: Date } {
  const der = decodeBase64(text.replace(/[ \t\r\n]+/g, ""));
  const certificate = der === undefined ? undefined : tryCertificate(der);
  const [from, to] = [new Date(certificate?.validFrom ?? ""), new Date(certificate?.validTo ?? "")];
  if (der === undefined || Number.isNaN(from.getTime()) || Number.isNaN(to.getTime())) {
    throw new MetadataFault("bad_certificate");
  }
  return { fingerprint: encodeHex(sha256(der)), from, to };
}

/** What is no certificate makes the reader throw. */
function tryCertificate(der: Uint8Array): X509Certificate | undefined {
  try {
    return new X509Certificate(der);
  } catch {
    return undefined;
  }
}

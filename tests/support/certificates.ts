/** Certificates and metadata of identity providers, as good or as bad as a test wants them. */

import { Buffer } from "node:buffer";
import { generateKeyPairSync, randomBytes } from "node:crypto";

const DAY_MS = 86_400_000;
const MD = "urn:oasis:names:tc:SAML:2.0:metadata";
const DS = "http://www.w3.org/2000/09/xmldsig#";
const REDIRECT = "urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect";

/** When a certificate is good, in days from now. */
export interface Validity {
  from?: number;
  to?: number;
}

/** The DER of a certificate. Nobody checks who signed it, so nobody has. */
export function certificate({ from = -1, to = 365 }: Validity = {}): Buffer {
  const { publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const key = Buffer.from(publicKey.export({ type: "spki", format: "der" }));
  const algorithm = tlv(0x30, Buffer.from("06082a8648ce3d040302", "hex"));
  const name = tlv(
    0x30,
    tlv(0x31, tlv(0x30, Buffer.from("0603550403", "hex"), tlv(0x0c, Buffer.from("idp")))),
  );
  const body = tlv(
    0x30,
    tlv(0xa0, tlv(0x02, Buffer.from([2]))),
    tlv(0x02, Buffer.concat([Buffer.from([1]), randomBytes(8)])),
    algorithm,
    name,
    tlv(0x30, instant(from), instant(to)),
    name,
    key,
  );
  return tlv(0x30, body, algorithm, tlv(0x03, Buffer.concat([Buffer.from([0]), randomBytes(70)])));
}

/** The instant that {@link certificate} writes for a day from now, as ISO 8601. */
export function dayFromNow(days: number): string {
  return new Date(Math.floor((Date.now() + days * DAY_MS) / DAY_MS) * DAY_MS).toISOString();
}

function instant(days: number): Buffer {
  const text = dayFromNow(days).replace(/[-:T]/g, "").slice(0, 14);
  return tlv(0x18, Buffer.from(`${text}Z`));
}

function tlv(tag: number, ...parts: Buffer[]): Buffer {
  const content = Buffer.concat(parts);
  const length = content.length < 128
    ? Buffer.from([content.length])
    : Buffer.from([0x82, content.length >> 8, content.length & 255]);
  return Buffer.concat([Buffer.from([tag]), length, content]);
}

/** How metadata differs from good metadata. */
export interface MetadataOptions {
  entityId?: string;
  certificates?: readonly Buffer[];
  /** The element of the certificate, for what is in it besides. */
  certificateText?: string;
  use?: string;
  services?: string;
  /** Put in at these places. */
  before?: string;
  inEntity?: string;
  inProvider?: string;
  providers?: number;
}

/** One SingleSignOnService. */
export function service(location: string, binding = REDIRECT): string {
  return `<md:SingleSignOnService Binding="${binding}" Location="${location}"/>`;
}

/** The metadata of an identity provider that nobody else has. */
export function metadata(options: MetadataOptions = {}): string {
  const { certificates = [certificate()], use = "signing", providers = 1 } = options;
  const entityId = options.entityId ?? `https://idp.example/${crypto.randomUUID()}`;
  const texts = options.certificateText === undefined
    ? certificates.map((each) => each.toString("base64").replace(/.{64}/g, "$&\n"))
    : [options.certificateText];
  const keys = texts.map((text) =>
    `<md:KeyDescriptor${use === "" ? "" : ` use="${use}"`}><ds:KeyInfo xmlns:ds="${DS}"><ds:X509Data>
      <ds:X509Certificate>${text}</ds:X509Certificate></ds:X509Data></ds:KeyInfo></md:KeyDescriptor>`
  ).join("");
  const services = options.services ?? service("https://idp.example/sso");
  const provider =
    `<md:IDPSSODescriptor protocolSupportEnumeration="urn:oasis:names:tc:SAML:2.0:protocol">${keys}
    ${options.inProvider ?? ""}${services}</md:IDPSSODescriptor>`;
  return `<?xml version="1.0" encoding="UTF-8"?>${options.before ?? ""}
    <md:EntityDescriptor xmlns:md="${MD}" entityID="${entityId}">${options.inEntity ?? ""}
    ${provider.repeat(providers)}</md:EntityDescriptor>`;
}

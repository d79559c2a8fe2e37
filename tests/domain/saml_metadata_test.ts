/** Metadata of identity providers: what is good is read exactly, what is hostile or doubtful is refused, and quickly. */

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import {
  MetadataFault,
  parseMetadata,
} from "../../supabase/functions/v2-agent-state/domain/saml_metadata.ts";
import { certificate, dayFromNow, metadata, type MetadataOptions, service } from "../support/certificates.ts";

const POST = "urn:oasis:names:tc:SAML:2.0:bindings:HTTP-POST";
const REDIRECT = "urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect";
const SOAP = "urn:oasis:names:tc:SAML:2.0:bindings:SOAP";
const MD = "urn:oasis:names:tc:SAML:2.0:metadata";
const IDP = `<md:IDPSSODescriptor xmlns:md="${MD}" protocolSupportEnumeration="x"/>`;

function reasonOf(xml: string): string | undefined {
  try {
    parseMetadata(xml, new Date());
    return undefined;
  } catch (error) {
    assert.ok(error instanceof MetadataFault, String(error));
    return error.reason;
  }
}

function fingerprint(der: Uint8Array): string {
  return createHash("sha256").update(der).digest("hex");
}

Deno.test("entity, address, binding and certificates are read, the certificate that lasts longest first", () => {
  const [old, next] = [certificate({ to: 30 }), certificate({ to: 900 })];
  const read = parseMetadata(
    metadata({
      entityId: "https://idp.example/a?b=1&amp;c=2",
      certificates: [old, next],
      services: service("https://idp.example/post", POST) +
        service("https://idp.example/go?x=1&amp;y=2", REDIRECT),
    }),
    new Date(),
  );
  assert.deepEqual(read, {
    entityId: "https://idp.example/a?b=1&c=2",
    ssoUrl: "https://idp.example/go?x=1&y=2",
    ssoBinding: REDIRECT,
    certificates: [
      { fingerprint_sha256: fingerprint(next), expires_at: dayFromNow(900) },
      { fingerprint_sha256: fingerprint(old), expires_at: dayFromNow(30) },
    ],
  });
});

Deno.test("what providers add to their metadata is no hindrance: comments, other roles, signatures, keys for encryption", () => {
  const encryption =
    `<md:KeyDescriptor use="encryption"><ds:KeyInfo xmlns:ds="http://www.w3.org/2000/09/xmldsig#"><ds:X509Data>
    <ds:X509Certificate>not read</ds:X509Certificate></ds:X509Data></ds:KeyInfo></md:KeyDescriptor>`;
  const good: MetadataOptions[] = [
    { before: "<!-- license -->" },
    { inEntity: '<!-- who --><md:Extensions><x:y xmlns:x="urn:x"/></md:Extensions>' },
    { inEntity: '<md:RoleDescriptor xmlns:fed="urn:fed" protocolSupportEnumeration="x"/>' },
    {
      inEntity:
        '<Signature xmlns="http://www.w3.org/2000/09/xmldsig#"><KeyInfo><X509Data><X509Certificate>no',
    },
    { inProvider: encryption },
    { use: "" },
    { services: service("https://idp.example/post", POST) + service("http://inside/soap", SOAP) },
    { certificates: [certificate({ from: -900, to: -5 }), certificate()] },
    { entityId: "urn:idp:é" },
  ];
  good[3]!.inEntity += "t ours</X509Certificate></X509Data></KeyInfo></Signature>";
  for (const options of good) assert.equal(reasonOf(metadata(options)), undefined, JSON.stringify(options));
  assert.equal(reasonOf("\ufeff" + metadata()), undefined, "a byte order mark");
  assert.equal(
    reasonOf(metadata().replaceAll("md:", "samlmetadata:").replace("xmlns:md=", "xmlns:samlmetadata=")),
    undefined,
  );
});

Deno.test("entities, external ones and document types are refused before anything reads them", () => {
  const bomb = `<!DOCTYPE x [<!ENTITY a "${"x".repeat(50)}">${
    Array.from({ length: 9 }, (_, i) => `<!ENTITY a${i} "${`&a${i - 1 < 0 ? "" : i - 1};`.repeat(10)}">`)
      .join("")
  }]>`;
  for (
    const before of [
      bomb,
      '<!DOCTYPE x SYSTEM "file:///etc/passwd">',
      '<!DOCTYPE x [<!ENTITY e SYSTEM "http://169.254.169.254/">]>',
      "<!doctype html>",
      "<!DOCTYPE md:EntityDescriptor>",
    ]
  ) {
    assert.equal(reasonOf(metadata({ before })), "doctype");
  }
  assert.equal(reasonOf(metadata({ inEntity: "<a>&undeclared;</a>" })), "not_well_formed");
});

Deno.test("what is not well-formed is refused: mismatched tags, two roots, unbound prefixes, attributes twice, controls", () => {
  const good = metadata();
  for (
    const xml of [
      ...["", " ", "x", "<", "<a", "<a></b>", "<a/><b/>", `${good}<x/>`, good.slice(0, -3), "{}"],
      good.replace("</md:IDPSSODescriptor>", "</md:SPSSODescriptor>"),
      good.replace('xmlns:md="', 'xmlns:other="'),
      good.replace("entityID=", 'entityID="x" entityID='),
      good.replace("entityID=", "entityID"),
      good.replace("https://idp.example/sso", "https://idp.example/<!-- -->sso"),
      metadata({ inEntity: "<a>\u0001</a>" }),
      metadata({ inEntity: "<a>&#0;</a>" }),
      metadata({ inEntity: "<__proto__><a></__proto__></a>" }),
    ]
  ) {
    const reason = reasonOf(xml);
    assert.ok(
      reason === "not_well_formed" || reason === "not_an_entity_descriptor",
      `${reason}: ${xml.slice(0, 80)}`,
    );
  }
});

Deno.test("a text that a comment, a section or an instruction interrupts is nobody's certificate", () => {
  const text = certificate().toString("base64");
  const [head, tail] = [text.slice(0, 40), text.slice(40)];
  for (const inside of ["<!-- -->", "<?x y?>", "<b/>"]) {
    assert.equal(reasonOf(metadata({ certificateText: head + inside + tail })), "bad_certificate", inside);
  }
  assert.equal(reasonOf(metadata({ certificateText: `<![CDATA[${text}]]>` })), "bad_certificate");
});

Deno.test("exactly one entity and one identity provider, wherever a second one hides", () => {
  assert.equal(reasonOf(metadata({ providers: 2 })), "several_idp_descriptors");
  assert.equal(reasonOf(metadata({ providers: 0 })), "no_idp_descriptor");
  assert.equal(reasonOf(metadata({ inEntity: IDP })), "several_idp_descriptors");
  assert.equal(
    reasonOf(metadata({ inEntity: `<md:Extensions>${IDP}</md:Extensions>` })),
    "several_idp_descriptors",
  );
  const one = metadata().replace(/^<\?xml[^>]*>/, "");
  assert.equal(
    reasonOf(`<md:EntitiesDescriptor xmlns:md="${MD}">${one}${one}</md:EntitiesDescriptor>`),
    "not_an_entity_descriptor",
  );
  assert.equal(
    reasonOf(`<EntityDescriptor entityID="x">${IDP}</EntityDescriptor>`),
    "not_an_entity_descriptor",
  );
  assert.equal(reasonOf(metadata().replaceAll(MD, "urn:other")), "not_an_entity_descriptor");
});

Deno.test("an entity without a name, an address without https and a provider without a way in are refused", () => {
  for (const entityId of ["", "  ", "x".repeat(1_025), "a&#10;b".replace("&#10;", "&#127;")]) {
    assert.equal(reasonOf(metadata({ entityId })), "no_entity_id", entityId.slice(0, 20));
  }
  for (
    const location of [
      ...[
        "http://idp.example/",
        "javascript:alert(1)",
        "",
        "idp.example",
        "https://u:p@idp.example/",
        "https://a b/",
      ],
      `https://idp.example/${"x".repeat(2_048)}`,
    ]
  ) {
    assert.equal(
      reasonOf(metadata({ services: service(location) })),
      "sso_url_not_https",
      location.slice(0, 40),
    );
  }
  assert.equal(
    reasonOf(metadata({ services: service("https://a.example") + service("http://b.example", POST) })),
    "sso_url_not_https",
  );
  for (const services of ["", service("https://idp.example", SOAP)]) {
    assert.equal(reasonOf(metadata({ services })), "no_sso_service");
  }
});

Deno.test("a certificate has to be one, to be for signing, and to be live", () => {
  assert.equal(reasonOf(metadata({ certificates: [] })), "no_certificate");
  assert.equal(reasonOf(metadata({ use: "encryption" })), "no_certificate");
  for (const certificateText of ["", "!!", "AAAA", certificate().toString("base64").slice(0, -8)]) {
    assert.equal(reasonOf(metadata({ certificateText })), "bad_certificate", certificateText.slice(0, 20));
  }
  assert.equal(
    reasonOf(metadata({ certificates: Array.from({ length: 11 }, () => certificate()) })),
    "bad_certificate",
  );
  for (const validity of [{ from: -30, to: -1 }, { from: 2, to: 30 }]) {
    assert.equal(reasonOf(metadata({ certificates: [certificate(validity)] })), "certificate_not_live");
  }
});

Deno.test("metadata that is too large, too deep or in another encoding is refused quickly", () => {
  const deep = "<a>".repeat(70) + "</a>".repeat(70);
  const cases: [string, string][] = [
    ["x".repeat(10 * 1024 * 1024), "too_large"],
    [metadata({ inEntity: `<a>${"y".repeat(262_144)}</a>` }), "too_large"],
    [metadata({ inEntity: "é".repeat(131_072) }), "too_large"],
    [metadata({ inEntity: deep }), "too_deep"],
    [metadata({ inEntity: "<a>".repeat(60_000) }), "too_deep"],
    [metadata().replace("UTF-8", "UTF-16"), "not_utf8"],
    [metadata().replace("UTF-8", "ISO-8859-1"), "not_utf8"],
    [metadata({ inEntity: "\ud800" }), "not_utf8"],
    [
      metadata({ inEntity: `<a ${Array.from({ length: 20_000 }, (_, i) => `b${i}=""`).join(" ")}` }),
      "not_well_formed",
    ],
  ];
  for (const [xml, reason] of cases) {
    const start = performance.now();
    assert.equal(reasonOf(xml), reason);
    assert.ok(performance.now() - start < 1_000, `${reason} took ${performance.now() - start} ms`);
  }
});

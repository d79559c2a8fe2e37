/** Paths to attributes, as filters, patches and `attributes` name them. RFC 7644, 3.5.2 and 3.10; pure. */

import {
  type Attribute,
  coreAttributes,
  findAttribute,
  type ResourceType,
  type Schema,
} from "./scim_schemas.ts";

const PATH_LENGTH_MAX = 1_024;
const NAME = "[A-Za-z$][A-Za-z0-9$_-]*";
const ATTRIBUTE = new RegExp(`^(${NAME})(?:\\.(${NAME}))?$`);
/** `emails[type eq "work"].value`: the filter ends at the last bracket. */
const SELECTION = new RegExp(`^(${NAME})\\[(.*)\\](?:\\.(${NAME}))?$`, "s");

/** Where a path leads. */
export interface ScimPath {
  /** The extension that the attribute is in; undefined for the core. */
  extension: Schema | undefined;
  attribute: Attribute;
  /** Which elements of a multi-valued attribute; unparsed. */
  selection: string | undefined;
  sub: Attribute | undefined;
}

/**
 * Reads a path in any case, with or without the schema's URN before it. A whole extension is its schema; an attribute
 * of an extension that we do not have is `foreign`; what is no path, or leads nowhere, is undefined.
 */
export function findPath(type: ResourceType, text: string): ScimPath | Schema | "foreign" | undefined {
  if (text.length > PATH_LENGTH_MAX) return undefined;
  const { extension, rest, foreign } = splitUrn(type, text.trim());
  if (foreign) return "foreign";
  if (rest === "" && extension !== undefined) return extension;
  const selected = SELECTION.exec(rest);
  const [, name, subName] = selected === null ? ATTRIBUTE.exec(rest) ?? [] : [, selected[1], selected[3]];
  if (name === undefined) return undefined;
  const attribute = findAttribute(extension?.attributes ?? coreAttributes(type), name);
  const sub = subName === undefined ? undefined : findAttribute(attribute?.subAttributes ?? [], subName);
  if (attribute === undefined || (subName !== undefined && sub === undefined)) return undefined;
  if (selected !== null && !attribute.multiValued) return undefined;
  return { extension, attribute, selection: selected?.[2], sub };
}

/** Whether a path leads to a whole extension. */
export function isSchema(path: ScimPath | Schema | "foreign"): path is Schema {
  return path !== "foreign" && "attributes" in path;
}

/** For messages: what a client sent, in quotes and not too much of it. */
export function quote(text: string): string {
  const shown = text.toWellFormed();
  return JSON.stringify(shown.length > 100 ? `${shown.slice(0, 100)}…` : shown);
}

/** Takes the URN of a schema off a path. URNs hold dots and colons, so known ones are looked for. */
function splitUrn(
  type: ResourceType,
  text: string,
): { extension: Schema | undefined; rest: string; foreign: boolean } {
  if (!/^urn:/i.test(text)) return { extension: undefined, rest: text, foreign: false };
  const lower = text.toLowerCase();
  for (const schema of [type.schema, ...type.extensions]) {
    const urn = schema.id.toLowerCase();
    const next = text[urn.length];
    if (!lower.startsWith(urn) || (next !== undefined && next !== ":" && next !== ".")) continue;
    const extension = schema === type.schema ? undefined : schema;
    return { extension, rest: text.slice(urn.length + 1), foreign: false };
  }
  return { extension: undefined, rest: text, foreign: true };
}

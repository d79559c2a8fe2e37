/** Users and groups as clients send them, made into what is kept, and back. RFC 7643; pure. */

import { ScimFault } from "./scim_fault.ts";
import { findPath, isSchema, quote } from "./scim_path.ts";
import {
  type Attribute,
  coreAttributes,
  ENTERPRISE_SCHEMA,
  findAttribute,
  GROUP_TYPE,
  type ResourceType,
  USER_TYPE,
} from "./scim_schemas.ts";

const TEXT_LENGTH_MAX = 1_024;
const VALUES_MAX = 100;
const EMAIL_LENGTH_MAX = 320;
const EMAIL = /^[^\s\p{Cc}<>,;:"@]+@[^\s\p{Cc}<>,;:"@]+$/u;

/** A resource, or a part of one, with every name spelled as its schema does. */
export type Fields = Record<string, unknown>;

/** A user for `app.read_scim_change`. */
export interface UserChange {
  user_name: string;
  external_id: string | null;
  email: string | null;
  active: boolean;
  attributes: Fields;
}

/** A user as `app.show_scim_user` returns it. */
export interface StoredUser {
  id: string;
  user_name: string;
  external_id: string | null;
  active: boolean;
  attributes: Fields;
  groups: { value: string; display: string }[];
  version: number;
  created_at: string;
  updated_at: string;
}

/** A group as `app.show_scim_group` returns it. */
export interface StoredGroup {
  id: string;
  display_name: string;
  external_id: string | null;
  /** Ids of users. */
  members?: string[];
  version: number;
  created_at: string;
  updated_at: string;
}

/**
 * Reads a resource: what its schemas know, in their spelling. What they do not know, and what is not the client's to
 * set, is left out. Throws `invalid_scim_value`.
 */
export function readResource(type: ResourceType, input: Fields): Fields {
  const resource = readFields(coreAttributes(type), input);
  for (const { id, attributes } of type.extensions) {
    const name = Object.keys(input).find((key) => key.toLowerCase() === id.toLowerCase());
    const fields = name === undefined || !isFields(input[name]) ? {} : readFields(attributes, input[name]);
    if (Object.keys(fields).length > 0) resource[id] = fields;
  }
  return resource;
}

/**
 * Reads the value of an attribute, forgiving what directories are known to send: one value for a list, a list of
 * one for a value, `"False"`, a bare text for the `value` of a complex one. Undefined when nothing is assigned.
 */
export function readValue(attribute: Attribute, value: unknown): unknown {
  if (value === null || value === undefined) return undefined;
  if (!attribute.multiValued) {
    const single = Array.isArray(value) && value.length <= 1 ? value[0] : value;
    return readSingle(attribute, single);
  }
  const list = Array.isArray(value) ? value : [value];
  if (list.length > VALUES_MAX) throw invalid(attribute, `has more than ${VALUES_MAX} values`);
  const read = list.map((each) => readSingle(attribute, each)).filter((each) => each !== undefined);
  return read.length === 0 ? undefined : preferLast(read as Fields[]);
}

/** At most one value is the primary one: the one that was said last. RFC 7643 section 2.4. */
export function preferLast(list: Fields[]): Fields[] {
  const last = list.findLastIndex((each) => each.primary === true);
  return list.map((each, i) => each.primary === true && i !== last ? { ...each, primary: false } : each);
}

/** A user's resource as it is to be kept. `active`: what holds when the resource does not say. */
export function toUserChange(resource: Fields, active: boolean): UserChange {
  const { userName, externalId, active: said, ...attributes } = resource;
  if (typeof userName !== "string") throw new ScimFault("invalid_scim_value", "userName is required");
  return {
    user_name: userName,
    external_id: typeof externalId === "string" ? externalId : null,
    email: findEmail(resource),
    active: typeof said === "boolean" ? said : active,
    attributes,
  };
}

/** The resource of a kept user, for a patch to change. */
export function toResource({ user_name, external_id, active, attributes }: StoredUser): Fields {
  return {
    userName: user_name,
    ...(external_id === null ? {} : { externalId: external_id }),
    active,
    ...attributes,
  };
}

/** The address that the user signs in with: the primary one, else the one for work, else the first, else the name. */
export function findEmail({ emails, userName }: Fields): string | null {
  const list = (emails ?? []) as Fields[];
  const best = list.find((each) => each.primary === true) ?? list.find((each) => each.type === "work") ??
    list[0];
  const candidates = [best?.value, userName];
  const found = candidates.find((each) =>
    typeof each === "string" && each.length <= EMAIL_LENGTH_MAX && EMAIL.test(each)
  );
  return (found as string | undefined) ?? null;
}

/** A user as clients see it. `base` is the address of `/scim/v2`. */
export function showUser(user: StoredUser, base: string): Fields {
  const extended = ENTERPRISE_SCHEMA in user.attributes;
  return {
    schemas: [USER_TYPE.schema.id, ...(extended ? [ENTERPRISE_SCHEMA] : [])],
    id: user.id,
    ...toResource(user),
    ...(user.groups.length === 0 ? {} : {
      groups: user.groups.map((group) => ({ ...group, $ref: `${base}/Groups/${group.value}` })),
    }),
    meta: metaOf(USER_TYPE, user, base),
  };
}

/** A group as clients see it. */
export function showGroup(group: StoredGroup, base: string): Fields {
  return {
    schemas: [GROUP_TYPE.schema.id],
    id: group.id,
    ...(group.external_id === null ? {} : { externalId: group.external_id }),
    displayName: group.display_name,
    ...(group.members === undefined ? {} : {
      members: group.members.map((id) => ({ value: id, type: "User", $ref: `${base}/Users/${id}` })),
    }),
    meta: metaOf(GROUP_TYPE, group, base),
  };
}

/** The entity tag of a version. */
export function etagOf(version: number): string {
  return `W/"${version}"`;
}

/** Which attributes an answer is to have: only these, or all but these. */
export interface Selection {
  only: string[] | undefined;
  without: string[];
}

/** Groups are large; who does not want the members does not wait for them. */
export function wantsMembers({ only, without }: Selection): boolean {
  const isMembers = (name: string) => /(?:^|:)members(?:\.|$)/i.test(name);
  return only === undefined ? !without.some((name) => /(?:^|:)members$/i.test(name)) : only.some(isMembers);
}

/** Leaves out what the client did not ask for. `schemas` and `id` are always there. RFC 7644, 3.9. */
export function project(type: ResourceType, resource: Fields, { only, without }: Selection): Fields {
  const kept = only === undefined
    ? { ...resource }
    : { schemas: resource.schemas, id: resource.id } as Fields;
  for (const name of only ?? []) copyPath(type, resource, kept, name);
  for (const name of without) dropPath(type, kept, name);
  return kept;
}

function copyPath(type: ResourceType, from: Fields, to: Fields, name: string): void {
  const path = findPath(type, name);
  if (path === undefined || path === "foreign") return;
  if (isSchema(path)) {
    if (from[path.id] !== undefined) to[path.id] = from[path.id];
    return;
  }
  const { extension, attribute, sub } = path;
  const source = extension === undefined ? from : from[extension.id] as Fields | undefined;
  const value = source?.[attribute.name];
  if (value === undefined) return;
  const part = sub === undefined ? value : mapParts(value, (fields) => pick(fields, sub.name));
  const target = extension === undefined ? to : (to[extension.id] ??= {}) as Fields;
  const before = target[attribute.name];
  target[attribute.name] = before === undefined || sub === undefined ? part : mergeParts(before, part);
}

function dropPath(type: ResourceType, resource: Fields, name: string): void {
  const path = findPath(type, name);
  if (path === undefined || path === "foreign") return;
  if (isSchema(path)) return void delete resource[path.id];
  const { extension, attribute, sub } = path;
  if (extension === undefined && attribute.returned === "always") return;
  const holder = extension === undefined ? resource : { ...resource[extension.id] as Fields };
  if (extension !== undefined && extension.id in resource) resource[extension.id] = holder;
  if (sub === undefined) delete holder[attribute.name];
  else if (holder[attribute.name] !== undefined) {
    holder[attribute.name] = mapParts(holder[attribute.name], ({ [sub.name]: _, ...rest }) => rest);
  }
}

function mapParts(value: unknown, change: (fields: Fields) => Fields): unknown {
  return Array.isArray(value) ? value.map(change) : change(value as Fields);
}

function mergeParts(a: unknown, b: unknown): unknown {
  if (!Array.isArray(a)) return { ...a as Fields, ...b as Fields };
  return a.map((each, i) => ({ ...each, ...(b as Fields[])[i] }));
}

function pick(fields: Fields, name: string): Fields {
  return name in fields ? { [name]: fields[name] } : {};
}

function metaOf(
  type: ResourceType,
  { id, version, created_at, updated_at }: StoredUser | StoredGroup,
  base: string,
): Fields {
  return {
    resourceType: type.id,
    created: created_at,
    lastModified: updated_at,
    location: `${base}${type.endpoint}/${id}`,
    version: etagOf(version),
  };
}

function readFields(attributes: readonly Attribute[], input: Fields): Fields {
  const fields: Fields = {};
  for (const [name, value] of Object.entries(input)) {
    const attribute = findAttribute(attributes, name);
    if (attribute === undefined || attribute.mutability === "readOnly" || isMembers(attribute)) continue;
    const read = readValue(attribute, value);
    if (read !== undefined) fields[attribute.name] = read;
  }
  return fields;
}

/** They are rows of their own, and there may be many: `readMembers` reads them. */
function isMembers(attribute: Attribute): boolean {
  return attribute.name === "members" && attribute.multiValued;
}

function readSingle(attribute: Attribute, value: unknown): unknown {
  if (value === null || value === undefined) return undefined;
  if (attribute.type === "complex") {
    const fields = isFields(value) ? value : { value };
    if (!isFields(value) && findAttribute(attribute.subAttributes!, "value") === undefined) {
      throw invalid(attribute, "is an object");
    }
    const read = readFields(attribute.subAttributes!, fields);
    return Object.keys(read).length === 0 ? undefined : read;
  }
  // An older Entra wraps single values.
  const bare = isFields(value) && "value" in value ? value.value : value;
  if (attribute.type === "boolean") return readBoolean(attribute, bare);
  if (typeof bare === "number") return String(bare);
  if (bare === null || bare === "") return undefined;
  if (
    typeof bare !== "string" || bare.length > TEXT_LENGTH_MAX || !bare.isWellFormed() || bare.includes("\0")
  ) {
    throw invalid(attribute, `is text of at most ${TEXT_LENGTH_MAX} characters`);
  }
  return bare;
}

function readBoolean(attribute: Attribute, value: unknown): boolean | undefined {
  if (typeof value === "boolean") return value;
  const word = typeof value === "string" ? value.toLowerCase() : undefined;
  if (word === "true" || word === "false") return word === "true";
  throw invalid(attribute, "is true or false");
}

function invalid(attribute: Attribute, problem: string): ScimFault {
  return new ScimFault("invalid_scim_value", `${quote(attribute.name)} ${problem}`);
}

export function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

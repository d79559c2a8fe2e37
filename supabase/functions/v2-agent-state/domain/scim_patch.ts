/**
 * Patches, as directories really send them: operations in any case, without a path, with dotted or qualified names as
 * keys, with texts for booleans and lists for single values. Every operation is brought into one form, checked
 * against the schema, and carried out. RFC 7644, 3.5.2; pure.
 */

import { ScimFault } from "./scim_fault.ts";
import { compileSelection, type FilterNode } from "./scim_filter.ts";
import { findPath, isSchema, quote, type ScimPath } from "./scim_path.ts";
import { type Fields, isFields, preferLast, readValue } from "./scim_resource.ts";
import { GROUP_TYPE, type ResourceType, type Schema, USER_TYPE } from "./scim_schemas.ts";

const OPERATIONS_MAX = 1_000;
const MEMBERS_MAX = 10_000;
const OPS = ["add", "remove", "replace"] as const;
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

type Op = typeof OPS[number];

/** One operation on one place. */
interface Step {
  op: Op;
  path: ScimPath;
  value: unknown;
}

/** What a patch does to a group, for `api.change_scim_group`. */
export interface GroupChange {
  /** Undefined: as it is. */
  displayName?: string;
  /** Undefined: as it is; null: none. */
  externalId?: string | null;
  /** Nobody stays but those who are added. */
  only: boolean;
  added: string[];
  removed: string[];
}

/** Carries a patch out on a user's resource and returns the new one. Throws a `ScimFault`. */
export function patchUser(resource: Fields, body: Fields): Fields {
  const patched = structuredClone(resource);
  for (const step of readSteps(USER_TYPE, body)) applyStep(patched, step);
  for (const { id } of USER_TYPE.extensions) {
    if (isFields(patched[id]) && Object.keys(patched[id]).length === 0) delete patched[id];
  }
  return patched;
}

/** Says what a patch does to a group. Throws a `ScimFault`. */
export function patchGroup(body: Fields): GroupChange {
  const change: { displayName?: string; externalId?: string | null } = {};
  const members = { only: false, added: new Set<string>(), removed: new Set<string>() };
  for (const { op, path, value } of readSteps(GROUP_TYPE, body)) {
    if (path.attribute.name === "members") changeMembers(members, op, path, value);
    else if (path.attribute.name === "externalId") {
      change.externalId = op === "remove" ? null : readValue(path.attribute, value) as string ?? null;
    } else {
      const name = op === "remove" ? undefined : readValue(path.attribute, value);
      if (typeof name !== "string") throw new ScimFault("invalid_scim_value", "displayName is required");
      change.displayName = name;
    }
  }
  return { ...change, only: members.only, added: [...members.added], removed: [...members.removed] };
}

/** The ids of the users that a list of members names. Throws `invalid_scim_value`. */
export function readMembers(value: unknown): string[] {
  const list = value === undefined || value === null ? [] : Array.isArray(value) ? value : [value];
  if (list.length > MEMBERS_MAX) {
    throw new ScimFault("invalid_scim_value", `More than ${MEMBERS_MAX} members at once`);
  }
  const ids = list.map((each) => {
    const key = isFields(each) ? Object.keys(each).find((name) => name.toLowerCase() === "value") : undefined;
    const id = key === undefined ? each : (each as Fields)[key];
    if (typeof id !== "string" || !UUID.test(id)) {
      throw new ScimFault("invalid_scim_value", "A member is named by the id of a user");
    }
    return id.toLowerCase();
  });
  return [...new Set(ids)];
}

function readSteps(type: ResourceType, body: Fields): Step[] {
  const name = Object.keys(body).find((key) => key.toLowerCase() === "operations");
  const operations = name === undefined ? undefined : body[name];
  if (!Array.isArray(operations) || operations.length === 0 || operations.length > OPERATIONS_MAX) {
    throw new ScimFault("invalid_scim_syntax", `A patch has 1 to ${OPERATIONS_MAX} Operations`);
  }
  return operations.flatMap((each) => expand(type, each));
}

function expand(type: ResourceType, operation: unknown): Step[] {
  if (!isFields(operation)) throw new ScimFault("invalid_scim_syntax", "An operation is an object");
  const { op: said, path, value } = lowerKeys(operation);
  const op = OPS.find((each) => typeof said === "string" && each === said.toLowerCase());
  if (op === undefined) {
    throw new ScimFault("invalid_scim_syntax", "An operation's op is add, remove or replace");
  }
  if (typeof path === "string" && path.trim() !== "") return expandPath(type, op, path, value);
  if (path !== undefined && path !== null && path !== "") {
    throw new ScimFault("invalid_scim_path", "A path is text");
  }
  if (op === "remove") throw new ScimFault("scim_no_target", "To remove something takes a path");
  if (!isFields(value)) throw new ScimFault("invalid_scim_syntax", "Without a path the value is an object");
  return Object.entries(value).flatMap(([key, part]) => expandKey(type, op, key, part));
}

function expandPath(type: ResourceType, op: Op, text: string, value: unknown): Step[] {
  const path = findPath(type, text);
  if (path === undefined) throw new ScimFault("invalid_scim_path", `There is no path ${quote(text)}`);
  if (path === "foreign") return [];
  if (isSchema(path)) return expandExtension(type, op, path, value);
  if (path.attribute.mutability === "readOnly") {
    throw new ScimFault("scim_mutability", `${quote(path.attribute.name)} is not the client's to set`);
  }
  if (op !== "remove" && value === undefined) {
    throw new ScimFault("invalid_scim_value", `There is no value for ${quote(text)}`);
  }
  return [{ op, path, value }];
}

/** A key of a value without a path. What is not known, or not the client's to set, is passed over. */
function expandKey(type: ResourceType, op: Op, key: string, value: unknown): Step[] {
  const path = findPath(type, key);
  if (path === undefined || path === "foreign") return [];
  if (isSchema(path)) return expandExtension(type, op, path, value);
  return path.attribute.mutability === "readOnly" ? [] : [{ op, path, value }];
}

function expandExtension(type: ResourceType, op: Op, { id, attributes }: Schema, value: unknown): Step[] {
  if (op === "remove") {
    return attributes.flatMap(({ name }) => expandPath(type, op, `${id}:${name}`, undefined));
  }
  if (!isFields(value)) throw new ScimFault("invalid_scim_value", "The value of an extension is an object");
  return Object.entries(value).flatMap(([key, part]) => expandKey(type, op, `${id}:${key}`, part));
}

function applyStep(resource: Fields, step: Step): void {
  const { extension, attribute } = step.path;
  const holder = extension === undefined ? resource : (resource[extension.id] ??= {}) as Fields;
  const before = holder[attribute.name];
  const after = attribute.multiValued
    ? changeList(step, (before ?? []) as Fields[])
    : changeSingle(step, before);
  if (after === undefined) delete holder[attribute.name];
  else holder[attribute.name] = after;
}

function changeSingle({ op, path: { attribute, sub }, value }: Step, before: unknown): unknown {
  if (sub !== undefined) return changePart(op, sub, value, (before ?? {}) as Fields);
  const read = op === "remove" ? undefined : readValue(attribute, value);
  // Parts of a complex attribute that are not named stay.
  return isFields(read) && isFields(before) ? { ...before, ...read } : read;
}

function changePart(op: Op, sub: ScimPath["attribute"], value: unknown, before: Fields): Fields | undefined {
  const { [sub.name]: _, ...rest } = before;
  const read = op === "remove" ? undefined : readValue(sub, value);
  const after = read === undefined ? rest : { ...before, [sub.name]: read };
  return Object.keys(after).length === 0 ? undefined : after;
}

function changeList(step: Step, before: Fields[]): Fields[] | undefined {
  const after = step.path.selection === undefined && step.path.sub === undefined
    ? changeWholeList(step, before)
    : changeSelected(step, before);
  return after.length === 0 ? undefined : after;
}

function changeWholeList({ op, path: { attribute }, value }: Step, before: Fields[]): Fields[] {
  const read = (readValue(attribute, value) ?? []) as Fields[];
  if (op === "replace") return read;
  if (op === "remove") {
    return read.length === 0 ? [] : before.filter((each) => !read.some((gone) => includes(each, gone)));
  }
  const added = read.filter((each) => !before.some((there) => includes(there, each)));
  return preferLast([...before, ...added]);
}

function changeSelected({ op, path, value }: Step, before: Fields[]): Fields[] {
  const { attribute, selection, sub } = path;
  const node = selection === undefined ? undefined : compileSelection(USER_TYPE, attribute, selection);
  const isSelected = (each: Fields) => node === undefined || matches(node, each);
  if (op === "remove" && sub === undefined) return before.filter((each) => !isSelected(each));
  const change = (each: Fields): Fields =>
    sub !== undefined
      ? changePart(op, sub, value, each) ?? {}
      : { ...each, ...readValue({ ...attribute, multiValued: false }, value) as Fields };
  if (op !== "remove" && !before.some(isSelected)) {
    // What a replacement does not find is added: directories count on it.
    return preferLast([...before, change(node === undefined ? {} : describe(node))]);
  }
  const changed = before.map((each) => isSelected(each) ? change(each) : each);
  const preferred = sub?.name === "primary"
    ? changed.findIndex((each, i) => each.primary && isSelected(before[i]!))
    : -1;
  const list = preferred < 0
    ? changed
    : changed.map((each, i) => each.primary && i !== preferred ? { ...each, primary: false } : each);
  return list.filter((each) => Object.keys(each).length > 0);
}

/** The element that a selection describes: only one that says what its parts are. */
function describe(node: FilterNode): Fields {
  if ("and" in node) return Object.assign({}, ...node.and.map(describe));
  if ("op" in node && node.op === "eq") {
    return { [node.path![0]!]: node.type === "boolean" ? node.value === "true" : node.value };
  }
  throw new ScimFault("scim_no_target", "Nothing is selected by the path");
}

/** Whether an element is selected. */
function matches(node: FilterNode, element: Fields): boolean {
  if ("and" in node) return node.and.every((each) => matches(each, element));
  if ("or" in node) return node.or.some((each) => matches(each, element));
  if ("not" in node) return !matches(node.not[0], element);
  if ("any" in node) return false;
  const fold = (text: string) => node.type === "text" ? text.toLowerCase() : text;
  const there = element[node.path![0]!];
  const [left, right] = [there === undefined ? undefined : fold(String(there)), fold(node.value ?? "")];
  if (node.op === "ne") return left !== right;
  if (left === undefined) return false;
  switch (node.op) {
    case "eq":
      return left === right;
    case "co":
      return left.includes(right);
    case "sw":
      return left.startsWith(right);
    case "ew":
      return left.endsWith(right);
    case "gt":
      return left > right;
    case "ge":
      return left >= right;
    case "lt":
      return left < right;
    case "le":
      return left <= right;
    case "pr":
      return left !== "";
  }
}

/** Whether an element is what is named: equal in every part that is named. */
function includes(element: Fields, named: Fields): boolean {
  return Object.entries(named).every(([name, value]) => element[name] === value);
}

function changeMembers(
  members: { only: boolean; added: Set<string>; removed: Set<string> },
  op: Op,
  { selection, sub }: ScimPath,
  value: unknown,
): void {
  if (sub !== undefined && sub.name !== "value") {
    throw new ScimFault("scim_mutability", "Members are added and removed, not changed");
  }
  const ids = selection === undefined
    ? readMembers(value)
    : selectedIds(compileSelection(GROUP_TYPE, GROUP_TYPE.schema.attributes[1]!, selection));
  if (
    op === "replace" && selection === undefined ||
    op === "remove" && selection === undefined && ids.length === 0
  ) {
    members.only = true;
    members.added.clear();
    members.removed.clear();
  }
  const [to, from] = op === "remove" ? [members.removed, members.added] : [members.added, members.removed];
  for (const id of ids) {
    to.add(id);
    from.delete(id);
  }
}

/** `value eq "…"`, alone or joined by `or`. */
function selectedIds(node: FilterNode): string[] {
  if ("or" in node) return node.or.flatMap(selectedIds);
  if ("op" in node && node.op === "eq" && node.path?.[0] === "value") return readMembers([node.value]);
  throw new ScimFault("invalid_scim_filter", 'Members are selected by value eq "…"');
}

function lowerKeys(fields: Fields): Fields {
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [name.toLowerCase(), value]));
}

/** Filters of SCIM searches, as trees that the database turns into conditions. RFC 7644, 3.4.2.2; pure. */

import { type Filter, parse } from "scim2-parse-filter";
import { ScimFault } from "./scim_fault.ts";
import { findPath, isSchema, quote, type ScimPath } from "./scim_path.ts";
import { type Attribute, findAttribute, type ResourceType } from "./scim_schemas.ts";

const FILTER_LENGTH_MAX = 2_048;
const DEPTH_MAX = 20;
const NODES_MAX = 100;
const TEXT = /"(?:[^"\\]|\\.)*"/gs;

/** A filter as `app.scim_where` reads it. */
export type FilterNode =
  | { and: FilterNode[] }
  | { or: FilterNode[] }
  | { not: [FilterNode] }
  | { any: string; where: [FilterNode] }
  | Comparison;

/** One comparison: about a column of the resource, or about a place in its attributes or in one element. */
export interface Comparison {
  op: "eq" | "ne" | "co" | "sw" | "ew" | "gt" | "ge" | "lt" | "le" | "pr";
  type: "text" | "exact" | "boolean" | "instant";
  column?: string;
  path?: string[];
  value?: string;
}

type Operator = Comparison["op"];

const COLUMNS: Record<string, string> = {
  "id": "id",
  "userName": "user_name",
  "externalId": "external_id",
  "active": "active",
  "meta.created": "created_at",
  "meta.lastModified": "updated_at",
};
const SEARCHING: readonly Operator[] = ["co", "sw", "ew"];

/** Parses a filter's text. */
function parseFilter(text: string): Filter {
  if (text.length > FILTER_LENGTH_MAX) throw new ScimFault("invalid_scim_filter", "The filter is too long");
  if (!text.isWellFormed() || text.includes("\0")) {
    throw new ScimFault("invalid_scim_filter", "The filter is not well-formed text");
  }
  const filter = tryParse(text);
  if (filter === undefined) {
    throw new ScimFault("invalid_scim_filter", `Cannot read the filter ${quote(text)}`);
  }
  return filter;
}

/** Parses a filter and checks it against the attributes of a kind of resource. Throws `invalid_scim_filter`. */
export function compileFilter(type: ResourceType, text: string): FilterNode {
  const filter = parseFilter(text);
  // Only where something follows the bracket does a comparison belong to the selection before it.
  return compile(type, /\]\s*\./.test(text) ? joinSelections(filter) : filter, undefined);
}

/** The same for a filter that selects elements of a multi-valued attribute. */
export function compileSelection(type: ResourceType, attribute: Attribute, text: string): FilterNode {
  return compile(type, parseFilter(text), attribute);
}

function compile(type: ResourceType, whole: Filter, element: Attribute | undefined): FilterNode {
  let nodes = 0;

  function visit(filter: Filter, within: Attribute | undefined, depth: number): FilterNode {
    if (++nodes > NODES_MAX || depth > DEPTH_MAX) {
      throw new ScimFault("invalid_scim_filter", "The filter is too large");
    }
    switch (filter.op) {
      case "and":
        return { and: filter.filters.map((each) => visit(each, within, depth + 1)) };
      case "or":
        return { or: filter.filters.map((each) => visit(each, within, depth + 1)) };
      case "not":
        return { not: [visit(filter.filter, within, depth + 1)] };
      case "[]": {
        const { attribute, sub } = target(type, filter.attrPath, within);
        if (!attribute.multiValued || sub !== undefined) refuse(filter.attrPath, "has no elements to select");
        return { any: attribute.name, where: [visit(filter.valFilter, attribute, depth + 1)] };
      }
      default:
        return compare(type, filter as Leaf, within);
    }
  }

  return visit(whole, element, 0);
}

interface Leaf {
  op: Operator;
  attrPath: string;
  compValue?: unknown;
}

/**
 * `emails[type eq "work"].value eq "x"` means one element that is both; the parser makes of it two conditions that
 * different elements could meet.
 */
function joinSelections(filter: Filter): Filter {
  if (filter.op === "not") return { ...filter, filter: joinSelections(filter.filter) };
  if (filter.op !== "and" && filter.op !== "or") return filter;
  const filters = filter.filters.map(joinSelections);
  const [selection, comparison] = filters;
  if (
    filter.op === "and" && filters.length === 2 && selection?.op === "[]" && comparison !== undefined &&
    "attrPath" in comparison && comparison.attrPath.startsWith(`${selection.attrPath}.`)
  ) {
    const inner = { ...comparison, attrPath: comparison.attrPath.slice(selection.attrPath.length + 1) };
    return { ...selection, valFilter: { op: "and", filters: [selection.valFilter, inner as Filter] } };
  }
  return { ...filter, filters };
}

function compare(type: ResourceType, leaf: Leaf, within: Attribute | undefined): FilterNode {
  const path = target(type, leaf.attrPath, within);
  const { attribute } = path;
  if (within === undefined && attribute.multiValued) {
    const sub = path.sub ?? attribute.subAttributes!.find((each) => each.name === "value");
    if (sub === undefined) refuse(leaf.attrPath, "needs a part to compare");
    const element = { ...comparisonOf(leaf, sub!), path: [sub!.name] };
    // Nothing is unequal to what is not there: none of the elements may be equal.
    if (leaf.op === "ne") return { not: [{ any: attribute.name, where: [{ ...element, op: "eq" }] }] };
    return { any: attribute.name, where: [element] };
  }
  const compared = path.sub ?? attribute;
  if (compared.type === "complex" && leaf.op !== "pr") refuse(leaf.attrPath, "needs a part to compare");
  const column = within === undefined ? columnOf(type, path) : undefined;
  const comparison = comparisonOf(leaf, compared);
  if (column !== undefined) return { ...comparison, column };
  const steps = [path.extension?.id, attribute.name, path.sub?.name];
  return { ...comparison, path: steps.filter((step) => step !== undefined) };
}

function columnOf(type: ResourceType, { extension, attribute, sub }: ScimPath): string | undefined {
  if (extension !== undefined) return undefined;
  if (type.id === "Group" && attribute.name === "displayName") return "display_name";
  return COLUMNS[sub === undefined ? attribute.name : `${attribute.name}.${sub.name}`];
}

/** Finds the attribute; inside a selection the name is that of a part of the element. */
function target(type: ResourceType, name: string, within: Attribute | undefined): ScimPath {
  if (within !== undefined) {
    const attribute = findAttribute(within.subAttributes ?? [], name);
    if (attribute === undefined) return refuse(name, `is not part of ${within.name}`);
    return { extension: undefined, attribute, selection: undefined, sub: undefined };
  }
  const path = /[[\]]/.test(name) ? undefined : findPath(type, name);
  if (path === undefined || path === "foreign" || isSchema(path) || isUnsearchable(path)) {
    return refuse(name, "cannot be searched for");
  }
  return path;
}

/** Where a resource is depends on who asks, and its version and kind are nothing to search for. */
function isUnsearchable({ attribute, sub }: ScimPath): boolean {
  return sub?.name === "$ref" || (attribute.name === "meta" && sub?.type !== "dateTime");
}

function comparisonOf({ op, attrPath, compValue }: Leaf, { type, caseExact }: Attribute): Comparison {
  if (op === "pr") return { op, type: "exact" };
  const kind = type === "boolean"
    ? "boolean"
    : type === "dateTime"
    ? "instant"
    : caseExact || type === "reference"
    ? "exact"
    : "text";
  // Not to be null is to be present.
  if (compValue === null && (op === "eq" || op === "ne")) refuse(attrPath, 'is compared with null; say "pr"');
  if (kind === "boolean") {
    const value = String(compValue).toLowerCase();
    if (!["true", "false"].includes(value)) refuse(attrPath, "is true or false");
    if (op !== "eq" && op !== "ne") refuse(attrPath, "has no order");
    return { op, type: kind, value };
  }
  if (typeof compValue !== "string") refuse(attrPath, "is text");
  const value = compValue as string;
  if (!value.isWellFormed() || value.includes("\0")) refuse(attrPath, "is compared with what is no text");
  if (kind !== "instant") return { op, type: kind, value };
  const at = new Date(value);
  if (SEARCHING.includes(op) || Number.isNaN(at.getTime())) refuse(attrPath, "is an instant");
  return { op, type: kind, value: at.toISOString() };
}

function refuse(name: string, problem: string): never {
  throw new ScimFault("invalid_scim_filter", `${quote(name)} ${problem}`);
}

/**
 * Parses a filter. The parser takes backslashes for themselves, where SCIM has the escapes of JSON, so it is given
 * numbers in the place of texts. What it stumbles over it throws.
 */
function tryParse(text: string): Filter | undefined {
  const texts: string[] = [];
  const numbered = text.replace(TEXT, (literal) => `"${texts.push(decodeText(literal)) - 1}"`);
  if ((numbered.match(/[([]/g)?.length ?? 0) > NODES_MAX) return undefined;
  try {
    return withTexts(parse(numbered), texts);
  } catch {
    return undefined;
  }
}

function withTexts(filter: Filter, texts: readonly string[]): Filter {
  if ("filters" in filter) {
    return {
      ...filter,
      filters: filter.filters.map((each) => withTexts(each, texts)),
    };
  }
  if ("filter" in filter) return { ...filter, filter: withTexts(filter.filter, texts) };
  if ("valFilter" in filter) return { ...filter, valFilter: withTexts(filter.valFilter, texts) };
  if (!("compValue" in filter) || typeof filter.compValue !== "string") return filter;
  return { ...filter, compValue: texts[Number(filter.compValue)]! };
}

/** A JSON text; one with a backslash that escapes nothing, as in `DOMAIN\name`, is taken as it stands. */
function decodeText(literal: string): string {
  try {
    return JSON.parse(literal);
  } catch {
    return literal.slice(1, -1).replaceAll('\\"', '"');
  }
}

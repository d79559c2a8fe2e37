/** Searches a directory: one kind of resource, or all of them as one list. RFC 7644, 3.4.2 and 3.4.3. */

import { ApiError } from "../../_shared/errors.ts";
import type { Database } from "../../_shared/platform/mod.ts";
import { listOf } from "../domain/scim_discovery.ts";
import { compileFilter, type FilterNode } from "../domain/scim_filter.ts";
import {
  type Fields,
  project,
  type Selection,
  showGroup,
  showUser,
  type StoredGroup,
  type StoredUser,
  wantsMembers,
} from "../domain/scim_resource.ts";
import { type ResourceType, USER_TYPE } from "../domain/scim_schemas.ts";
import { refuseFaults } from "./scim_faults.ts";

/** What a search asks for. */
export interface Search {
  filter: string | undefined;
  /** Counts from 1. */
  start: number;
  count: number;
  selection: Selection;
}

/**
 * Returns a page of the resources that the filter lets through, kind after kind. A filter about what one kind does not
 * have finds nothing of it. Errors: `invalid_scim_filter` when no kind has it.
 */
export async function searchDirectory(
  db: Database,
  tokenHash: Uint8Array,
  types: readonly ResourceType[],
  search: Search,
  base: string,
): Promise<Fields> {
  const found: Fields[] = [];
  let total = 0;
  for (const { type, filter } of filtersOf(types, search.filter)) {
    const page = await db.call<{ total: number; resources: Fields[] }>(
      type === USER_TYPE ? "find_scim_users" : "find_scim_groups",
      {
        p_token_hash: tokenHash,
        p_filter: filter === null ? null : JSON.stringify({ filter }),
        p_offset: Math.max(0, search.start - 1 - total),
        p_limit: search.count - found.length,
        ...(type === USER_TYPE ? {} : { p_members: wantsMembers(search.selection) }),
      },
    );
    total += page.total;
    found.push(...page.resources.map((each) => project(type, show(type, each, base), search.selection)));
  }
  return listOf(found, total, search.start);
}

/** The kinds that a filter can be about, each with its tree. */
function filtersOf(
  types: readonly ResourceType[],
  text: string | undefined,
): { type: ResourceType; filter: FilterNode | null }[] {
  if (text === undefined) return types.map((type) => ({ type, filter: null }));
  if (types.length === 1) {
    return [{
      type: types[0]!,
      filter: refuseFaults(() => compileFilter(types[0]!, text)),
    }];
  }
  const known = types.flatMap((type) => {
    try {
      return filtersOf([type], text);
    } catch (error) {
      if (error instanceof ApiError) return [];
      throw error;
    }
  });
  return known.length > 0 ? known : filtersOf([types[0]!], text);
}

function show(type: ResourceType, resource: Fields, base: string): Fields {
  return type === USER_TYPE
    ? showUser(resource as unknown as StoredUser, base)
    : showGroup(resource as unknown as StoredGroup, base);
}

/** Which team a request is about. */

import { z } from "zod";
import type { AppContext } from "../../_shared/context.ts";
import { parse } from "../../_shared/middleware/parse.ts";
import { sessionArguments } from "../../_shared/middleware/require_session.ts";
import { id } from "../../_shared/middleware/shapes.ts";

/** The path of every route below /teams/:id. */
export const TEAM = z.object({ id: id("not_a_team_member") });

/** The arguments that every function about a team begins with. Errors: `not_a_team_member` for what is no id. */
export async function teamArguments(c: AppContext) {
  const team = await parse(c, TEAM, { id: c.req.param("id") });
  return { ...sessionArguments(c), p_team_id: team.id };
}

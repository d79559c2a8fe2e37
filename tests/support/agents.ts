/** Agents by the dozen: many logs, one account that pays for all of them. */

import { createHash, randomBytes } from "node:crypto";
import { maskKey, mintLiveKey } from "../../supabase/functions/_shared/domain/credential.ts";
import type { Database, SqlArguments } from "../../supabase/functions/_shared/platform/mod.ts";
import { chunk, replicateBody } from "./factories.ts";
import type { Answer, World } from "./harness.ts";
import { accountIdOf, newPerson } from "./people.ts";
import { newTeam, type Service } from "./teams.ts";

/** Agents of one team, each bound to a member of its own and so with a log of its own. */
export interface Agents {
  /** The account that is charged for all of them. */
  accountId: string;
  tokens: string[];
}

/** A team with credit (milli-cents) and agents, each of which has appended entry 0 when `begun`. */
export async function newAgents(
  world: World,
  count: number,
  creditsMilli: number,
  begun = true,
): Promise<Agents> {
  const owner = await newPerson(world);
  const team = await newTeam(world, owner);
  // The first entries are of one byte, which costs one milli-cent.
  const credits = creditsMilli + (begun ? count : 0);
  await world.platform.db.call("grant_credits", {
    p_subject: owner.subject,
    p_amount_milli: credits,
    p_actor: "test",
    p_note: "",
    p_reference: crypto.randomUUID(),
  });
  const { rows } = await world.sql.query<{ id: string }>(
    `with people as (insert into app.owners (kind) select 'user' from generate_series(1, $2::int) returning id),
          accounts as (insert into app.accounts (id, subject) select id, 'agent-' || id from people),
          members as (
            insert into app.team_members (team_id, account_id, role, status)
            select $1, id, 'write', 'active' from people)
     select id from people`,
    [team.id, count],
  );
  const tokens: string[] = [];
  for (const { id } of rows) tokens.push(await newTeamKey(world, team.id, id));
  if (begun) {
    for (const token of tokens) {
      const begin = await append(world, token, 0, new Uint8Array(1));
      if (begin.status !== 200) throw new Error(begin.text);
    }
  }
  return { accountId: await accountIdOf(world, owner), tokens };
}

async function newTeamKey(world: World, teamId: string, accountId: string): Promise<string> {
  const token = mintLiveKey((count) => randomBytes(count));
  await world.sql.query(
    `with made as (
       insert into app.api_keys (account_id, team_id, name, key_hash, masked_key)
       values ($1, $2, 'agent', $3, $4) returning id)
     select app.append_audit($2, 'agent-' || $1::text, 'subkey.create', 'subkey', id::text, '{}') from made`,
    [accountId, teamId, createHash("sha256").update(token).digest(), maskKey(token)],
  );
  return token;
}

/** Appends one block. */
export function append(
  service: Service,
  token: string,
  sequence: number,
  block: Uint8Array = randomBytes(64),
): Promise<Answer> {
  return service.request("POST", "/replicate", { token, body: replicateBody(chunk(sequence, block)) });
}

/** A database that notes the names of the functions that are called, and may be told to do otherwise for one. */
export function watchCalls(
  db: Database,
  instead: Record<string, (args: SqlArguments) => Promise<unknown>> = {},
): { db: Database; calls: string[] } {
  const calls: string[] = [];
  return {
    calls,
    db: {
      call<T>(name: string, args: SqlArguments) {
        calls.push(name);
        return (instead[name]?.(args) ?? db.call(name, args)) as Promise<T>;
      },
      rows: (name, args, bytes) => db.rows(name, args, bytes),
    },
  };
}

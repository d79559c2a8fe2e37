/** Single sign-on of a team, and the DNS of the domains that lead there. */

import assert from "node:assert/strict";
import type { Answer, World } from "./harness.ts";
import { newTeam, send, type Service, subscribe, type Team } from "./teams.ts";

/** A new team on the enterprise plan. */
export async function newEnterprise(world: World): Promise<Team> {
  const team = await newTeam(world);
  await subscribe(world, team.owner, "enterprise");
  return team;
}

/** A domain that nobody else has. */
export function newDomain(): string {
  return `${crypto.randomUUID()}.example`;
}

/** Changes the configuration as the owner. */
export function put(service: Service, team: Team, body: unknown): Promise<Answer> {
  return send(service, team.owner, "PUT", `/sso/${team.id}/config`, body);
}

/** Reads the configuration as the owner. */
export function get(service: Service, team: Team, query = ""): Promise<Answer> {
  return send(service, team.owner, "GET", `/sso/${team.id}/config${query}`);
}

/** Publishes the records that an answer asks for. */
export function publish(world: Pick<World, "texts">, answer: Answer): void {
  for (const { record } of answer.body.domain_verification) {
    world.texts.set(record.name, ["something=else", record.value]);
  }
}

/** The same as somebody who runs the domains: told that one is not proved, they publish its record and try again. */
export async function putProved(world: World, team: Team, body: unknown, service: Service = world) {
  const first = await put(service, team, body);
  if (first.body.error !== "domain_not_verified") return first;
  assert.equal(first.status, 409);
  publish(world, first);
  return await put(service, team, body);
}

/** Somebody to do what a test says. */

import type { World } from "./harness.ts";

/** Somebody who has signed in. */
export interface Person {
  subject: string;
  email: string;
  token: string;
}

/** Signs in somebody whom the service has not seen before. */
export async function newPerson(world: World, claims: Record<string, unknown> = {}): Promise<Person> {
  const subject = `person-${crypto.randomUUID()}`;
  const email = `${subject}@example.com`;
  return { subject, email, token: await world.issuer.token(subject, { claims: { email, ...claims } }) };
}

/** The account of somebody, which their first request makes. */
export async function accountIdOf(world: World, { subject, token }: Pick<Person, "subject" | "token">) {
  await world.request("GET", "/api-keys", { token });
  const { rows } = await world.sql.query("select id from app.accounts where subject = $1", [subject]);
  return rows[0].id as string;
}

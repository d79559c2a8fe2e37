/** Operations of a person's own account: keys, settings, telemetry, the salt. */

import assert from "node:assert/strict";
import type { World } from "../harness.ts";
import { accountIdOf, newPerson, type Person } from "../people.ts";
import { counter } from "./counting.ts";
import type { Operation, Prepared } from "./mod.ts";

interface Holder {
  person: Person;
  accountId: string;
  keyId: string;
  /** What only this person may see. */
  secrets: Pick<Prepared, "person" | "canaries" | "owned">;
}

/** Somebody with a key and settings of their own. */
async function newHolder(world: World): Promise<Holder> {
  const person = await newPerson(world);
  const accountId = await accountIdOf(world, person);
  const name = `canary-${crypto.randomUUID()}`;
  const key = await world.request("POST", "/api-keys", { token: person.token, body: { name } });
  assert.equal(key.status, 201, key.text);
  const saved = { project_name: name, telemetry_opt_in: true };
  const settings = await world.request("PUT", "/settings", { token: person.token, body: saved });
  assert.equal(settings.status, 200, settings.text);
  const canaries = [accountId, key.body.id, key.body.raw_secret, name, person.subject];
  return {
    person,
    accountId,
    keyId: key.body.id,
    secrets: { person, canaries, owned: [accountId, key.body.id] },
  };
}

function reading(route: string): Operation {
  return {
    route,
    name: "read",
    opens: "session",
    status: 200,
    async prepare(world) {
      const { person, secrets } = await newHolder(world);
      return { path: route.slice("GET ".length), options: { token: person.token }, ...secrets };
    },
  };
}

/** Both addresses of the salt make it when it is asked for first. */
function salt(route: string): Operation {
  return {
    route,
    name: "make the salt",
    opens: "session",
    status: 200,
    effect: "once",
    async prepare(world) {
      const { person, accountId, secrets } = await newHolder(world);
      return {
        path: route.slice("GET ".length),
        options: { token: person.token },
        ...secrets,
        count: counter(world, "select count(*) as n from app.kdf_salts where account_id = $1", [accountId]),
      };
    },
  };
}

export const ACCOUNT_OPERATIONS: Operation[] = [
  {
    route: "POST /api-keys",
    name: "make a key",
    opens: "session",
    status: 201,
    effect: "each",
    async prepare(world) {
      const { person, accountId, secrets } = await newHolder(world);
      return {
        path: "/api-keys",
        options: { token: person.token, body: { name: "new" } },
        ...secrets,
        count: counter(
          world,
          "select count(*) as n from app.api_keys where account_id = $1 and name = 'new'",
          [accountId],
        ),
      };
    },
  },
  reading("GET /api-keys"),
  {
    route: "DELETE /api-keys/:id",
    name: "revoke a key",
    opens: "session",
    status: 200,
    effect: "once",
    async prepare(world) {
      const { person, keyId, secrets } = await newHolder(world);
      return {
        path: `/api-keys/${keyId}`,
        options: { token: person.token },
        ...secrets,
        count: counter(
          world,
          "select count(*) as n from app.api_keys where id = $1 and revoked_at is not null",
          [keyId],
        ),
      };
    },
  },
  reading("GET /settings"),
  {
    route: "PUT /settings",
    name: "change settings",
    opens: "session",
    status: 200,
    effect: "once",
    async prepare(world) {
      const { person, accountId, secrets } = await newHolder(world);
      return {
        path: "/settings",
        options: { token: person.token, body: { project_desc: "changed", session_lock: true } },
        ...secrets,
        count: counter(
          world,
          "select count(*) as n from app.settings where account_id = $1 and project_desc = 'changed'",
          [accountId],
        ),
      };
    },
  },
  {
    route: "POST /telemetry",
    name: "report telemetry",
    opens: "session",
    status: 201,
    effect: "once",
    async prepare(world) {
      const { person, accountId, secrets } = await newHolder(world);
      const body = { memory_count: 7, window_start: "2026-11-20T00:00:00Z" };
      return {
        path: "/telemetry",
        options: { token: person.token, body },
        ...secrets,
        count: counter(
          world,
          "select count(*) as n from app.telemetry where account_id = $1 and memory_count = 7",
          [accountId],
        ),
      };
    },
  },
  reading("GET /billing/subscription"),
  reading("GET /billing/usage"),
  salt("GET /account/kdf-salt"),
  salt("GET /kdf-salt"),
];

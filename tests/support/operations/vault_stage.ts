/** Vaults in the state that an operation needs, at the time of the clock on the wall. */

import { randomBytes } from "node:crypto";
import type { World } from "../harness.ts";
import { accountIdOf } from "../people.ts";
import { newAddress } from "../teams.ts";
import {
  addAsset,
  ask,
  askAlive,
  configure,
  DAY_MS,
  expect,
  type Named,
  nameSomebody,
  newVault,
  type Vault,
} from "../vaults.ts";
import { counter } from "./counting.ts";
import type { Operation, Prepared } from "./mod.ts";

const AGE_MS = 60 * DAY_MS;

/** A vault with one heir and one asset, and whoever else is needed. */
export interface Stage {
  vault: Vault;
  heir: Named;
  guardians: Named[];
  asset: string;
  secrets: Pick<Prepared, "canaries" | "owned" | "person" | "vault">;
}

/** Sets a stage. The vault is some weeks old, and the guardians are in without shares. */
export async function setStage(world: World, guardians = 0): Promise<Stage> {
  const name = `canary-${crypto.randomUUID()}`;
  const vault = await newVault(world, { name }, Date.now() - AGE_MS);
  const heir = await nameSomebody(vault, "heir", { share: null });
  const named: Named[] = [];
  while (named.length < guardians) named.push(await nameSomebody(vault, "guardian", { share: null }));
  const asset = await addAsset(vault, [heir]);
  const accountId = await accountIdOf(world, vault.owner);
  const people = [heir, ...named];
  const canaries = [name, vault.id, accountId, asset, ...people.flatMap(({ id, email }) => [id, email])];
  return {
    vault,
    heir,
    guardians: named,
    asset,
    secrets: { canaries, owned: [vault.id, accountId, asset], person: vault.owner, vault },
  };
}

/** A stage whose vault has been released, by hand and in its time. Heir and guardian hold a share each. */
export async function setReleasedStage(world: World): Promise<Stage> {
  const stage = await setStage(world);
  const { vault, heir } = stage;
  const share = randomBytes(32).toString("base64");
  expect(200, await ask(vault, "POST", `/heir/${heir.id}/confirm`, { wrapped_share: share }));
  stage.guardians.push(await nameSomebody(vault, "guardian"));
  expect(200, await askAlive(vault, "POST", "/release"));
  return stage;
}

/** A stage with three guardians, of whom the first claims that it is time. */
export async function setClaimedStage(world: World, claimed = true): Promise<Stage & { claim: string }> {
  const stage = await setStage(world, 3);
  const { vault, guardians: [first] } = stage;
  // Claims lapse after two weeks.
  vault.clock.ms = Date.now() - 2 * DAY_MS;
  await configure(vault, "guardian_claim", { quorum: 2 });
  if (!claimed) return { ...stage, claim: "" };
  const made = await vault.service.requestVault("POST", `/api/vault/${vault.id}/claim`, {
    headers: newAddress(),
    body: { token: first!.token },
  });
  return { ...stage, claim: expect(201, made).id };
}

/** What a request is made of, where it differs from a GET of nothing. `$1` in the query is the vault's id. */
export interface Part {
  path: string;
  body?: unknown;
  sql?: string;
  values?: unknown[];
  /** Who comes with a token; its body then has it. */
  named?: Named;
  alive?: true;
}

type Row = Pick<Operation, "route" | "name" | "status" | "effect" | "again" | "opens">;

/** A row about a vault on a stage. */
export function staged<S extends Stage>(
  row: Row,
  set: (world: World) => Promise<S>,
  part: (stage: S, world: World) => Part | Promise<Part>,
): Operation {
  return {
    app: "vault",
    ...row,
    async prepare(world) {
      const stage = await set(world);
      const made = await part(stage, world);
      await keepMailsBack(stage.vault);
      return prepared(world, stage, made);
    },
  };
}

function prepared(world: World, { vault, secrets }: Stage, made: Part): Prepared {
  const { path, body, sql, values = [], named, alive } = made;
  const credential = named !== undefined
    ? { headers: newAddress() }
    : alive
    ? { token: vault.owner.token }
    : { headers: { "x-api-key": vault.key } };
  const sent = named === undefined ? body : { token: named.token, ...(body as object | undefined) };
  return {
    ...secrets,
    ...(named === undefined ? {} : { named }),
    path,
    options: { ...credential, ...(sent === undefined ? {} : { body: sent }) },
    ...(sql === undefined ? {} : { count: counter(world, sql, [vault.id, ...values]) }),
  };
}

/** Nothing but the request itself sends mail: neither what the stage owes, nor what a fault before has left waiting. */
async function keepMailsBack({ world }: Vault): Promise<void> {
  await world.sql.query(
    "update app.mail_outbox set given_up_at = now() where sent_at is null and given_up_at is null",
  );
}

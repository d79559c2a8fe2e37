/** The vault function as its reference is tried: who plays its examples, and what has happened before each. */

import { createApp } from "../../supabase/functions/vault/app.ts";
import { REFERENCE } from "../../supabase/functions/vault/reference/mod.ts";
import type { Scene } from "../../supabase/functions/vault/reference/scene.ts";
import { VAULT_BOOK } from "./books.ts";
import type { World } from "./harness.ts";
import { bearer, type Cast, CRON_SECRET, type ReferenceService, type Stage } from "./reference_service.ts";
import { PUBLIC_KEY } from "./teams.ts";
import {
  addAsset,
  ask,
  askAlive,
  askByToken,
  configure,
  DAY_MS,
  expect,
  invite,
  type Named,
  nameSomebody,
  newApiKey,
  newVault,
  type Vault,
  wait,
} from "./vaults.ts";

export const VAULT: Stage<Scene> = {
  name: "vault",
  reference: REFERENCE,
  book: VAULT_BOOK,
  createApp,
  newCast,
};

/** What a vault has behind it. By hand, it is released a day after that began: so long is the window. */
export type Past = "armed" | "claimed" | "releasing" | "released";

const PASTS: Record<string, Past> = {
  "POST /api/vault/:id/claim/:claim_id/vote": "claimed",
  "POST /api/vault/:id/claim/:claim_id/withdraw": "claimed",
  "POST /api/vault/:id/release/veto": "releasing",
  "POST /api/vault/:id/release/rearm": "released",
  "POST /api/vault/:id/pick-up": "released",
  "POST /api/vault/:id/pick-up/:asset_id": "released",
};
/** Where a key has to be one that may check in. */
const LIVING = ["POST /api/vault/:id/check-in", "POST /api/vault/:id/release/veto"];

/** Everybody in a vault. */
export interface People {
  vault: Vault;
  heir: Named;
  /** Who claims. */
  guardian: Named;
  /** Who votes. */
  other: Named;
  /** An heir who has not answered. */
  invited: Named;
}

function newCast(world: World, _: ReferenceService, route = ""): Promise<Cast<Scene>> {
  return playVault(world, PASTS[route] ?? "armed", route);
}

/** A vault with a past, and those who play `route`'s example in it. */
export async function playVault(world: World, past: Past, route: string): Promise<Cast<Scene> & People> {
  // It began so long ago that by the service's clock it is released today.
  const vault = await newVault(world, {}, Date.now() - 2 * DAY_MS);
  const heir = await nameSomebody(vault, "heir");
  const guardian = await nameSomebody(vault, "guardian");
  const other = await nameSomebody(vault, "guardian", { share: null });
  await nameSomebody(vault, "guardian", { share: null });
  const invited = await invite(vault, "heir");
  const people = { vault, heir, guardian, other, invited };
  const assetId = await addAsset(vault, [heir]);
  await configure(vault, "dead_man_switch");
  await configure(vault, "guardian_claim");
  const leaving = await nameSomebody(vault, "guardian", { share: null });
  const { change } = expect(202, await ask(vault, "DELETE", `/guardian/${leaving.id}`));
  const claimId = past === "claimed"
    ? expect(201, await askByToken(vault, guardian, "/claim")).id
    : crypto.randomUUID();
  if (past === "releasing") wait(vault, 2 * DAY_MS);
  if (past === "releasing" || past === "released") expect(200, await askAlive(vault, "POST", "/release"));
  const key = LIVING.includes(route) ? await newApiKey(world, vault.owner, ["vault:check_in"]) : vault.key;
  return {
    ...people,
    credentials: {
      vaultKey: { "x-api-key": key },
      session: bearer(vault.owner.token),
      cronSecret: bearer(CRON_SECRET),
    },
    scene: {
      vaultId: vault.id,
      heirId: heir.id,
      guardianId: guardian.id,
      assetId,
      changeId: change.id,
      claimId,
      token: whoPlays(route, people).token,
      publicKey: PUBLIC_KEY,
    },
  };
}

function whoPlays(route: string, { heir, guardian, other, invited }: People): Named {
  if (route.includes("/invitation")) return invited;
  if (route.includes("/pick-up")) return heir;
  return route.endsWith("/vote") ? other : guardian;
}

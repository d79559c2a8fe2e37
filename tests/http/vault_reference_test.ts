/** The vault's reference tells the truth: its examples work as they stand, and each refusal that it lists is given. */

import assert from "node:assert/strict";
import type { Scene } from "../../supabase/functions/vault/reference/scene.ts";
import type { ErrorCode } from "../../supabase/functions/_shared/errors.ts";
import { onOneBackend } from "../support/harness.ts";
import type { Json } from "../support/openapi_schemas.ts";
import { type ReferenceService, serveReference, toRequest } from "../support/reference_service.ts";
import { type Case, expectCode, listCases, tryReference } from "../support/reference_trials.ts";
import { assertRefused } from "../support/teams.ts";
import { playVault, VAULT } from "../support/vault_cast.ts";
import {
  addAsset,
  ask,
  assetBody,
  expect,
  invite,
  nameSomebody,
  newApiKey,
  newVault,
  personBody,
} from "../support/vaults.ts";

const CASES = listCases(VAULT);
const casesWith = (code: ErrorCode) => CASES.filter(({ operation }) => operation.errors?.includes(code));

/** Sends an example in which some things are others, as whoever may; it must be refused with this code. */
function refuse(
  service: ReferenceService,
  each: Case<Scene>,
  cast: Awaited<ReturnType<typeof VAULT.newCast>>,
  over: Partial<Scene>,
  code: ErrorCode,
) {
  const example = each.operation.example({ ...cast.scene, ...over });
  const sent = toRequest(each.described, example, cast.credentials[each.schemes.at(-1) ?? ""]);
  return expectCode(VAULT, service, each, sent, code);
}

onOneBackend((test) => {
  tryReference(VAULT, test);

  test("whatever an operation is about is missed where it is not", async (world) => {
    await using service = await serveReference(VAULT, world);
    const gone = crypto.randomUUID();
    const absences: [ErrorCode, Partial<Scene>][] = [
      // Of an id that is none: to those who come with a token, every vault but theirs is `invitation_not_found`.
      ["vault_not_found", { vaultId: "nothing" }],
      ["person_not_found", { heirId: gone, guardianId: gone }],
      ["asset_not_found", { assetId: gone }],
      ["change_not_found", { changeId: gone }],
      ["claim_not_found", { claimId: gone }],
      ["invitation_not_found", { token: "inv_nobody" }],
    ];
    for (const [code, over] of absences) {
      const cases = casesWith(code);
      assert.ok(cases.length > 0, code);
      for (const each of cases) {
        await refuse(service, each, await VAULT.newCast(world, service, each.route), over, code);
      }
    }
  });

  test("what a vault's state does not allow is refused, with the states that do", async (world) => {
    await using service = await serveReference(VAULT, world);
    for (const each of casesWith("wrong_vault_state")) {
      const past = each.route.endsWith("/rearm") ? "armed" : "released";
      const cast = await playVault(world, past, each.route);
      const { body } = await refuse(service, each, cast, {}, "wrong_vault_state");
      const { state, allowed } = body as Json;
      assert.deepEqual([state, allowed.includes(state)], [past === "armed" ? "active" : "released", false]);
    }
  });

  test("heirs do not decide, guardians fetch nothing, and nobody does who is not in", async (world) => {
    await using service = await serveReference(VAULT, world);
    for (const each of casesWith("forbidden_person")) {
      const cast = await playVault(world, "released", each.route);
      const wrong = each.route.includes("/pick-up") ? cast.guardian : cast.heir;
      const { body } = await refuse(service, each, cast, { token: wrong.token }, "forbidden_person");
      assert.equal((body as Json).role, wrong.role);
    }
  });

  test("a field or parameter with a wrong value is named by every operation that reads it", async (world) => {
    await using service = await serveReference(VAULT, world);
    const cast = await VAULT.newCast(world, service);
    for (const each of CASES) {
      const { body, query, ...rest } = each.operation.example(cast.scene);
      const credential = cast.credentials[each.schemes.at(-1) ?? ""];
      const bad = [
        ...Object.keys((body ?? {}) as Json).map((name) => ({
          name,
          body: { ...body as Json, [name]: true },
          query,
        })),
        ...Object.keys(query ?? {}).map((name) => ({ name, body, query: { ...query, [name]: "odd" } })),
      ];
      for (const { name, ...wrong } of bad) {
        const sent = toRequest(each.described, { ...rest, ...wrong } as typeof rest, credential);
        await expectCode(VAULT, service, each, sent, `invalid_field:${name}`);
      }
    }
  });

  test("what takes a session is opened by no key, and what takes proof of life by no ordinary one", async (world) => {
    await using service = await serveReference(VAULT, world);
    const cast = await playVault(world, "armed", "");
    const ordinary = cast.credentials.vaultKey!;
    const button = { "x-api-key": await newApiKey(world, cast.vault.owner, ["vault:check_in"]) };
    for (
      const [code, credential, answered] of [
        ["session_jwt_required", ordinary, "session_jwt_required"],
        ["session_jwt_required", button, "forbidden_scope"],
        ["proof_of_life_required", ordinary, "proof_of_life_required"],
      ] as const
    ) {
      const cases = casesWith(code);
      assert.equal(cases.length, 2);
      for (const each of cases) {
        const sent = toRequest(each.described, each.operation.example(cast.scene), credential);
        await expectCode(VAULT, service, each, sent, answered);
      }
    }
  });

  for (const role of ["heir", "guardian"] as const) {
    test(`a ${role} is named once, confirmed once they have accepted, and forgotten at once before`, async (world) => {
      const vault = await newVault(world);
      const { id, email } = await invite(vault, role);
      const again = await ask(vault, "POST", `/${role}`, personBody({ email: email.toUpperCase() }));
      assertRefused(again, 409, "person_exists");
      assertRefused(await ask(vault, "POST", `/${role}/${id}/confirm`, {}), 409, "person_not_accepted");
      expect(200, await ask(vault, "POST", `/${role}/${id}/resend`));
      expect(200, await ask(vault, "DELETE", `/${role}/${id}`));

      for (let i = 0; i < 3; i++) await nameSomebody(vault, i === 0 ? "heir" : "guardian");
      const more = await nameSomebody(vault, role, { share: null });
      const full = await ask(vault, "POST", `/${role}/${more.id}/confirm`, { wrapped_share: "s" });
      assertRefused(full, 409, "vault_limit_reached");
      assert.deepEqual([full.body.of, full.body.limit], ["shares", 3]);
    });
  }

  test("there are only so many heirs and assets, and keys are wrapped for heirs alone", async (world) => {
    const vault = await newVault(world);
    for (let i = 0; i < 20; i++) await invite(vault, "heir");
    const asset = await addAsset(vault);
    for (let i = 1; i < 100; i++) await addAsset(vault);
    for (
      const [path, body, of, limit] of [
        ["/heir", personBody(), "heirs", 20],
        ["/asset", assetBody(), "assets", 100],
      ] as const
    ) {
      const answer = await ask(vault, "POST", path, body);
      assertRefused(answer, 409, "vault_limit_reached");
      assert.deepEqual([answer.body.of, answer.body.limit], [of, limit]);
    }
    const guardian = await nameSomebody(vault, "guardian");
    const wrapped_keys = [{ heir_id: guardian.id, wrapped_key: "k" }];
    const refused = await ask(vault, "POST", `/asset/${asset}/keys`, { wrapped_keys });
    assertRefused(refused, 400, "unknown_heir");
    assert.deepEqual(refused.body.unknown, [guardian.id]);
  });

  test("the vault is not well while what it keeps blobs in is away", async (world) => {
    const ping = () => Promise.reject(new Error("away"));
    const answer = await world.with({ blobs: { ping } }).requestVault("GET", "/health");
    assertRefused(answer, 503, "storage_unavailable");
  });
});

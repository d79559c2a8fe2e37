/** Vaults, heirs, guardians and assets over HTTP: who may, what is checked, what is shown. */

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { onEveryBackend, onOneBackend } from "../support/harness.ts";
import { newPerson } from "../support/people.ts";
import { assertRefused, newSubkey, newTeam, PUBLIC_KEY } from "../support/teams.ts";
import {
  addAsset,
  ask,
  askAlive,
  askByToken,
  assetBody,
  DAY_MS,
  expect,
  invite,
  look,
  mailsAbout,
  mintToken,
  nameSomebody,
  newApiKey,
  newArmedVault,
  newVault,
  personBody,
  wait,
} from "../support/vaults.ts";

onEveryBackend((test) => {
  test("a vault is made, named people and given assets, and shows all but what is secret", async (world) => {
    const vault = await newVault(world, { name: "Papers", sss_preset: "enhanced" });
    const heir = expect(201, await ask(vault, "POST", "/heir", personBody({ walletAddress: "0xabc" })));
    assert.deepEqual([heir.name, heir.walletAddress, heir.status, heir.has_share], [
      "Ada",
      "0xabc",
      "pending",
      false,
    ]);
    const given = { public_key: PUBLIC_KEY, wrapped_share: "a wrapped share" };
    const guardian = expect(201, await ask(vault, "POST", "/guardian", personBody(given)));
    assert.deepEqual([guardian.public_key, guardian.has_share, "walletAddress" in guardian], [
      PUBLIC_KEY,
      true,
      false,
    ]);
    const bytes = randomBytes(262_144);
    const body = assetBody({ wrapped_keys: [{ heir_id: heir.id, wrapped_key: "a wrapped key" }] }, bytes);
    const asset = expect(201, await ask(vault, "POST", "/asset", body));
    assert.deepEqual([asset.name, asset.byte_size, asset.wrapped_for], ["will.txt", 262_144, [heir.id]]);

    const shown = await ask(vault, "GET", "");
    const { state, threshold, shares, heirs, guardians, assets, release } = expect(200, shown);
    assert.deepEqual([state, threshold, shares], ["active", 3, 5]);
    assert.deepEqual([heirs[0].id, guardians[0].id, assets[0].id], [heir.id, guardian.id, asset.id]);
    assert.equal(release.config.dead_man_switch.enabled, false, "nothing is armed yet");
    assert.doesNotMatch(shown.text, /ciphertext|wrapped share|wrapped key/);
    const listed = await vault.service.requestVault("GET", "/api/vault", {
      headers: { "x-api-key": vault.key },
    });
    assert.deepEqual(listed.body.vaults.map(({ id }: { id: string }) => id), [vault.id]);
    assert.doesNotMatch(listed.text, /ciphertext|wrapped/);

    const read = expect(200, await ask(vault, "GET", `/asset/${asset.id}`));
    assert.equal(read.ciphertext_b64, body.ciphertext_b64);
    expect(200, await ask(vault, "DELETE", `/asset/${asset.id}`));
    expect(200, await ask(vault, "DELETE", `/asset/${asset.id}`));
    assertRefused(await ask(vault, "GET", `/asset/${asset.id}`), 404, "asset_not_found");
    assert.deepEqual(expect(200, await ask(vault, "DELETE", `/heir/${heir.id}`)), {
      id: heir.id,
      status: "removed",
    });
    assert.deepEqual((await look(vault)).heirs, []);
  });

  test("a vault's ledger is a chain that can be listed, verified and exported", async (world) => {
    const { vault } = await newArmedVault(world);
    const listed = expect(200, await ask(vault, "GET", "/audit?limit=2"));
    assert.equal(listed.entries.length, 2);
    const verified = expect(200, await ask(vault, "GET", "/audit/verify"));
    assert.deepEqual([verified.vault_id, verified.valid, verified.checked], [
      vault.id,
      true,
      listed.entries[0].seq + 1,
    ]);
    const exported = expect(200, await ask(vault, "GET", "/audit/export"));
    assert.equal(exported.entries.length, verified.checked);
    assert.equal(exported.head_hash, verified.head_hash);
  });
});

onOneBackend((test) => {
  test("without a user's key there is no vault: each wrong credential has its own answer", async (world) => {
    const vault = await newVault(world);
    const list = (headers: Record<string, string>) =>
      vault.service.requestVault("GET", "/api/vault", { headers });
    assertRefused(await list({}), 401, "missing_or_invalid_api_key");
    const garbage = ["", "sov_live_", `sov_proj_${crypto.randomUUID()}`, "Bearer x"];
    for (const key of garbage) {
      assertRefused(await list({ "x-api-key": key }), 401, "missing_or_invalid_api_key");
    }
    assertRefused(await list({ "x-api-key": `${vault.key}x` }), 401, "invalid_api_key");
    assertRefused(await list({ authorization: `Bearer ${vault.key}` }), 401, "missing_or_invalid_api_key");
    assertRefused(await list({ authorization: "Bearer a.b.c" }), 401, "invalid_session");
    expect(200, await list({ authorization: `Bearer ${vault.owner.token}` }));
    const team = await newTeam(world, vault.owner);
    const subkey = await newSubkey(world, team, vault.owner);
    assertRefused(await list({ "x-api-key": subkey.token }), 403, "user_key_required");
    const [{ id }] = (await world.request("GET", "/api-keys", { token: vault.owner.token })).body
      .filter(({ label }: { label: string }) => label === "key");
    await world.request("DELETE", `/api-keys/${id}`, { token: vault.owner.token });
    assertRefused(await list({ "x-api-key": vault.key }), 401, "api_key_revoked");
    assertRefused(await vault.service.requestVault("GET", "/api/nothing"), 404, "route_not_found");
    assert.deepEqual((await vault.service.requestVault("GET", "/functions/v1/vault/health")).body, {
      status: "ok",
    });
  });

  test("somebody else's vault is like one that does not exist, on every route", async (world) => {
    const { vault, heir, asset } = await newArmedVault(world);
    const stranger = await newPerson(world);
    const key = await newApiKey(world, stranger);
    const id = crypto.randomUUID();
    const routes: [string, string, unknown?][] = [
      ["GET", ""],
      ["POST", "/heir", personBody()],
      ["POST", "/guardian", personBody()],
      ["DELETE", `/heir/${heir.id}`],
      ["POST", `/heir/${heir.id}/confirm`, {}],
      ["POST", `/heir/${heir.id}/resend`],
      ["POST", "/asset", assetBody()],
      ["GET", `/asset/${asset}`],
      ["DELETE", `/asset/${asset}`],
      ["POST", `/asset/${asset}/keys`, { wrapped_keys: [{ heir_id: heir.id, wrapped_key: "k" }] }],
      ["POST", "/release/config", { trigger: "manual", config: {} }],
      ["DELETE", `/changes/${id}`],
      ["GET", "/audit"],
      ["GET", "/audit/verify"],
      ["GET", "/audit/export"],
    ];
    const alive: [string, string, unknown?][] = [
      ["POST", "/check-in"],
      ["POST", "/release"],
      ["POST", "/release/veto"],
      ["POST", "/release/rearm", { key_epoch: 1, wrapped_shares: [] }],
    ];
    for (const vaultId of [vault.id, id, "not-a-uuid"]) {
      for (const [method, path, body] of routes) {
        const answer = await ask({ ...vault, id: vaultId, key }, method, path, body);
        assertRefused(answer, 404, "vault_not_found", `${method} ${path}: ${answer.text}`);
      }
      for (const [method, path, body] of alive) {
        const answer = await askAlive({ ...vault, id: vaultId, owner: stranger }, method, path, body);
        assertRefused(answer, 404, "vault_not_found", `${method} ${path}: ${answer.text}`);
      }
    }
    const before = await look(vault);
    assert.deepEqual([before.heirs.length, before.assets.length], [1, 1], "nothing was changed");
  });

  test("bad input is named and changes nothing", async (world) => {
    const vault = await newVault(world);
    const heir = await nameSomebody(vault, "heir");
    const entries =
      (await world.sql.query("select audit_seq from app.vaults where id = $1", [vault.id])).rows[0];
    const cases: [string, unknown, number, string][] = [
      ["/heir", "{", 400, "invalid_json"],
      ["/heir", { email: "a@example.com" }, 400, "missing_field:name"],
      ["/heir", { name: "A" }, 400, "missing_field:email"],
      ["/heir", personBody({ email: "nobody" }), 400, "invalid_field:email"],
      ["/heir", personBody({ name: "" }), 400, "invalid_field:name"],
      ["/heir", personBody({ name: "x\0" }), 400, "invalid_field:name"],
      ["/heir", personBody({ walletAddress: 5 }), 400, "invalid_field:walletAddress"],
      ["/heir", personBody({ public_key: "no PEM" }), 400, "invalid_field:public_key"],
      ["/heir", personBody({ email: vault.owner.email.toUpperCase() }), 400, "invalid_field:email"],
      ["/heir", personBody({ email: heir.email.toUpperCase() }), 409, "person_exists"],
      ["/heir", personBody({ name: "x".repeat(70_000) }), 413, "body_too_large"],
      ["/asset", {}, 400, "missing_field:name"],
      ["/asset", assetBody({ ciphertext_b64: "?" }), 400, "invalid_field:ciphertext_b64"],
      ["/asset", assetBody({ ciphertext_b64: "" }), 400, "invalid_field:ciphertext_b64"],
      ["/asset", assetBody({}, new Uint8Array(262_145)), 413, "ciphertext_too_large"],
      ["/asset", assetBody({}, new Uint8Array(800_000)), 413, "ciphertext_too_large"],
      [
        "/asset",
        assetBody({ wrapped_keys: [{ heir_id: "x", wrapped_key: "k" }] }),
        400,
        "invalid_field:heir_id",
      ],
      [
        "/asset",
        assetBody({ wrapped_keys: [{ heir_id: crypto.randomUUID(), wrapped_key: "k" }] }),
        400,
        "unknown_heir",
      ],
      ["/release/config", {}, 400, "missing_field:trigger"],
      ["/release/config", { trigger: "odd", config: {} }, 400, "invalid_field:trigger"],
      ["/release/config", { trigger: "manual" }, 400, "missing_field:config"],
      ["/release/config", { trigger: "manual", config: { quorum: 2 } }, 400, "invalid_field:config"],
      [
        "/release/config",
        { trigger: "manual", config: { veto_window_hours: 0 } },
        400,
        "invalid_field:veto_window_hours",
      ],
      [
        "/release/config",
        { trigger: "dead_man_switch", config: { check_in_interval_days: 366 } },
        400,
        "invalid_field:check_in_interval_days",
      ],
      [
        "/release/config",
        { trigger: "dead_man_switch", config: { grace_days: 0 } },
        400,
        "invalid_field:grace_days",
      ],
    ];
    for (const [path, body, status, code] of cases) {
      const answer = await ask(vault, "POST", path, body);
      assertRefused(answer, status, code, `${path} ${JSON.stringify(body).slice(0, 80)}: ${answer.text}`);
    }
    const after =
      (await world.sql.query("select audit_seq from app.vaults where id = $1", [vault.id])).rows[0];
    assert.deepEqual(after, entries);
    const make = (body: unknown) =>
      vault.service.requestVault("POST", "/api/vault", { headers: { "x-api-key": vault.key }, body });
    assertRefused(await make({}), 400, "missing_field:name");
    assertRefused(await make({ name: "x", sss_preset: "odd" }), 400, "invalid_field:sss_preset");
  });

  test("nobody is in before they have accepted and the owner has confirmed", async (world) => {
    const vault = await newVault(world);
    const heir = await invite(vault, "heir");
    const confirm = (share?: string) =>
      ask(vault, "POST", `/heir/${heir.id}/confirm`, share === undefined ? {} : { wrapped_share: share });
    assertRefused(await confirm("s"), 409, "person_not_accepted");
    const seen = expect(200, await askByToken(vault, heir, "/invitation"));
    assert.deepEqual([seen.vault_id, seen.role, seen.status, "state" in seen], [
      vault.id,
      "heir",
      "pending",
      false,
    ]);
    const accepted = expect(
      200,
      await askByToken(vault, heir, "/invitation/accept", { public_key: PUBLIC_KEY }),
    );
    assert.equal(accepted.status, "accepted");
    expect(200, await askByToken(vault, heir, "/invitation/accept", { public_key: PUBLIC_KEY }));
    assert.equal((await mailsAbout(vault)).filter(({ kind }) => kind === "vault_person_accepted").length, 1);
    const confirmed = expect(200, await confirm("s"));
    assert.deepEqual([confirmed.status, confirmed.has_share], ["confirmed", true]);
    for (let i = 0; i < 2; i++) await nameSomebody(vault, "guardian");
    const more = await nameSomebody(vault, "guardian", { share: null });
    const full = await ask(vault, "POST", `/guardian/${more.id}/confirm`, { wrapped_share: "s" });
    assertRefused(full, 409, "vault_limit_reached");
    assert.deepEqual([full.body.of, full.body.limit], ["shares", 3]);
    expect(200, await confirm("another"));
    assertRefused(await ask(vault, "POST", `/guardian/${heir.id}/confirm`, {}), 404, "person_not_found");
  });

  test("whoever a share was wrapped for beforehand is in when they accept with that very key", async (world) => {
    const vault = await newVault(world);
    const given = { public_key: PUBLIC_KEY, wrapped_share: "for that key" };
    const known = await invite(vault, "heir", given);
    const accepted = expect(
      200,
      await askByToken(vault, known, "/invitation/accept", { public_key: PUBLIC_KEY }),
    );
    assert.equal(accepted.status, "confirmed");
    const changed = await invite(vault, "guardian", given);
    const other = PUBLIC_KEY.replace("Bwc", "Cwc");
    expect(200, await askByToken(vault, changed, "/invitation/accept", { public_key: other }));
    const { guardians: [guardian] } = await look(vault);
    assert.deepEqual([guardian.status, guardian.public_key, guardian.has_share], ["accepted", other, false]);
  });

  test("an invitation ends after thirty days, and sending it again makes the old token worthless", async (world) => {
    const vault = await newVault(world);
    const heir = await invite(vault, "heir", { public_key: PUBLIC_KEY, wrapped_share: "s" });
    wait(vault, 29 * DAY_MS);
    expect(200, await ask(vault, "POST", `/heir/${heir.id}/resend`));
    assertRefused(await askByToken(vault, heir, "/invitation"), 404, "invitation_not_found");
    const token = await mintToken(vault, heir.id);
    wait(vault, 29 * DAY_MS);
    expect(200, await askByToken(vault, { token }, "/invitation"));
    wait(vault, DAY_MS);
    assertRefused(await askByToken(vault, { token }, "/invitation/accept"), 404, "invitation_not_found");
    const { heirs: [shown] } = await look(vault);
    assert.deepEqual([shown.status, shown.has_share], ["expired", false]);
    expect(201, await ask(vault, "POST", "/heir", personBody({ email: heir.email })));
  });

  test("who declines or is removed keeps no share, no key and no token", async (world) => {
    const vault = await newVault(world);
    const heir = await nameSomebody(vault, "heir");
    await addAsset(vault, [heir]);
    expect(200, await askByToken(vault, heir, "/invitation/decline"));
    assertRefused(await askByToken(vault, heir, "/invitation"), 404, "invitation_not_found");
    const { heirs: [shown], assets: [asset] } = await look(vault);
    assert.deepEqual([shown.status, shown.has_share, asset.wrapped_for], ["declined", false, []]);
    const left = await world.sql.query(
      `select (select count(*) from app.vault_tokens where person_id = p.id)::int as tokens, wrapped_share
         from app.vault_people p where id = $1`,
      [heir.id],
    );
    assert.deepEqual(left.rows, [{ tokens: 0, wrapped_share: null }]);
  });

  test("there are only so many people, assets and vaults", async (world) => {
    const vault = await newVault(world);
    for (let i = 0; i < 10; i++) expect(201, await ask(vault, "POST", "/guardian", personBody()));
    assertRefused(await ask(vault, "POST", "/guardian", personBody()), 409, "vault_limit_reached");
    const make = () =>
      vault.service.requestVault("POST", "/api/vault", {
        headers: { "x-api-key": vault.key },
        body: { name: "v" },
      });
    const made = await Promise.all(Array.from({ length: 25 }, make));
    assert.equal(made.filter(({ status }) => status === 201).length, 19);
    for (const answer of made.filter(({ status }) => status !== 201)) {
      assertRefused(answer, 409, "vault_limit_reached");
    }
  });

  test("what version 1 had is gone, and the answer says what to use", async (world) => {
    const { service } = await newVault(world);
    const gone: [string, string, string | undefined][] = [
      ["POST", "/api/vault/v1/lock", undefined],
      ["POST", "/api/vault/v1/unlock", "POST /api/vault/v1/release"],
      ["GET", "/api/vault/v1/protection", "POST /api/vault/v1/release/config"],
      ["PUT", "/api/vault/v1/succession/any/thing", "POST /api/vault/v1/heir"],
      ["POST", "/functions/v1/vault/api/vault/v1/verification/start", "POST /api/vault/v1/check-in"],
      ["GET", "/api/vault/v1/certificate/x", "GET /api/vault/v1/audit/export"],
      ["POST", "/api/vault/v1/release/contest", "POST /api/vault/v1/release/veto"],
      ["GET", "/api/verify/abc", undefined],
    ];
    for (const [method, path, replacement] of gone) {
      const answer = await service.requestVault(method, path);
      assertRefused(answer, 410, "endpoint_removed", `${method} ${path}: ${answer.text}`);
      assert.equal(answer.body.replacement, replacement, path);
    }
    for (const [method, path] of [["GET", "/api/vault/v1/lock"], ["POST", "/api/verify/abc"], ["GET", "/"]]) {
      assertRefused(await service.requestVault(method!, path!), 404, "route_not_found");
    }
  });
});

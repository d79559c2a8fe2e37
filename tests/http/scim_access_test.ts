/** Who may ask what of a directory: tokens, and the walls between teams. Spec 4.8 and 5. */

import assert from "node:assert/strict";
import {
  assertScimError,
  newDirectory,
  newGroup,
  patchBody,
  provision,
  userBody,
} from "../support/directory.ts";
import { newProjectToken } from "../support/factories.ts";
import { onEveryBackend } from "../support/harness.ts";
import { newPerson } from "../support/people.ts";
import { assertRefused, grant, newTeam, send, subscribe } from "../support/teams.ts";

onEveryBackend((test) => {
  test("only a SCIM token that is known, whole and not revoked is let in, whatever else is wrong with the request", async (world) => {
    const directory = await newDirectory(world);
    const ask = (token?: string, path = "/Users", method = "GET", body?: string) =>
      world.request(method, `/scim/v2${path}`, { ...(token === undefined ? {} : { token }), body });
    const wrong = directory.token.slice(0, -1) + (directory.token.endsWith("0") ? "1" : "0");
    assertScimError(await ask(), 401, undefined, "missing_or_invalid_bearer_token");
    for (const token of [wrong, newProjectToken(), directory.owner.token, "scim_", "scim_<script>"]) {
      assertScimError(await ask(token), 401, undefined, "invalid_scim_token");
    }
    for (const path of ["/Schemas", "/ServiceProviderConfig", "/ResourceTypes/User", "/Groups"]) {
      assertScimError(await ask(wrong, path), 401);
      assert.equal((await ask(directory.token, path)).status, 200);
    }
    const made = await send(
      world,
      directory.owner,
      "DELETE",
      `/sso/${directory.id}/scim-tokens/${directory.tokenId}`,
    );
    assert.deepEqual([made.status, made.body.message], [200, "scim_token_revoked"]);
    for (
      const [path, method, body] of [["/Users", "GET"], ["/Users?filter=(", "GET"], ["/Users", "POST", "{"]]
    ) {
      assertScimError(await ask(directory.token, path, method, body), 401, undefined, "scim_token_revoked");
    }
  });

  test("a token of one team never sees, finds, changes or names another team's users and groups", async (world) => {
    const [one, other] = [await newDirectory(world), await newDirectory(world)];
    const user = await provision(one, "a@example.com");
    const group = await newGroup(one, "Admins", [user]);
    for (const path of [`/Users/${user}`, `/Groups/${group}`]) {
      assertScimError(await other.scim("GET", path), 404);
      assertScimError(await other.scim("PUT", path, { ...userBody("b@example.com"), displayName: "x" }), 404);
      assertScimError(
        await other.scim("PATCH", path, patchBody({ op: "replace", path: "displayName", value: "x" })),
        404,
      );
      assertScimError(await other.scim("DELETE", path), 404);
    }
    for (
      const path of [
        "/Users",
        "/Groups",
        `/Users?filter=${encodeURIComponent(`id eq "${user}" or userName pr`)}`,
      ]
    ) {
      assert.equal((await other.scim("GET", path)).body.totalResults, 0);
    }
    assertScimError(
      await other.scim("POST", "/Groups", { displayName: "x", members: [{ value: user }] }),
      400,
      "invalidValue",
    );
    const mine = await newGroup(other, "Admins");
    const add = patchBody({ op: "add", path: "members", value: [{ value: user }] });
    assertScimError(await other.scim("PATCH", `/Groups/${mine}`, add), 400, "invalidValue");
    assert.equal(
      (await other.scim("POST", "/Users", userBody("A@example.com"))).status,
      201,
      "names are the team's",
    );
    const listed = await one.scim("GET", "/Users");
    assert.deepEqual([listed.body.totalResults, listed.body.Resources[0].id], [1, user]);
    const path = `/sso/${one.id}/scim-tokens`;
    assertRefused(await send(world, other.owner, "GET", path), 403, "not_a_team_member");
    assertRefused(
      await send(world, other.owner, "DELETE", `${path}/${one.tokenId}`),
      403,
      "not_a_team_member",
    );
    const cross = await send(world, other.owner, "DELETE", `/sso/${other.id}/scim-tokens/${one.tokenId}`);
    assertRefused(cross, 404, "scim_token_not_found");
  });

  test("tokens are the admins' and the enterprise plan's, shown once, listed masked, and kept as a hash", async (world) => {
    const team = await newTeam(world);
    const path = `/sso/${team.id}/scim-tokens`;
    for (const method of ["GET", "POST"]) {
      const refused = await send(
        world,
        team.owner,
        method,
        path,
        method === "GET" ? undefined : { name: "x" },
      );
      assertRefused(refused, 403, "plan_required");
    }
    await subscribe(world, team.owner, "enterprise");
    const member = await newPerson(world);
    await grant(world, team, member);
    assertRefused(await send(world, member, "POST", path, { name: "x" }), 403, "forbidden_role");
    for (const [body, code] of [[{}, "missing_field:name"], [{ name: "" }, "invalid_field:name"]] as const) {
      assertRefused(await send(world, team.owner, "POST", path, body), 400, code);
    }
    const made = await send(world, team.owner, "POST", path, { name: "okta" });
    assert.deepEqual([made.status, made.body.name, made.body.prefix], [201, "okta", "scim_"]);
    assert.match(made.body.raw_secret, /^scim_[0-9A-Za-z]{49}$/);
    assert.equal(made.body.masked_token, `scim_…${made.body.raw_secret.slice(-4)}`);
    const { rows } = await world.sql.query("select row_to_json(t)::text as row from app.scim_tokens t");
    assert.ok(!rows.some(({ row }) => row.includes(made.body.raw_secret.slice(5, 48))));
    await world.request("GET", "/scim/v2/Users", { token: made.body.raw_secret });
    const [listed] = (await send(world, team.owner, "GET", path)).body.tokens;
    assert.deepEqual([listed.id, listed.state, "raw_secret" in listed], [made.body.id, "active", false]);
    assert.ok(listed.last_used_at !== null);
    for (let i = 0; i < 2; i++) {
      assert.equal((await send(world, team.owner, "DELETE", `${path}/${listed.id}`)).status, 200);
    }
    assert.equal((await send(world, team.owner, "GET", path)).body.tokens[0].state, "revoked");
    const audit = (await send(world, team.owner, "GET", `/teams/${team.id}/audit`)).body.entries;
    assert.deepEqual(audit.slice(0, 2).map(({ action }: { action: string }) => action), [
      "scim_token.revoke",
      "scim_token.create",
    ]);
    assertRefused(await send(world, team.owner, "DELETE", `${path}/nope`), 404, "scim_token_not_found");
  });
});

/** Each way in which an operation on a directory can be refused, and that nothing has changed afterwards. */

import assert from "node:assert/strict";
import { ApiError, type ErrorCode } from "../../supabase/functions/_shared/errors.ts";
import { metadata } from "../support/certificates.ts";
import {
  assertScimError,
  type Directory,
  GROUP_SCHEMA,
  mapGroups,
  newDirectory,
  newGroup,
  openDirectory,
  patchBody,
  provision,
  through,
  userBody,
} from "../support/directory.ts";
import { onOneBackend } from "../support/harness.ts";
import { newPerson } from "../support/people.ts";
import { assertRefused, grant, newTeam, send, subscribe } from "../support/teams.ts";

const groupBody = (displayName: string, ids: string[] = []) => ({
  schemas: [GROUP_SCHEMA],
  displayName,
  members: ids.map((value) => ({ value })),
});

onOneBackend((test) => {
  test("what is not there, of another version, or somebody else's name is refused by every operation on it", async (world) => {
    const directory = await newDirectory(world);
    const [user, group] = [await provision(directory, "a@example.com"), await newGroup(directory, "A")];
    await provision(directory, "b@example.com");
    await newGroup(directory, "B");
    const kinds = [
      ["/Users", user, userBody("b@example.com"), {
        op: "replace",
        path: "userName",
        value: "B@example.com",
      }],
      ["/Groups", group, groupBody("b"), { op: "replace", path: "displayName", value: "b" }],
    ] as const;
    for (const [path, id, body, operation] of kinds) {
      const before = (await directory.scim("GET", `${path}/${id}`)).body;
      const unknown = `${path}/${crypto.randomUUID()}`;
      const stale = { headers: { "if-match": 'W/"9"' } };
      for (
        const [method, sent] of [["PUT", body], ["PATCH", patchBody(operation)], [
          "DELETE",
          undefined,
        ]] as const
      ) {
        assertScimError(
          await directory.scim(method, unknown, sent),
          404,
          undefined,
          "scim_resource_not_found",
        );
        assertScimError(
          await directory.scim(method, `${path}/${id}`, sent, stale),
          412,
          undefined,
          "precondition_failed",
        );
        if (method === "DELETE") continue;
        assertScimError(
          await directory.scim(method, `${path}/${id}`, sent),
          409,
          "uniqueness",
          "scim_uniqueness",
        );
      }
      assertScimError(await directory.scim("POST", path, body), 409, "uniqueness", "scim_uniqueness");
      assertScimError(await directory.scim("PUT", `${path}/${id}`, {}), 400, "invalidValue");
      assert.deepEqual((await directory.scim("GET", `${path}/${id}`)).body, before);
    }
    const twin = userBody("c@example.com", { emails: [{ value: "A@example.com", primary: true }] });
    assertScimError(await directory.scim("POST", "/Users", twin), 409, "uniqueness");
  });

  test("bad patches and bad searches have the same types for users and groups", async (world) => {
    const directory = await newDirectory(world);
    const paths = [
      `/Users/${await provision(directory, "a@example.com")}`,
      `/Groups/${await newGroup(directory, "A")}`,
    ];
    const cases: [unknown, string][] = [
      [{ Operations: [] }, "invalidSyntax"],
      [patchBody({ op: "add", path: "nothing", value: "x" }), "invalidPath"],
      [patchBody({ op: "replace", path: "meta", value: {} }), "mutability"],
      [patchBody({ op: "remove" }), "noTarget"],
      [patchBody({ op: "replace", path: "externalId", value: { a: 1 } }), "invalidValue"],
    ];
    for (const path of paths) {
      for (const [body, type] of cases) assertScimError(await directory.scim("PATCH", path, body), 400, type);
    }
    assertScimError(
      await directory.scim("PATCH", paths[0]!, patchBody({ op: "remove", path: "emails[x eq 1]" })),
      400,
      "invalidFilter",
    );
    assertScimError(
      await directory.scim("PATCH", paths[1]!, patchBody({ op: "remove", path: "members[x eq 1]" })),
      400,
      "invalidFilter",
    );
    for (const kind of ["", "/Users", "/Groups"]) {
      const search = `${kind}/.search`;
      assertScimError(await directory.scim("POST", search, { filter: "nothing eq 1" }), 400, "invalidFilter");
      assertScimError(await directory.scim("POST", search, { count: "many" }), 400, "invalidValue");
      if (kind === "") continue;
      assertScimError(await directory.scim("GET", `${kind}?filter=x`), 400, "invalidFilter");
      assertScimError(await directory.scim("GET", `${kind}?count=x`), 400, "invalidValue");
    }
    const named = await directory.scim(
      "PATCH",
      `${paths[1]}?attributes=displayName`,
      patchBody({
        op: "replace",
        path: "externalId",
        value: "e",
      }),
    );
    assert.deepEqual([named.status, named.body.displayName], [200, "A"]);
  });

  test("a seat that cannot be bought and a plan that has ended keep people out, however they are brought", async (world) => {
    const team = await newTeam(world);
    await subscribe(world, team.owner, "enterprise", { seats: 1, polarSubscriptionId: crypto.randomUUID() });
    const directory = await openDirectory(world, team);
    const id = await provision(directory, "a@example.com", { active: false });
    const bring = (by: Directory) => [
      by.scim("POST", "/Users", userBody("b@example.com")),
      by.scim("PUT", `/Users/${id}`, userBody("a@example.com")),
      by.scim("PATCH", `/Users/${id}`, patchBody({ op: "replace", value: { active: true } })),
    ];
    const codes: [ErrorCode, number][] = [
      ["payment_provider_refused", 409],
      ["payment_provider_unavailable", 503],
      ["billing_not_configured", 503],
    ];
    for (const [code, status] of codes) {
      const seats = { change: () => Promise.reject(new ApiError(code)) };
      for (const answer of await Promise.all(bring(through(directory, world.with({ seats }))))) {
        assertScimError(answer, status, undefined, code);
        if (status === 503) assert.ok(answer.headers.get("retry-after"));
      }
    }
    await world.sql.query("update app.subscriptions set status = 'canceled' where plan = 'enterprise'");
    for (const answer of await Promise.all(bring(directory))) {
      assertScimError(answer, 403, undefined, "plan_required");
    }
    const { body } = await directory.scim("GET", "/Users");
    assert.deepEqual([body.totalResults, body.Resources[0].active], [1, false]);
    for (const [method, sent] of [["GET"], ["PUT", { default_role: "read" }]] as const) {
      const refused = await send(world, team.owner, method, `/sso/${team.id}/config`, sent);
      assertRefused(refused, 403, "plan_required");
    }
  });

  test("no operation of a directory, and no change of its roles, leaves a team without an admin", async (world) => {
    const directory = await newDirectory(world);
    await send(world, directory.owner, "GET", "/teams");
    const id = await provision(directory, directory.owner.email);
    const [admins, readers] = [
      await newGroup(directory, "Admins", [id]),
      await newGroup(directory, "Readers"),
    ];
    await mapGroups(world, directory, { group_roles: { Admins: "admin", Readers: "read", New: "read" } });
    const leave = (path: string) => patchBody({ op: "remove", path });
    const off = { active: false };
    // Without the group of admins, that of readers would count.
    await directory.scim(
      "PATCH",
      `/Groups/${readers}`,
      patchBody({ op: "add", path: "members", value: [{ value: id }] }),
    );
    for (
      const [method, path, body] of [
        ["PUT", `/Users/${id}`, userBody(directory.owner.email, off)],
        ["PATCH", `/Users/${id}`, patchBody({ op: "replace", value: off })],
        ["DELETE", `/Users/${id}`, undefined],
        ["PUT", `/Groups/${admins}`, groupBody("Admins")],
        ["PATCH", `/Groups/${admins}`, leave("members")],
        ["DELETE", `/Groups/${admins}`, undefined],
      ] as const
    ) {
      assertScimError(await directory.scim(method, path, body), 409, undefined, "last_admin");
    }
    const path = `/sso/${directory.id}/config`;
    const demote = { group_roles: { Readers: "read" } };
    assertRefused(await send(world, directory.owner, "PUT", path, demote), 409, "last_admin");

    const other = await newDirectory(world);
    await send(world, other.owner, "GET", "/teams");
    const owner = await provision(other, other.owner.email);
    await mapGroups(world, other, { group_roles: { New: "read" } });
    assertScimError(
      await other.scim("POST", "/Groups", groupBody("New", [owner])),
      409,
      undefined,
      "last_admin",
    );
    assert.equal((await other.scim("GET", "/Groups")).body.totalResults, 0);
  });

  test("a team has at most twenty tokens at a time, and strangers and members get near none", async (world) => {
    const directory = await newDirectory(world);
    const path = `/sso/${directory.id}/scim-tokens`;
    for (let i = 1; i < 20; i++) {
      assert.equal((await send(world, directory.owner, "POST", path, { name: `${i}` })).status, 201);
    }
    const refused = await send(world, directory.owner, "POST", path, { name: "21" });
    assertRefused(refused, 409, "scim_token_limit_reached");
    assert.equal(refused.body.limit, 20);
    const [member, stranger] = [await newPerson(world), await newPerson(world)];
    await grant(world, directory, member);
    for (const [person, code] of [[member, "forbidden_role"], [stranger, "not_a_team_member"]] as const) {
      for (
        const [method, at, body] of [["POST", path, { name: "x" }], ["GET", path], [
          "DELETE",
          `${path}/${directory.tokenId}`,
        ]] as const
      ) {
        assertRefused(await send(world, person, method, at, body), 403, code);
      }
    }
    const bare = await newTeam(world);
    const at = `/sso/${bare.id}/scim-tokens/${crypto.randomUUID()}`;
    assertRefused(await send(world, bare.owner, "DELETE", at), 403, "plan_required");
    const xml = metadata();
    assertRefused(
      await send(world, member, "PUT", `/sso/${directory.id}/config`, { metadata_xml: xml }),
      403,
      "forbidden_role",
    );
  });
});

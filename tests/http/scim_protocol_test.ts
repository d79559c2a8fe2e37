/** SCIM as RFC 7644 has it: who may ask, paging, projections, versions, errors; and that a team's directory is its own. */

import assert from "node:assert/strict";
import {
  assertScimError,
  ENTERPRISE_SCHEMA,
  newDirectory,
  newGroup,
  patchBody,
  provision,
  userBody,
} from "../support/directory.ts";
import { newProjectToken } from "../support/factories.ts";
import { onEveryBackend, onOneBackend } from "../support/harness.ts";
import { newPerson } from "../support/people.ts";
import { assertRefused, grant, newTeam, send, subscribe } from "../support/teams.ts";

onEveryBackend((test) => {
  test("only a SCIM token that is known, whole and not revoked is let in, whatever else is wrong with the request", async (world) => {
    const { scim, ...directory } = await newDirectory(world);
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

  test("pages count from 1, are in one order, and out of range means the nearest", async (world) => {
    const directory = await newDirectory(world);
    const ids: string[] = [];
    for (let i = 0; i < 5; i++) ids.push(await provision(directory, `user${i}@example.com`));
    const page = async (query: string) => {
      const { body } = await directory.scim("GET", `/Users?${query}`);
      return [
        body.totalResults,
        body.startIndex,
        body.itemsPerPage,
        body.Resources.map((r: { id: string }) => r.id),
      ];
    };
    assert.deepEqual(await page("startIndex=1&count=2"), [5, 1, 2, ids.slice(0, 2)]);
    assert.deepEqual(await page("startIndex=4&count=2"), [5, 4, 2, ids.slice(3)]);
    assert.deepEqual(await page("startIndex=6"), [5, 6, 0, []]);
    assert.deepEqual(await page("startIndex=0&count=-3"), [5, 1, 0, []]);
    assert.deepEqual(await page("count=0"), [5, 1, 0, []]);
    assert.deepEqual(await page("startIndex=999999999999&count=100000"), [5, 2147483647, 0, []]);
    assert.deepEqual(await page("sortBy=userName&unknown=1"), [5, 1, 5, ids]);
    for (const query of ["startIndex=x", "count=1.5", "count=1e3"]) {
      assertScimError(await directory.scim("GET", `/Users?${query}`), 400, "invalidValue");
    }
    const search = await directory.scim("POST", "/Users/.search", {
      filter: 'userName sw "user1"',
      attributes: ["userName"],
      startIndex: 1,
      count: 10,
    });
    assert.deepEqual(search.body.Resources, [{
      schemas: ["urn:ietf:params:scim:schemas:core:2.0:User"],
      id: ids[1],
      userName: "user1@example.com",
    }]);
    await newGroup(directory, "Group");
    const all = await directory.scim("POST", "/.search", { startIndex: 5, count: 10 });
    assert.deepEqual([all.body.totalResults, all.body.itemsPerPage], [6, 2]);
    const groups = await directory.scim("POST", "/.search", {
      filter: 'members pr or displayName eq "group"',
    });
    assert.equal(groups.body.totalResults, 1);
  });

  test("attributes and excludedAttributes choose what is shown, in any case and by URN; id and schemas stay", async (world) => {
    const directory = await newDirectory(world);
    const id = await provision(directory, "a@example.com", {
      [ENTERPRISE_SCHEMA]: { department: "X", division: "Y" },
    });
    const keys = async (query: string) => {
      const { body } = await directory.scim("GET", `/Users/${id}?${query}`);
      return body;
    };
    assert.deepEqual(Object.keys(await keys("attributes=USERNAME")).sort(), ["id", "schemas", "userName"]);
    assert.deepEqual((await keys("attributes=name.familyName,emails.value")).name, { familyName: "Doe" });
    assert.deepEqual((await keys("attributes=emails.value,emails.type")).emails, [{
      value: "a@example.com",
      type: "work",
    }]);
    assert.deepEqual((await keys(`attributes=${ENTERPRISE_SCHEMA}:department`))[ENTERPRISE_SCHEMA], {
      department: "X",
    });
    const less = await keys(
      `excludedAttributes=emails.type,name,id,meta,${ENTERPRISE_SCHEMA}:division,nothing`,
    );
    assert.deepEqual(less.emails, [{ value: "a@example.com", primary: true }]);
    assert.deepEqual(less[ENTERPRISE_SCHEMA], { department: "X" });
    assert.deepEqual(["name" in less, "meta" in less, less.id], [false, false, id]);
  });

  test("versions: an ETag with each answer, 304 to who has it, 412 to who changes another", async (world) => {
    const directory = await newDirectory(world);
    const id = await provision(directory, "a@example.com");
    const group = await newGroup(directory, "G");
    for (const path of [`/Users/${id}`, `/Groups/${group}`]) {
      const read = await directory.scim("GET", path);
      const etag = read.headers.get("etag")!;
      assert.equal(etag, read.body.meta.version);
      const same = await directory.scim("GET", path, undefined, { headers: { "if-none-match": etag } });
      assert.deepEqual([same.status, same.text], [304, ""]);
      const rename = patchBody({ op: "replace", path: "displayName", value: "new" });
      const change = (match: string) =>
        directory.scim("PATCH", path, rename, { headers: { "if-match": match } });
      for (const match of ['W/"7"', '"nonsense"', "x"]) assertScimError(await change(match), 412);
      assert.ok((await change(etag)).status < 300);
      assertScimError(await change(etag), 412, undefined, "precondition_failed");
      assert.ok((await change("*")).status < 300);
      const now = await directory.scim("GET", path, undefined, { headers: { "if-none-match": etag } });
      assert.equal(now.body.meta.version, 'W/"2"', "what changes nothing makes no version");
      const gone = await directory.scim("DELETE", path, undefined, { headers: { "if-match": etag } });
      assertScimError(gone, 412);
      assert.equal((await directory.scim("DELETE", path)).status, 204);
    }
  });
});

onOneBackend((test) => {
  test("bad requests get a SCIM error with its type and change nothing", async (world) => {
    const directory = await newDirectory(world);
    const id = await provision(directory, "a@example.com");
    const group = await newGroup(directory, "G", [id]);
    const before = (await directory.scim("GET", `/Users/${id}`)).body;
    const patches: [unknown, string][] = [
      [{}, "invalidSyntax"],
      [{ Operations: [] }, "invalidSyntax"],
      [{ Operations: {} }, "invalidSyntax"],
      [patchBody({ op: "move", path: "title", value: "x" }), "invalidSyntax"],
      [patchBody({ op: 7 }), "invalidSyntax"],
      [{ Operations: ["x"] }, "invalidSyntax"],
      [patchBody({ op: "remove" }), "noTarget"],
      [patchBody({ op: "add", value: "x" }), "invalidSyntax"],
      [patchBody({ op: "add", path: "nothing", value: "x" }), "invalidPath"],
      [patchBody({ op: "add", path: "name[", value: "x" }), "invalidPath"],
      [patchBody({ op: "add", path: "__proto__.polluted", value: "x" }), "invalidPath"],
      [patchBody({ op: "add", path: 7, value: "x" }), "invalidPath"],
      [patchBody({ op: "add", path: "id", value: "x" }), "mutability"],
      [patchBody({ op: "replace", path: "groups", value: [] }), "mutability"],
      [patchBody({ op: "replace", path: "meta.created", value: "x" }), "mutability"],
      [patchBody({ op: "replace", path: "active", value: "perhaps" }), "invalidValue"],
      [patchBody({ op: "replace", path: "userName", value: "" }), "invalidValue"],
      [patchBody({ op: "remove", path: "userName" }), "invalidValue"],
      [patchBody({ op: "replace", path: "title", value: { a: 1 } }), "invalidValue"],
      [patchBody({ op: "replace", path: "title", value: "\u0000" }), "invalidValue"],
      [patchBody({ op: "replace", path: "title", value: "x".repeat(1_025) }), "invalidValue"],
      [patchBody({ op: "replace", path: "title" }), "invalidValue"],
      [patchBody({ op: "add", path: "addresses", value: "x" }), "invalidValue"],
      [patchBody({ op: "add", path: "emails[nothing eq 1].value", value: "x" }), "invalidFilter"],
      [patchBody({ op: "add", path: 'emails[type eq "work"', value: "x" }), "invalidPath"],
      [patchBody({ op: "add", path: 'emails[type gt "x" or value co "y"].value', value: "x" }), "noTarget"],
      ["{", "invalidSyntax"],
      ["[]", "invalidSyntax"],
      ['"x"', "invalidSyntax"],
    ];
    for (const [body, type] of patches) {
      const answer = await directory.scim("PATCH", `/Users/${id}`, body);
      assert.deepEqual(
        [answer.status, answer.body.scimType],
        [400, type],
        `${JSON.stringify(body)} ${answer.text}`,
      );
    }
    for (
      const body of [{}, { userName: null }, { userName: 1, active: [] }, {
        userName: "x",
        emails: Array(101).fill({}),
      }]
    ) {
      const made = await directory.scim("POST", "/Users", body);
      assert.ok(made.status === 201 || made.body.scimType === "invalidValue", made.text);
    }
    for (
      const body of [{}, { displayName: "" }, { displayName: "x", members: ["y"] }, {
        displayName: "x",
        members: [{}],
      }]
    ) {
      assertScimError(await directory.scim("POST", "/Groups", body), 400, "invalidValue");
    }
    const bad: [unknown, string][] = [
      [patchBody({ op: "remove", path: 'members[type eq "User"]' }), "invalidFilter"],
      [patchBody({ op: "replace", path: "members.type", value: "x" }), "mutability"],
      [patchBody({ op: "remove", path: "displayName" }), "invalidValue"],
    ];
    for (const [body, type] of bad) {
      assertScimError(await directory.scim("PATCH", `/Groups/${group}`, body), 400, type);
    }
    assert.deepEqual((await directory.scim("GET", `/Users/${id}`)).body, before);
    assert.equal(({} as Record<string, unknown>).polluted, undefined);
    assertScimError(await directory.scim("POST", "/Users", "x".repeat(2 * 1024 * 1024 + 1)), 413);
    assertScimError(await directory.scim("GET", "/Nothing"), 404, undefined, "route_not_found");
    assertScimError(await directory.scim("POST", "/Schemas", {}), 405, undefined, "method_not_allowed");
    assertScimError(await directory.scim("GET", "/Schemas/urn:nothing"), 404);
  });

  test("many changes of one user at once are all carried out, one after the other", async (world) => {
    const directory = await newDirectory(world);
    const id = await provision(directory, "a@example.com");
    const answers = await Promise.all(
      Array.from({ length: 6 }, (_, i) =>
        directory.scim(
          "PATCH",
          `/Users/${id}`,
          patchBody({ op: "add", path: "phoneNumbers", value: [{ type: "other", value: `+${i}` }] }),
        )),
    );
    assert.deepEqual(answers.map(({ status }) => status), Array(6).fill(200));
    const { phoneNumbers } = (await directory.scim("GET", `/Users/${id}`)).body;
    assert.deepEqual(phoneNumbers.map(({ value }: { value: string }) => value).sort(), [
      "+0",
      "+1",
      "+2",
      "+3",
      "+4",
      "+5",
    ]);
  });

  test("every schema that is named is served, and every attribute that is served is in a schema", async (world) => {
    const directory = await newDirectory(world);
    const { scim } = directory;
    const types = (await scim("GET", "/ResourceTypes")).body.Resources;
    assert.deepEqual(types.map(({ id }: { id: string }) => id), ["User", "Group"]);
    const full = {
      ...userBody("full@example.com"),
      ...{ displayName: "D", nickName: "N", profileUrl: "https://p.example", title: "T", userType: "U" },
      ...{ preferredLanguage: "en", locale: "en", timezone: "UTC", externalId: "E" },
      phoneNumbers: [{ value: "1", type: "work", primary: true, display: "x" }],
      addresses: [{ formatted: "F", country: "C", type: "home" }],
      roles: [{ value: "r" }],
      [ENTERPRISE_SCHEMA]: {
        employeeNumber: "1",
        costCenter: "2",
        organization: "3",
        manager: { value: "4" },
      },
      unknown: { a: 1 },
    };
    const user = (await scim("POST", "/Users", full)).body;
    await newGroup(directory, "G", [user.id]);
    for (const type of types) {
      assert.equal((await scim("GET", `/ResourceTypes/${type.id}`)).body.id, type.id);
      const urns = [
        type.schema,
        ...(type.schemaExtensions ?? []).map((each: { schema: string }) => each.schema),
      ];
      const schemas = await Promise.all(urns.map(async (urn) => (await scim("GET", `/Schemas/${urn}`)).body));
      assert.deepEqual(schemas.map(({ id }) => id), urns);
      const [resource] = (await scim("GET", type.endpoint)).body.Resources;
      assert.ok(resource.schemas.every((urn: string) => urns.includes(urn)));
      assertDescribed(resource, schemas[0].attributes, ["schemas", "id", "externalId", "meta", ...urns]);
      for (const schema of schemas.slice(1)) assertDescribed(resource[schema.id], schema.attributes, []);
    }
    const config = (await scim("GET", "/ServiceProviderConfig")).body;
    assert.deepEqual([config.patch.supported, config.filter.maxResults, config.bulk.supported], [
      true,
      200,
      false,
    ]);
  });
});

interface Described {
  name: string;
  subAttributes?: Described[];
}

/** Asserts that a schema has every attribute of a resource, all the way down. */
function assertDescribed(resource: Record<string, unknown>, attributes: Described[], known: string[]): void {
  for (const [name, value] of Object.entries(resource)) {
    if (known.includes(name)) continue;
    const attribute = attributes.find((each) => each.name === name);
    assert.ok(attribute, `${name} is in no schema`);
    for (const part of Array.isArray(value) ? value : [value]) {
      if (typeof part === "object") assertDescribed(part, attribute.subAttributes ?? [], []);
    }
  }
}

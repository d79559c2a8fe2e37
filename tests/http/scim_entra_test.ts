/** Entra's requests, in its order and its words, from Microsoft's public documentation; with and without its flag. */

import assert from "node:assert/strict";
import { assertScimError, ENTERPRISE_SCHEMA, newDirectory } from "../support/directory.ts";
import { onEveryBackend } from "../support/harness.ts";

const PATCH = "urn:ietf:params:scim:api:messages:2.0:PatchOp";
const patch = (...operations: unknown[]) => ({ schemas: [PATCH], Operations: operations });

/** The body of POST /Users in Microsoft's documentation. */
function testUser() {
  return {
    schemas: [
      "urn:ietf:params:scim:schemas:core:2.0:User",
      "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User",
    ],
    externalId: crypto.randomUUID(),
    userName: `Test_User_${crypto.randomUUID()}`,
    active: true,
    emails: [{ primary: true, type: "work", value: `Test_User_${crypto.randomUUID()}@testuser.com` }],
    meta: { resourceType: "User" },
    name: { formatted: "givenName familyName", familyName: "familyName", givenName: "givenName" },
    roles: [],
  };
}

onEveryBackend((test) => {
  test("Entra tests the connection, matches, creates, updates, disables and deletes a user", async (world) => {
    const directory = await newDirectory(world);
    const { scim } = directory;
    const search = (filter: string) => scim("GET", `/Users?filter=${encodeURIComponent(filter)}`);

    // Test Connection looks for somebody who cannot be there; that is no error.
    const nobody = await search(`userName eq "${crypto.randomUUID()}"`);
    assert.deepEqual([nobody.status, nobody.body.totalResults, nobody.body.Resources], [200, 0, []]);
    const schemas = await scim("GET", "/Schemas");
    assert.equal(schemas.body.totalResults, 3);

    const user = testUser();
    const created = await scim("POST", "/Users", user);
    assert.equal(created.status, 201, created.text);
    const { id } = created.body;
    assert.deepEqual(created.body.emails, user.emails, "values come back as they were sent");
    assert.equal("roles" in created.body, false);
    for (
      const filter of [
        `userName eq "${user.userName}"`,
        `externalId eq "${user.externalId}"`,
        `emails[type eq "work"].value eq "${user.emails[0]!.value}"`,
        `userName eq "${user.userName}" and active eq true`,
      ]
    ) {
      const found = await search(filter);
      assert.deepEqual(
        [found.status, found.body.totalResults, found.body.Resources[0]?.id],
        [200, 1, id],
        filter,
      );
    }

    const updated = await scim(
      "PATCH",
      `/Users/${id}`,
      patch(
        { op: "Replace", path: 'emails[type eq "work"].value', value: "updatedEmail@microsoft.com" },
        { op: "Replace", path: "name.familyName", value: "updatedFamilyName" },
      ),
    );
    assert.equal(updated.status, 200, updated.text);
    assert.deepEqual(updated.body.emails, [{
      primary: true,
      type: "work",
      value: "updatedEmail@microsoft.com",
    }]);
    assert.equal(updated.body.name.familyName, "updatedFamilyName");
    const renamed = await scim(
      "PATCH",
      `/Users/${id}`,
      patch({ op: "Replace", path: "userName", value: "5b50642d@testuser.com" }),
    );
    assert.equal(renamed.body.userName, "5b50642d@testuser.com");

    const off = await scim("PATCH", `/Users/${id}`, {
      Operations: [{ op: "Replace", path: "active", value: false }],
      schemas: [PATCH],
    });
    assert.deepEqual([off.status, off.body.active], [200, false]);
    const found = await search('userName eq "5b50642d@testuser.com"');
    assert.equal(found.body.Resources[0].active, false, "who is disabled is still found");
    assert.equal((await scim("DELETE", `/Users/${id}`)).status, 204);
    assertScimError(await scim("GET", `/Users/${id}`), 404);
    assertScimError(await scim("DELETE", `/Users/${id}`), 404);
  });

  test("without its flag Entra sends booleans as text, lists for single values, and qualified names as keys", async (world) => {
    const { scim } = await newDirectory(world);
    const { id } = (await scim("POST", "/Users", testUser())).body;
    const change = async (...operations: unknown[]) => {
      const answer = await scim("PATCH", `/Users/${id}`, patch(...operations));
      assert.equal(answer.status, 200, answer.text);
      return answer.body;
    };
    assert.equal((await change({ op: "Replace", path: "active", value: "False" })).active, false);
    assert.equal((await change({ op: "Add", path: "active", value: "True" })).active, true);
    assert.equal(
      (await change({ op: "Replace", path: "displayName", value: [{ $ref: null, value: "Larry" }] }))
        .displayName,
      "Larry",
    );
    const added = await change({
      op: "Add",
      value: {
        "name.givenName": "Harris",
        "active": "True",
        [`${ENTERPRISE_SCHEMA}:department`]: "Tech Infrastructure",
        'phoneNumbers[type eq "work"].value': "+1 555 0100",
        "unknownAttribute": "passed over",
      },
    });
    assert.equal(added.name.givenName, "Harris");
    assert.equal(added[ENTERPRISE_SCHEMA].department, "Tech Infrastructure");
    assert.deepEqual(added.phoneNumbers, [{ type: "work", value: "+1 555 0100" }]);
    assert.deepEqual(added.schemas, ["urn:ietf:params:scim:schemas:core:2.0:User", ENTERPRISE_SCHEMA]);

    const managed = await change(
      { op: "Add", path: `${ENTERPRISE_SCHEMA}:manager`, value: "2c5bbcc5" },
      { op: "Add", path: 'addresses[type eq "work"].country', value: "ML" },
      { op: "Replace", path: `${ENTERPRISE_SCHEMA}:employeeNumber`, value: 701984 },
      { op: "Add", path: "urn:ietf:params:scim:schemas:extension:custom:2.0:User:badge", value: "x" },
    );
    assert.deepEqual(managed[ENTERPRISE_SCHEMA].manager, { value: "2c5bbcc5" });
    assert.deepEqual(managed.addresses, [{ type: "work", country: "ML" }]);
    assert.equal(managed[ENTERPRISE_SCHEMA].employeeNumber, "701984");
    const cleared = await change(
      { op: "Remove", path: `${ENTERPRISE_SCHEMA}:manager` },
      { op: "Remove", path: 'addresses[type eq "work"]' },
      { op: "Replace", path: "NAME.GivenName", value: "Lawrence" },
    );
    assert.equal("manager" in cleared[ENTERPRISE_SCHEMA], false);
    assert.equal("addresses" in cleared, false);
    assert.equal(cleared.name.givenName, "Lawrence");
  });

  test("with its flag Entra sends what RFC 7644 says, several operations at once", async (world) => {
    const { scim } = await newDirectory(world);
    const { id } = (await scim("POST", "/Users", { ...testUser(), emails: [] })).body;
    const answer = await scim(
      "PATCH",
      `/Users/${id}`,
      patch(
        { op: "replace", path: 'emails[type eq "work"].value', value: "someone@contoso.com" },
        { op: "replace", path: 'emails[type eq "work"].primary', value: true },
        { op: "replace", value: { active: false, userName: "someone" } },
        { op: "add", path: `${ENTERPRISE_SCHEMA}:department`, value: "Tech Infrastructure" },
      ),
    );
    assert.equal(answer.status, 200, answer.text);
    assert.deepEqual(answer.body.emails, [{ type: "work", value: "someone@contoso.com", primary: true }]);
    assert.deepEqual([answer.body.active, answer.body.userName], [false, "someone"]);
    assert.equal(answer.body[ENTERPRISE_SCHEMA].department, "Tech Infrastructure");
  });

  test("Entra creates an empty group, finds it without members, renames it, adds and removes members both ways", async (world) => {
    const { scim } = await newDirectory(world);
    const ids = [
      (await scim("POST", "/Users", testUser())).body.id,
      (await scim("POST", "/Users", testUser())).body.id,
    ];
    const created = await scim("POST", "/Groups", {
      schemas: [
        "urn:ietf:params:scim:schemas:core:2.0:Group",
        "http://schemas.microsoft.com/2006/11/ResourceManagement/ADSCIM/2.0/Group",
      ],
      externalId: "8aa1a0c0-c4c3-4bc0-b4a5-2ef676900159",
      displayName: "displayName",
      meta: { resourceType: "Group" },
    });
    assert.equal(created.status, 201, created.text);
    const { id } = created.body;
    assert.deepEqual([created.body.externalId, created.body.members], [
      "8aa1a0c0-c4c3-4bc0-b4a5-2ef676900159",
      [],
    ]);
    const change = async (...operations: unknown[]) =>
      assert.equal((await scim("PATCH", `/Groups/${id}`, patch(...operations))).status, 204);
    const membersOf = async () =>
      (await scim("GET", `/Groups/${id}`)).body.members.map(({ value }: { value: string }) => value).sort();

    await change({ op: "Add", path: "members", value: ids.map((value) => ({ $ref: null, value })) });
    assert.deepEqual(await membersOf(), [...ids].sort());
    const bare = await scim("GET", `/Groups/${id}?excludedAttributes=members`);
    assert.deepEqual([bare.status, "members" in bare.body], [200, false]);
    const filter = encodeURIComponent('displayName eq "displayName"');
    const listed = await scim("GET", `/Groups?excludedAttributes=members&filter=${filter}`);
    assert.deepEqual([listed.body.totalResults, "members" in listed.body.Resources[0]], [1, false]);
    // Whether somebody is in it.
    for (const [user, total] of [[ids[0], 1], [crypto.randomUUID(), 0]] as const) {
      const isIn = encodeURIComponent(`id eq "${id}" and members eq "${user}"`);
      assert.equal((await scim("GET", `/Groups?filter=${isIn}`)).body.totalResults, total);
    }
    await change({ op: "Remove", path: "members", value: [{ $ref: null, value: ids[0] }] });
    assert.deepEqual(await membersOf(), [ids[1]]);
    await change({ op: "remove", path: `members[value eq "${ids[1]}"]` });
    assert.deepEqual(await membersOf(), []);
    await change({ op: "Replace", path: "displayName", value: "1879db59updatedDisplayName" });
    assert.equal((await scim("GET", `/Groups/${id}`)).body.displayName, "1879db59updatedDisplayName");
    assertScimError(
      await scim("POST", "/Groups", { displayName: "1879DB59updatedDisplayName" }),
      409,
      "uniqueness",
    );
    assert.equal((await scim("DELETE", `/Groups/${id}`)).status, 204);
  });
});

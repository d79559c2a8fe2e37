/** Okta's requests, in its order and its words, from its public documentation of SCIM 2.0. */

import assert from "node:assert/strict";
import { assertScimError, newDirectory } from "../support/directory.ts";
import { onEveryBackend } from "../support/harness.ts";

const HEADERS = {
  "accept": "application/scim+json",
  "accept-charset": "utf-8",
  "content-type": "application/scim+json; charset=utf-8",
  "user-agent": "Okta SCIM Client 1.0.0",
};

/** The body of POST and PUT in Okta's reference. */
function janeDoe(userName: string, over: Record<string, unknown> = {}) {
  return {
    schemas: ["urn:ietf:params:scim:schemas:core:2.0:User"],
    userName,
    name: { givenName: "Jane", familyName: "Doe" },
    emails: [{ primary: true, value: userName, type: "work" }],
    displayName: "Jane Doe",
    locale: "en_US",
    externalId: "00uv931EiyRsnwOGa0g3",
    groups: [],
    password: "4a9XuKkx",
    active: true,
    ...over,
  };
}

onEveryBackend((test) => {
  test("Okta tests the connection, provisions, updates with PUT, deactivates and reactivates a user", async (world) => {
    const directory = await newDirectory(world);
    const okta = (method: string, path: string, body?: unknown) =>
      directory.scim(method, path, body === undefined ? undefined : JSON.stringify(body), {
        headers: HEADERS,
      });
    const name = "jane.doe@example.com";

    // Test Connection
    const empty = await okta("GET", "/Users?startIndex=1&count=2");
    assert.equal(empty.status, 200);
    assert.equal(empty.headers.get("content-type"), "application/scim+json");
    assert.deepEqual(empty.body, {
      schemas: ["urn:ietf:params:scim:api:messages:2.0:ListResponse"],
      totalResults: 0,
      startIndex: 1,
      itemsPerPage: 0,
      Resources: [],
    });
    assert.deepEqual((await okta("GET", "/Groups?startIndex=1&count=100")).body.Resources, []);

    // Assigning somebody: is there such a user? If not, make one.
    const search = `/Users?filter=userName+eq+%22jane.doe%40example.com%22&startIndex=1&count=100`;
    assert.equal((await okta("GET", search)).body.totalResults, 0);
    const created = await okta("POST", "/Users", janeDoe(name));
    assert.equal(created.status, 201, created.text);
    const { id } = created.body;
    assert.equal(created.headers.get("location"), created.body.meta.location);
    assert.equal("password" in created.body, false, "a password is taken and never kept");
    assert.deepEqual(
      [created.body.userName, created.body.externalId, created.body.active, created.body.locale],
      [name, "00uv931EiyRsnwOGa0g3", true, "en_US"],
    );
    const found = (await okta("GET", search)).body;
    assert.deepEqual([found.totalResults, found.Resources[0].id], [1, id]);
    assertScimError(await okta("POST", "/Users", janeDoe("Jane.Doe@Example.com")), 409, "uniqueness");

    // A changed profile: read, then replace the whole.
    const read = await okta("GET", `/Users/${id}`);
    assert.deepEqual(read.body, created.body);
    const replaced = await okta("PUT", `/Users/${id}`, {
      ...janeDoe(name, { displayName: "Jane Smith", name: { givenName: "Jane", familyName: "Smith" } }),
      id,
      meta: {
        resourceType: "User",
        created: "04-12-2018 00:00:00",
        lastModified: "04-12-2018 00:00:00",
        version: "v1.0",
      },
    });
    assert.equal(replaced.status, 200, replaced.text);
    assert.deepEqual([replaced.body.displayName, replaced.body.name.familyName], ["Jane Smith", "Smith"]);
    assert.equal(replaced.body.meta.created, created.body.meta.created);

    // Unassigning: a patch without a path. Reassigning: the search, then a PUT with active.
    const off = await okta("PATCH", `/Users/${id}`, {
      schemas: ["urn:ietf:params:scim:api:messages:2.0:PatchOp"],
      Operations: [{ op: "replace", value: { active: false } }],
    });
    assert.deepEqual([off.status, off.body.active], [200, false]);
    assert.equal((await okta("GET", search)).body.Resources[0].active, false, "it is still found");
    const again = await okta("PUT", `/Users/${id}`, janeDoe(name, { id }));
    assert.deepEqual([again.status, again.body.active, again.body.displayName], [200, true, "Jane Doe"]);
    const offByPut = await okta("PUT", `/Users/${id}`, janeDoe(name, { id, active: false }));
    assert.deepEqual([offByPut.status, offByPut.body.active], [200, false]);
  });

  test("Okta pushes a group: makes it with members, renames it, adds and removes members, replaces all, deletes it", async (world) => {
    const directory = await newDirectory(world);
    const okta = (method: string, path: string, body?: unknown) =>
      directory.scim(method, path, body === undefined ? undefined : JSON.stringify(body), {
        headers: HEADERS,
      });
    const patch = (id: string, ...operations: unknown[]) =>
      okta("PATCH", `/Groups/${id}`, {
        schemas: ["urn:ietf:params:scim:api:messages:2.0:PatchOp"],
        Operations: operations,
      });
    const users: string[] = [];
    for (const name of ["steve", "bob", "pete", "dave"]) {
      users.push((await okta("POST", "/Users", janeDoe(`${name}@example.com`))).body.id);
    }
    const [steve, bob, pete, dave] = users;
    const membersOf = async (id: string) =>
      (await okta("GET", `/Groups/${id}`)).body.members.map(({ value }: { value: string }) => value).sort();

    const created = await okta("POST", "/Groups", {
      schemas: ["urn:ietf:params:scim:schemas:core:2.0:Group"],
      displayName: "Example Group",
      members: [{ value: steve, display: "steve@example.com" }, { value: bob, display: "bob@example.com" }],
    });
    assert.equal(created.status, 201, created.text);
    const { id } = created.body;
    assert.deepEqual(await membersOf(id), [steve, bob].sort());

    const renamed = await patch(id, { op: "replace", value: { id, displayName: "New Group Name" } });
    assert.ok([200, 204].includes(renamed.status), renamed.text);
    assert.equal((await okta("GET", `/Groups/${id}`)).body.displayName, "New Group Name");

    const changed = await patch(
      id,
      { op: "remove", path: `members[value eq "${steve}"]` },
      { op: "remove", path: `members[value eq "${bob}"]` },
      {
        op: "add",
        path: "members",
        value: [{ value: pete, display: "pete@example.com" }, { value: dave, display: "dave@example.com" }],
      },
    );
    assert.equal(changed.status, 204, changed.text);
    assert.deepEqual(await membersOf(id), [pete, dave].sort());

    const pushed = await patch(id, { op: "replace", path: "members", value: [{ value: bob, display: "b" }] });
    assert.equal(pushed.status, 204);
    assert.deepEqual(await membersOf(id), [bob]);

    const put = await okta("PUT", `/Groups/${id}`, {
      schemas: ["urn:ietf:params:scim:schemas:core:2.0:Group"],
      id,
      displayName: "SCIM_test1",
      members: [{ value: steve, display: "s" }, { value: bob, display: "b" }],
    });
    assert.deepEqual([put.status, put.body.displayName, put.body.members.length], [200, "SCIM_test1", 2]);
    assert.equal((await okta("DELETE", `/Groups/${id}`)).status, 204);
    assertScimError(await okta("GET", `/Groups/${id}`), 404);
    assert.equal((await okta("GET", "/Users")).body.totalResults, 4, "its members stay");
  });

  test("an unknown user, an unknown id and a filter that finds nobody are answered as Okta's own test suite expects", async (world) => {
    const directory = await newDirectory(world);
    const nobody = await directory.scim("GET", "/Users?filter=userName%20eq%20%22nobody%40example.com%22");
    assert.deepEqual([nobody.status, nobody.body.totalResults, nobody.body.Resources], [200, 0, []]);
    const unknown = await directory.scim("GET", "/Users/00919288221112222");
    assertScimError(unknown, 404);
    assert.ok(unknown.body.detail.length > 0);
    assertScimError(await directory.scim("GET", `/Users/${crypto.randomUUID()}`), 404);
  });
});

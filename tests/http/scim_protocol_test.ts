/** SCIM as RFC 7644 has it: paging, projections, versions, errors, and changes at once. */

import assert from "node:assert/strict";
import {
  assertScimError,
  ENTERPRISE_SCHEMA,
  newDirectory,
  newGroup,
  patchBody,
  provision,
} from "../support/directory.ts";
import { onEveryBackend, onOneBackend } from "../support/harness.ts";

onEveryBackend((test) => {
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
});

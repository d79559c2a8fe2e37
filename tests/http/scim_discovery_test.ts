/** What a directory can learn of the service: every schema is served, every attribute described. RFC 7644, section 4. */

import assert from "node:assert/strict";
import { ENTERPRISE_SCHEMA, newDirectory, newGroup, userBody } from "../support/directory.ts";
import { onOneBackend } from "../support/harness.ts";

onOneBackend((test) => {
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

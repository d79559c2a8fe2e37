/** Values of a shape that nobody expects are named as wrong: they are no 500, and no code holds what a client made up. */

import assert from "node:assert/strict";
import { assertScimError, newDirectory } from "../support/directory.ts";
import { onOneBackend } from "../support/harness.ts";
import { send } from "../support/teams.ts";

/** What has no text and no number of its own. */
const ODD = { toString: "x" };

onOneBackend((test) => {
  test("a SCIM search whose terms are objects is 400, or goes without them", async (world) => {
    const directory = await newDirectory(world);
    for (const path of ["/.search", "/Users/.search", "/Groups/.search"]) {
      for (const name of ["startIndex", "count", "filter"]) {
        assertScimError(await directory.scim("POST", path, { [name]: ODD }), 400, "invalidValue");
      }
      for (const name of ["attributes", "excludedAttributes"]) {
        assert.equal((await directory.scim("POST", path, { [name]: ODD })).status, 200);
      }
    }
  });

  test("a wrong value under a name that a client made up is told by the name of the field that it is in", async (world) => {
    const directory = await newDirectory(world);
    for (const name of ["", " ", "a b", "<script>", "x".repeat(100)]) {
      const body = { group_roles: { [name]: 7 } };
      const answer = await send(world, directory.owner, "PUT", `/sso/${directory.id}/config`, body);
      assert.deepEqual([answer.status, answer.body.error], [400, "invalid_field:group_roles"], name);
    }
  });
});

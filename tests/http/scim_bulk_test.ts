/** A whole company: two thousand users and a group of them, in time that grows with their number and no faster. */

import assert from "node:assert/strict";
import { mapGroups, newDirectory, newGroup, patchBody, rosterOf, userBody } from "../support/directory.ts";
import { onOneBackend } from "../support/harness.ts";
import { send } from "../support/teams.ts";

const USERS = 2_000;
/** As many as Okta and Entra have under way at once. */
const AT_ONCE = 4;
/** Far more than it takes, far less than it would if each user looked at all the others. */
const SECONDS_MAX = 240;

onOneBackend((test) => {
  test("two thousand users are searched for and provisioned, grouped and taken away, in bounded time", async (world) => {
    const directory = await newDirectory(world, { seats: 10 });
    const started = performance.now();
    const ids: string[] = [];
    const took: number[] = [];
    let next = 0;
    async function work(): Promise<void> {
      for (let i = next++; i < USERS; i = next++) {
        const email = `user${i}@bulk.example`;
        const start = performance.now();
        const found = await directory.scim(
          "GET",
          `/Users?filter=${encodeURIComponent(`userName eq "${email}"`)}`,
        );
        assert.equal(found.body.totalResults, 0);
        const made = await directory.scim("POST", "/Users", userBody(email));
        assert.equal(made.status, 201, made.text);
        took[i] = performance.now() - start;
        ids[i] = made.body.id;
      }
    }
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    const median = (times: number[]) => times.sort((a, b) => a - b)[times.length >> 1]!;
    const [first, last] = [median(took.slice(0, 300)), median(took.slice(-300))];
    assert.ok(last < first * 8 + 50, `the last users took ${last} ms each, the first ${first} ms`);

    const group = await newGroup(directory, "Everybody", ids);
    await mapGroups(world, directory, { group_roles: { Everybody: "write" } });
    const roster = await rosterOf(world, directory);
    assert.equal(roster.size, USERS + 1);
    assert.equal(roster.get(ids[7]!).role, "write");
    for (const value of ids.slice(0, 20)) {
      const start = performance.now();
      const gone = await directory.scim(
        "PATCH",
        `/Groups/${group}`,
        patchBody({ op: "Remove", path: "members", value: [{ value }] }),
      );
      assert.equal(gone.status, 204, gone.text);
      assert.ok(performance.now() - start < 2_000, "one member costs one member");
    }
    const page = await directory.scim("GET", "/Users?startIndex=1801&count=500");
    assert.deepEqual([page.body.totalResults, page.body.itemsPerPage], [USERS, 200]);
    const verified = await send(world, directory.owner, "GET", `/teams/${directory.id}/audit/verify`);
    assert.equal(verified.body.valid, true);
    const { rows } = await world.sql.query(
      "select count(*)::int as mails from app.mail_outbox where kind = 'seat_added' and subject_id = $1",
      [directory.id],
    );
    assert.equal(rows[0].mails, 10, "nobody wants two thousand mails");
    const seconds = (performance.now() - started) / 1_000;
    assert.ok(seconds < SECONDS_MAX, `${seconds} s`);
  });
});

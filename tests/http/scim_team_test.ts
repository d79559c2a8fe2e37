/** What a directory does to its team: who joins, in which role, who leaves, and what it costs. Spec 4.8. */

import assert from "node:assert/strict";
import {
  assertScimError,
  deactivate,
  type Directory,
  mapGroups,
  newDirectory,
  newGroup,
  newProvisioned,
  openDirectory,
  patchBody,
  provision,
  rosterOf,
  through,
  userBody,
} from "../support/directory.ts";
import { onEveryBackend, onOneBackend } from "../support/harness.ts";
import { deliveriesOf, newHook } from "../support/hooks.ts";
import { newPerson } from "../support/people.ts";
import {
  actionsOf,
  assertRefused,
  grant,
  invite,
  newMember,
  newSubkey,
  newTeam,
  rotate,
  send,
  subscribe,
} from "../support/teams.ts";

onEveryBackend((test) => {
  test("a provisioned user stands in the roster without a grant, and becomes the person at their first session", async (world) => {
    const directory = await newDirectory(world);
    const person = await newPerson(world);
    const id = await provision(directory, person.email.toUpperCase());
    const expected = (await rosterOf(world, directory)).get(id);
    assert.deepEqual([expected.role, expected.status, expected.has_grant, expected.scim_user_id], [
      "read",
      "active",
      false,
      id,
    ]);
    // There is no public key yet to wrap for.
    const early = await grant(world, directory, { ...person, subject: id });
    assertRefused(early, 409, "member_not_signed_in");

    const teams = (await send(world, person, "GET", "/teams")).body.teams;
    assert.deepEqual(teams.map((team: { id: string; role: string }) => [team.id, team.role]), [[
      directory.id,
      "read",
    ]]);
    assertRefused(await send(world, person, "GET", `/teams/${directory.id}/grant`), 403, "no_grant");
    const roster = await rosterOf(world, directory);
    assert.equal(roster.get(id), undefined);
    assert.equal(roster.get(person.subject).scim_user_id, id);
    assert.equal(roster.get(person.subject).has_grant, false);
    assert.equal((await grant(world, directory, person, { role: "read" })).status, 201);
    assert.equal((await send(world, person, "GET", `/teams/${directory.id}/grant`)).status, 200);
    assert.deepEqual((await actionsOf(world, directory)).slice(2), [
      "member.provision",
      "member.link",
      "grant.update",
    ]);
  });

  for (const [way, act] of [["active: false", deactivate], ["DELETE", remove]] as const) {
    test(`${way} ends membership, grant and sub-keys at once, and a rotation is due until there is one`, async (world) => {
      const directory = await newDirectory(world);
      const leaver = await newProvisioned(world, directory);
      await grant(world, directory, leaver, { role: "write" });
      const key = await newSubkey(world, directory, leaver);
      const hook = await newHook(world, "http://127.0.0.1:9/", {
        person: directory.owner,
        events: ["member.removed"],
      });
      assert.ok((await act(directory, leaver.userId)).status < 300);

      assertRefused(await send(world, leaver, "GET", `/teams/${directory.id}/grant`), 403, "no_grant");
      assertRefused(
        await send(world, leaver, "GET", `/teams/${directory.id}/memories`),
        403,
        "not_a_team_member",
      );
      assertRefused(await world.request("GET", "/head", { token: key.token }), 401, "api_key_revoked");
      assert.equal((await rosterOf(world, directory)).size, 1);
      const [team] = (await send(world, directory.owner, "GET", "/teams")).body.teams;
      assert.equal(team.rotation_due, true);
      const [entry] =
        (await send(world, directory.owner, "GET", `/teams/${directory.id}/audit?action=member.remove`))
          .body.entries;
      assert.equal(entry.actor, `scim:${directory.tokenId}`);
      assert.deepEqual(entry.metadata, {
        reason: way === "DELETE" ? "scim_deleted" : "scim_deactivated",
        rotation_due: true,
        scim_user_id: leaver.userId,
      });
      const [delivery] = await deliveriesOf(world, hook.id);
      assert.deepEqual(JSON.parse(delivery.payload).data, {
        team_id: directory.id,
        member_id: leaver.subject,
        scim_user_id: leaver.userId,
        rotation_due: true,
      });

      assert.equal((await rotate(world, directory, [directory.owner])).status, 200);
      const [rotated] = (await send(world, directory.owner, "GET", "/teams")).body.teams;
      assert.equal("rotation_due" in rotated, false);
      const verified = await send(world, directory.owner, "GET", `/teams/${directory.id}/audit/verify`);
      assert.equal(verified.body.valid, true);
    });
  }

  test("whoever never held the key leaves without a rotation being due", async (world) => {
    const directory = await newDirectory(world);
    const expected = await provision(directory, (await newPerson(world)).email);
    const known = await newProvisioned(world, directory);
    for (const id of [expected, known.userId]) assert.equal((await deactivate(directory, id)).status, 200);
    const [team] = (await send(world, directory.owner, "GET", "/teams")).body.teams;
    assert.equal("rotation_due" in team, false);
    assert.equal((await rosterOf(world, directory)).size, 1);
  });

  test("the last admin cannot be deprovisioned, deleted or demoted; with a second admin they can", async (world) => {
    const directory = await newDirectory(world);
    const { owner } = directory;
    const id = await provision(directory, owner.email);
    assert.equal(
      (await rosterOf(world, directory)).get(owner.subject).role,
      "admin",
      "who is admin stays admin",
    );
    const group = await newGroup(directory, "Readers");
    await mapGroups(world, directory, { group_roles: { Readers: "read" } });
    const demote = () =>
      directory.scim(
        "PATCH",
        `/Groups/${group}`,
        patchBody({ op: "add", path: "members", value: [{ value: id }] }),
      );
    for (const refused of [await deactivate(directory, id), await remove(directory, id), await demote()]) {
      assertScimError(refused, 409, undefined, "last_admin");
    }
    assert.equal((await directory.scim("GET", `/Users/${id}`)).body.active, true);
    assert.equal((await send(world, owner, "GET", `/teams/${directory.id}/grant`)).status, 200);

    const second = await newMember(world, directory, "admin");
    assert.equal((await deactivate(directory, id)).status, 200);
    const { rows } = await world.sql.query(
      "select a.subject from app.teams t join app.accounts a on a.id = t.account_id where t.id = $1",
      [directory.id],
    );
    assert.equal(rows[0].subject, second.subject, "the team passes to the admin who is left");
  });

  test("groups map to roles: the highest counts, and what is left counts when one goes", async (world) => {
    const directory = await newDirectory(world);
    const person = await newProvisioned(world, directory);
    await mapGroups(world, directory, {
      default_role: "read",
      group_roles: { Engineers: "write", Leads: "admin" },
    });
    const roleNow = async () => (await rosterOf(world, directory)).get(person.subject).role;
    const engineers = await newGroup(directory, "engineers", [person.userId]);
    assert.equal(await roleNow(), "write");
    const leads = await newGroup(directory, "Leads", [person.userId]);
    assert.equal(await roleNow(), "admin");
    await directory.scim("DELETE", `/Groups/${leads}`);
    assert.equal(await roleNow(), "write");
    await directory.scim(
      "PATCH",
      `/Groups/${engineers}`,
      patchBody({ op: "Replace", path: "displayName", value: "Gardeners" }),
    );
    assert.equal(await roleNow(), "read");
    await mapGroups(world, directory, { group_roles: { Gardeners: "admin" } });
    assert.equal(await roleNow(), "admin");
    await mapGroups(world, directory, { group_roles: {}, default_role: "write" });
    assert.equal(await roleNow(), "write");
    const expected = await provision(directory, (await newPerson(world)).email);
    assert.equal((await rosterOf(world, directory)).get(expected).role, "write");
    const { body } = await send(world, directory.owner, "GET", `/teams/${directory.id}/audit/verify`);
    assert.equal(body.valid, true);
  });

  test("reactivating makes a member again, without the key that they had", async (world) => {
    const directory = await newDirectory(world);
    const person = await newProvisioned(world, directory);
    await grant(world, directory, person, { role: "read" });
    await deactivate(directory, person.userId);
    const back = await directory.scim(
      "PATCH",
      `/Users/${person.userId}`,
      patchBody({ op: "Replace", path: "active", value: "True" }),
    );
    assert.deepEqual([back.status, back.body.active], [200, true]);
    const member = (await rosterOf(world, directory)).get(person.subject);
    assert.deepEqual([member.has_grant, member.role], [false, "read"]);
    assertRefused(await send(world, person, "GET", `/teams/${directory.id}/grant`), 403, "no_grant");
  });

  test("a session whose issuer does not vouch for the address is nobody's, and an inactive user waits for nobody", async (world) => {
    const directory = await newDirectory(world);
    const email = `${crypto.randomUUID()}@example.com`;
    const id = await provision(directory, email);
    for (const email_verified of [false, "false"]) {
      const stranger = await newPerson(world, { email, email_verified });
      assert.deepEqual((await send(world, stranger, "GET", "/teams")).body.teams, []);
    }
    await deactivate(directory, id);
    const late = await newPerson(world, { email, email_verified: true });
    assert.deepEqual((await send(world, late, "GET", "/teams")).body.teams, []);
  });

  test("seats are those of invitations: counted once for each person, refused when none is free", async (world) => {
    const team = await newTeam(world);
    await subscribe(world, team.owner, "enterprise", { seats: 3 });
    const provider = world.with({ seats: { change: () => Promise.resolve() } });
    const directory = await openDirectory(world, team, provider);
    const invited = await newPerson(world);
    await invite(world, team, invited.email);
    await provision(directory, invited.email);
    await provision(directory, (await newPerson(world)).email);
    const seats = async () =>
      (await world.sql.query("select app.count_seats($1) as taken", [team.id])).rows[0].taken;
    assert.equal(await seats(), 3);
    await provision(directory, (await newPerson(world)).email);
    assert.equal(await seats(), 4, "the plan adds seats by itself");
    await send(world, invited, "GET", "/teams");
    assert.equal(await seats(), 4, "signing in takes no other");
    assert.equal((await provision(directory, team.owner.email)).length, 36);
    assert.equal(await seats(), 4, "nor does somebody who is in the team already");
  });
});

onOneBackend((test) => {
  test("what the payment provider refuses is refused, and nobody is provisioned", async (world) => {
    const team = await newTeam(world);
    await subscribe(world, team.owner, "enterprise", { seats: 1, polarSubscriptionId: crypto.randomUUID() });
    const directory = await openDirectory(world, team);
    const refused = await directory.scim("POST", "/Users", userBody("a@example.com"));
    assertScimError(refused, 503, undefined, "billing_not_configured");
    assert.equal((await directory.scim("GET", "/Users")).body.totalResults, 0);
    const inactive = await directory.scim("POST", "/Users", userBody("a@example.com", { active: false }));
    assert.equal(inactive.status, 201, "who is not active takes no seat");

    const calls: number[] = [];
    const paid = through(
      directory,
      world.with({ seats: { change: async (_, seats) => void calls.push(seats) } }),
    );
    assert.equal((await paid.scim("POST", "/Users", userBody("b@example.com"))).status, 201);
    assert.deepEqual(calls, [2]);
  });

  test("when the plan ends, people can be taken away and looked at, but not brought", async (world) => {
    const directory = await newDirectory(world);
    const id = await provision(directory, "a@example.com");
    const idle = await provision(directory, "b@example.com", { active: false });
    await world.sql.query(
      "update app.subscriptions set plan = 'pro' where account_id = (select account_id from app.teams where id = $1)",
      [directory.id],
    );
    assertScimError(
      await directory.scim("POST", "/Users", userBody("c@example.com")),
      403,
      undefined,
      "plan_required",
    );
    const wake = patchBody({ op: "replace", path: "active", value: true });
    assertScimError(await directory.scim("PATCH", `/Users/${idle}`, wake), 403, undefined, "plan_required");
    assert.equal((await directory.scim("GET", "/Users")).body.totalResults, 2);
    assert.equal((await deactivate(directory, id)).status, 200);
    assert.equal((await remove(directory, id)).status, 204);
    const path = `/sso/${directory.id}/scim-tokens`;
    assertRefused(await send(world, directory.owner, "POST", path, { name: "x" }), 403, "plan_required");
    assert.equal((await send(world, directory.owner, "DELETE", `${path}/${directory.tokenId}`)).status, 200);
  });

  test("an admin's decision on a role stands until the directory says something new", async (world) => {
    const directory = await newDirectory(world);
    const person = await newProvisioned(world, directory);
    await mapGroups(world, directory, { group_roles: { Engineers: "write" } });
    await grant(world, directory, person, { role: "admin" });
    await directory.scim(
      "PATCH",
      `/Users/${person.userId}`,
      patchBody({ op: "replace", path: "title", value: "Tsar" }),
    );
    assert.equal((await rosterOf(world, directory)).get(person.subject).role, "admin");
    await newGroup(directory, "Engineers", [person.userId]);
    assert.equal((await rosterOf(world, directory)).get(person.subject).role, "write");
  });

  test("whom an admin has removed stays away until the directory brings them anew", async (world) => {
    const directory = await newDirectory(world);
    const person = await newProvisioned(world, directory);
    await rotate(world, directory, [directory.owner], { revoke_member_id: person.subject });
    await directory.scim("PUT", `/Users/${person.userId}`, userBody(person.email, { title: "x" }));
    assert.equal((await rosterOf(world, directory)).size, 1);
    assert.equal((await deactivate(directory, person.userId)).status, 200);
    const wake = patchBody({ op: "replace", path: "active", value: true });
    assert.equal((await directory.scim("PATCH", `/Users/${person.userId}`, wake)).status, 200);
    assert.equal((await rosterOf(world, directory)).size, 2);
  });

  test("one person in the directories of two teams is a member of both, in one session", async (world) => {
    const [one, other] = [await newDirectory(world), await newDirectory(world)];
    const person = await newPerson(world);
    for (const directory of [one, other]) await provision(directory, person.email);
    const answers = await Promise.all(
      Array.from({ length: 8 }, () => send(world, person, "GET", "/teams")),
    );
    for (const { status, body } of answers) assert.deepEqual([status, body.teams.length], [200, 2]);
    const links = (await actionsOf(world, one)).filter((action) => action === "member.link");
    assert.equal(links.length, 1);
  });

  test("two deprovisionings at once never leave a team without an admin", async (world) => {
    const directory = await newDirectory(world);
    const second = await newMember(world, directory, "admin");
    await send(world, second, "GET", "/teams");
    const ids = [await provision(directory, directory.owner.email), await provision(directory, second.email)];
    const answers = await Promise.all(ids.map((id) => deactivate(directory, id)));
    assert.deepEqual(answers.map(({ status }) => status).sort(), [200, 409]);
  });

  test("the same user from many workers of a directory at once is made once", async (world) => {
    const directory = await newDirectory(world);
    const body = userBody(`${crypto.randomUUID()}@example.com`);
    const answers = await Promise.all(
      Array.from({ length: 8 }, () => directory.scim("POST", "/Users", body)),
    );
    assert.deepEqual(answers.map(({ status }) => status).sort(), [201, ...Array(7).fill(409)]);
  });
});

function remove(directory: Directory, id: string) {
  return directory.scim("DELETE", `/Users/${id}`);
}

/** The examples of RFC 7644, as they stand there: filters of 3.4.2.2 and patches of 3.5.2; and what lies between them. */

import assert from "node:assert/strict";
import { ScimFault } from "../../supabase/functions/v2-agent-state/domain/scim_fault.ts";
import { compileFilter } from "../../supabase/functions/v2-agent-state/domain/scim_filter.ts";
import { patchGroup, patchUser } from "../../supabase/functions/v2-agent-state/domain/scim_patch.ts";
import { findEmail, readResource } from "../../supabase/functions/v2-agent-state/domain/scim_resource.ts";
import { USER_TYPE } from "../../supabase/functions/v2-agent-state/domain/scim_schemas.ts";

const [ID, OTHER] = ["2819c223-7f76-453a-919d-413861904646", "902c246b-6245-4190-8e05-00816be7344a"];
const WORK = { type: "work", streetAddress: "100 Universal City Plaza", locality: "Hollywood" };
const HOME = { type: "home", locality: "Hollywood" };
const BABS = {
  userName: "bjensen",
  nickName: "Babs",
  emails: [{ value: "bjensen@example.com", type: "work", primary: true }, {
    value: "babs@jensen.org",
    type: "home",
  }],
  addresses: [WORK, HOME],
};

const patch = (...Operations: unknown[]) => patchUser(BABS, { Operations });

function codeOf(work: () => unknown): string {
  try {
    work();
  } catch (error) {
    if (error instanceof ScimFault) return error.code;
    throw error;
  }
  return "";
}

Deno.test("every filter of section 3.4.2.2 about attributes that we have is understood", () => {
  for (
    const filter of [
      'userName eq "bjensen"',
      `name.familyName co "O'Malley"`,
      'userName sw "J"',
      'urn:ietf:params:scim:schemas:core:2.0:User:userName sw "J"',
      "title pr",
      ...["gt", "ge", "lt", "le"].map((op) => `meta.lastModified ${op} "2011-05-13T04:42:34Z"`),
      'title pr and userType eq "Employee"',
      'title pr or userType eq "Intern"',
      'userType eq "Employee" and (emails co "example.com" or emails.value co "example.org")',
      'userType ne "Employee" and not (emails co "example.com" or emails.value co "example.org")',
      'userType eq "Employee" and (emails.type eq "work")',
      'userType eq "Employee" and emails[type eq "work" and value co "@example.com"]',
    ]
  ) {
    assert.equal(codeOf(() => compileFilter(USER_TYPE, filter)), "", filter);
  }
  const either =
    'emails[type eq "work" and value co "@example.com"] or ims[type eq "xmpp" and value co "@foo.com"]';
  assert.equal(
    codeOf(() => compileFilter(USER_TYPE, either)),
    "invalid_scim_filter",
    "there are no ims here",
  );
});

Deno.test("a selection and what follows it are about one element; the same two conditions apart are about any", () => {
  const value = { op: "co", type: "text", value: "@x", path: ["value"] };
  const type = { op: "eq", type: "text", value: "work", path: ["type"] };
  assert.deepEqual(compileFilter(USER_TYPE, 'emails[type eq "work"].value co "@x"'), {
    any: "emails",
    where: [{ and: [type, value] }],
  });
  assert.deepEqual(compileFilter(USER_TYPE, 'emails[type eq "work"] and emails.value co "@x"'), {
    and: [{ any: "emails", where: [type] }, { any: "emails", where: [value] }],
  });
});

Deno.test("3.5.2.1: adding to a list, adding a member, and adding to several places at once", () => {
  const added = patch({
    op: "add",
    value: { emails: [{ value: "babs@example.com", type: "other" }], nickName: "Babsie" },
  });
  assert.deepEqual([(added.emails as unknown[]).length, added.nickName], [3, "Babsie"]);
  const again = patch({ op: "add", path: "emails", value: [{ value: "babs@jensen.org", type: "home" }] });
  assert.deepEqual(again.emails, BABS.emails, "what is there already is not added");
  assert.deepEqual(
    patchGroup({
      Operations: [{ op: "add", path: "members", value: [{ display: "Babs Jensen", $ref: "…", value: ID }] }],
    }),
    { only: false, added: [ID], removed: [] },
  );
  const primary = patch({ op: "add", path: "emails", value: { value: "new@example.com", primary: true } });
  assert.deepEqual((primary.emails as { primary?: boolean }[]).map((each) => each.primary), [
    false,
    undefined,
    true,
  ]);
});

Deno.test("3.5.2.2: removing one member, all members, and the elements that a filter selects", () => {
  const remove = (operation: object) => patchGroup({ Operations: [{ op: "remove", ...operation }] });
  assert.deepEqual(remove({ path: `members[value eq "${ID}"]` }), { only: false, added: [], removed: [ID] });
  assert.deepEqual(remove({ path: "members" }), { only: true, added: [], removed: [] });
  assert.deepEqual(remove({ path: `members[value eq "${ID}" or value eq "${OTHER}"]` }).removed, [ID, OTHER]);
  const left = patch({ op: "remove", path: 'emails[type eq "work" and value ew "example.com"]' });
  assert.deepEqual(left.emails, [BABS.emails[1]]);
  assert.equal("emails" in patch({ op: "remove", path: "emails[value pr]" }), false);
  assert.equal("nickName" in patch({ op: "remove", path: "nickName" }), false);
  assert.deepEqual(
    patch({ op: "remove", path: 'emails[type eq "other"]' }),
    BABS,
    "what is not there is gone",
  );
  assert.deepEqual(patch({ op: "remove", path: "emails.primary" }).emails, [
    { value: "bjensen@example.com", type: "work" },
    BABS.emails[1],
  ]);
  assert.deepEqual(patch({ op: "remove", path: "emails", value: [{ value: "babs@jensen.org" }] }).emails, [
    BABS.emails[0],
  ]);
});

Deno.test("operations on members follow one another: what comes last counts", () => {
  const operations = [
    { op: "add", path: "members", value: [{ value: ID }, { value: OTHER }] },
    { op: "remove", path: `members[value eq "${ID}"]` },
  ];
  assert.deepEqual(patchGroup({ Operations: operations }), { only: false, added: [OTHER], removed: [ID] });
  const replaced = [...operations, { op: "replace", path: "members", value: [{ value: ID }] }];
  assert.deepEqual(patchGroup({ Operations: replaced }), { only: true, added: [ID], removed: [] });
  const emptied = [...replaced, { op: "Remove", path: "Members" }, {
    op: "replace",
    value: { displayName: "x" },
  }];
  assert.deepEqual(patchGroup({ Operations: emptied }), {
    displayName: "x",
    only: true,
    added: [],
    removed: [],
  });
});

Deno.test("3.5.2.3: replacing all, the element that is selected, one part of it, and several places", () => {
  const address = { type: "work", streetAddress: "911 Universal City Plaza", country: "US" };
  const whole = patch({ op: "replace", path: 'addresses[type eq "work"]', value: address });
  assert.deepEqual(whole.addresses, [{ ...WORK, ...address }, HOME]);
  const part = patch({
    op: "replace",
    path: 'addresses[type eq "work"].streetAddress',
    value: "1010 Broadway Ave",
  });
  assert.deepEqual(part.addresses, [{ ...WORK, streetAddress: "1010 Broadway Ave" }, HOME]);
  const both = patch({
    op: "replace",
    value: { emails: [{ value: "b@example.com", type: "work" }], nickName: "B" },
  });
  assert.deepEqual([both.emails, both.nickName], [[{ value: "b@example.com", type: "work" }], "B"]);
  const every = patch({ op: "replace", path: "emails.type", value: "other" });
  assert.deepEqual((every.emails as { type: string }[]).map(({ type }) => type), ["other", "other"]);
  const primary = patch({ op: "replace", path: 'emails[type eq "home"].primary', value: true });
  assert.deepEqual((primary.emails as { primary?: boolean }[]).map((each) => each.primary), [false, true]);
});

Deno.test("a selection may hold colons, dots, brackets and conjunctions, and describes what it does not find", () => {
  const sip = { ...BABS, emails: [{ value: "sip:a.b@c", type: "urn:x]y" }] };
  const on = (path: string) =>
    patchUser(sip, { Operations: [{ op: "replace", path, value: "home" }] }).emails;
  assert.deepEqual(on('emails[value eq "sip:a.b@c"].type'), [{ value: "sip:a.b@c", type: "home" }]);
  assert.deepEqual(on('emails[type eq "urn:x]y"].display'), [{ ...sip.emails[0], display: "home" }]);
  assert.deepEqual(
    patchUser({ userName: "x" }, {
      Operations: [{
        op: "add",
        path: 'emails[type eq "work" and primary eq true].value',
        value: "x@y.example",
      }],
    }).emails,
    [{ type: "work", primary: true, value: "x@y.example" }],
  );
});

Deno.test("a patch leaves its input as it was, and reaches no further than the resource", () => {
  const before = structuredClone(BABS);
  patch({ op: "remove", path: "emails" }, { op: "add", path: "name.familyName", value: "J" });
  assert.deepEqual(BABS, before);
  for (const path of ["__proto__.x", "constructor.prototype.x", "name.__proto__"]) {
    assert.equal(codeOf(() => patch({ op: "add", path, value: "x" })), "invalid_scim_path");
  }
  const polluting = JSON.parse(
    '{"op":"add","value":{"__proto__":{"x":1},"constructor":{"x":1},"name":{"__proto__":{"x":1}}}}',
  );
  assert.deepEqual(patch(polluting), BABS);
  assert.equal(({} as Record<string, unknown>).x, undefined);
});

Deno.test("the address that somebody signs in with: the primary one, else for work, else the first, else the name", () => {
  const cases: [Record<string, unknown>, string | null][] = [
    [{
      userName: "u",
      emails: [{ value: "a@x" }, { value: "b@x", type: "work" }, { value: "c@x", primary: true }],
    }, "c@x"],
    [{ userName: "u", emails: [{ value: "a@x" }, { value: "b@x", type: "work" }] }, "b@x"],
    [{ userName: "u@x", emails: [{ value: "a@x" }] }, "a@x"],
    [{ userName: "u@x" }, "u@x"],
    [{ userName: "u@x", emails: [{ value: "nonsense", primary: true }] }, "u@x"],
    [{ userName: "DOMAIN\\u" }, null],
  ];
  for (const [resource, email] of cases) assert.equal(findEmail(resource), email, JSON.stringify(resource));
});

Deno.test("a resource is read in any case, and what nobody knows or may set is left out", () => {
  assert.deepEqual(
    readResource(USER_TYPE, {
      USERNAME: "x",
      id: "1",
      meta: {},
      groups: [{ value: "g" }],
      password: "secret",
      Emails: { Value: "a@b", PRIMARY: "True", other: 1 },
      name: [{ familyName: "F" }],
      title: "",
      nickName: null,
      roles: [],
      "URN:ietf:params:scim:schemas:extension:Enterprise:2.0:user": { Manager: "7", unknown: 1 },
    }),
    {
      userName: "x",
      emails: [{ value: "a@b", primary: true }],
      name: { familyName: "F" },
      "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User": { manager: { value: "7" } },
    },
  );
});

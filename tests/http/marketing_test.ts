/** News for those who asked for it and have said so, and none for those who said no. Spec 4.8. */

import assert from "node:assert/strict";
import { signToken } from "../../supabase/functions/_shared/domain/signed_token.ts";
import type { Mail } from "../../supabase/functions/_shared/platform/mod.ts";
import { addressHash } from "../../supabase/functions/_shared/domain/mail.ts";
import { eventually } from "../support/eventually.ts";
import { type Answer, onEveryBackend, onOneBackend, type World } from "../support/harness.ts";
import { MAIL_SETTINGS, mailsDueTo, runJob, worldWithJobs } from "../support/jobs.ts";
import { accountIdOf, newPerson } from "../support/people.ts";
import { assertRefused, newAddress } from "../support/teams.ts";

const ACCEPTED = { status: "confirmation_sent" };
const NETWORK_TRIES = 30;

onEveryBackend((test) => {
  test("an address counts once its owner has confirmed, with the source that was named first", async (plain) => {
    const world = worldWithJobs(plain);
    const email = newEmail();
    await captured(world, email, "homepage");
    await captured(world, email, "elsewhere");
    assert.deepEqual(await contactOf(world, email), { source: "homepage", confirmed: false });
    const answer = await confirm(world, await tokenTo(world, email));
    assert.deepEqual([answer.status, answer.body], [200, { status: "subscribed" }]);
    assert.deepEqual(await contactOf(world, email), { source: "homepage", confirmed: true });
    assert.equal((await confirm(world, await tokenTo(world, email))).status, 200, "again is the same");
  });

  test("the answer is the same for an address that is new, waits, has confirmed or has refused", async (plain) => {
    const world = worldWithJobs(plain);
    const [email, refuser] = [newEmail(), newEmail()];
    const answers = [await capture(world, email)];
    answers.push(await capture(world, email));
    await confirm(world, await tokenTo(world, email));
    answers.push(await capture(world, email.toUpperCase()));
    await captured(world, refuser);
    await refuse(world, refusalTokenOf(refuser));
    answers.push(await capture(world, refuser));
    const shown = answers.map(({ status, body, headers }) => [status, body, [...headers.keys()].sort()]);
    for (const each of shown) assert.deepEqual(each, shown[0]);
    assert.deepEqual(shown[0]!.slice(0, 2), [202, ACCEPTED]);
  });

  test("whoever has confirmed gets no second mail, and whoever lost theirs does", async (plain) => {
    const world = worldWithJobs(plain);
    const email = newEmail();
    await captured(world, email);
    await captured(world, email, undefined, 2);
    await confirm(world, await tokenTo(world, email));
    await capture(world, email);
    await runJob(world, "/lifecycle/dispatch");
    assert.equal(mailsTo(world, email).length, 2);
  });

  test("one click unsubscribes as mail programs do it, as often as they like", async (plain) => {
    const world = worldWithJobs(plain);
    const person = await newPerson(world);
    await accountIdOf(world, person);
    const [welcome] = await mailsDueTo(world, person.email);
    const url = new URL(/^<(.+)>$/.exec(welcome!.headers!["List-Unsubscribe"]!)![1]!);
    const form = new FormData();
    form.set("List-Unsubscribe", "One-Click");
    const multipart = new Response(form);
    const bodies: [string, Uint8Array | string][] = [
      ["application/x-www-form-urlencoded", "List-Unsubscribe=One-Click"],
      [multipart.headers.get("content-type")!, new Uint8Array(await multipart.arrayBuffer())],
      ["application/x-www-form-urlencoded", ""],
    ];
    for (const [type, body] of bodies) {
      const answer = await world.request("POST", url.pathname + url.search, {
        body,
        headers: { "content-type": type },
      });
      assert.deepEqual([answer.status, answer.body], [200, { status: "unsubscribed" }], type);
    }
    assert.equal(
      (await world.request("GET", url.pathname + url.search)).status,
      404,
      "looking is not refusing",
    );
  });

  test("a page unsubscribes with the token in a JSON body or in a form", async (plain) => {
    const world = worldWithJobs(plain);
    const token = refusalTokenOf(newEmail());
    const json = await world.request("POST", "/marketing/unsubscribe", { body: { token } });
    assert.deepEqual(json.body, { status: "unsubscribed" });
    const form = await world.request("POST", "/marketing/unsubscribe", {
      body: `token=${token}`,
      headers: { "content-type": "application/x-www-form-urlencoded; charset=utf-8" },
    });
    assert.deepEqual(form.body, { status: "unsubscribed" });
  });

  test("what was refused is forgotten but for the refusal, until its owner asks and confirms again", async (plain) => {
    const world = worldWithJobs(plain);
    const email = newEmail();
    await captured(world, email);
    const [first] = mailsTo(world, email);
    await confirm(world, await tokenTo(world, email));
    await refuse(world, refusalTokenOf(email));
    assert.equal(await contactOf(world, email), undefined);
    assertRefused(await confirm(world, tokenIn(first!)), 404, "confirmation_not_found");
    assert.equal(await refuses(world, email), true);
    await captured(world, email, undefined, 2);
    assert.equal(await refuses(world, email), true, "asking proves nothing");
    await confirm(world, await tokenTo(world, email));
    assert.equal(await refuses(world, email), false);
  });
});

onOneBackend((test) => {
  test("bad input is named, and nothing is kept of it", async (plain) => {
    const world = worldWithJobs(plain);
    const bad: [unknown, string][] = [
      [{}, "missing_field:email"],
      [{ email: "nobody" }, "invalid_field:email"],
      [{ email: "a@b\r\nBcc: c@d" }, "invalid_field:email"],
      [{ email: `${"a".repeat(320)}@example.com` }, "invalid_field:email"],
      [{ email: 7 }, "invalid_field:email"],
      [{ email: newEmail(), source: "" }, "invalid_field:source"],
      [{ email: newEmail(), source: "x".repeat(257) }, "invalid_field:source"],
      [{ email: newEmail(), source: "a\0b" }, "invalid_field:source"],
      ["nonsense", "invalid_json"],
    ];
    for (const [body, code] of bad) {
      assertRefused(
        await world.request("POST", "/marketing/capture", { body, headers: newAddress() }),
        400,
        code,
      );
    }
    for (const body of [{}, { token: null }]) {
      const code = "token" in body ? "invalid_field:token" : "missing_field:token";
      assertRefused(await world.request("POST", "/marketing/unsubscribe", { body }), 400, code);
      assertRefused(await world.request("POST", "/marketing/confirm", { body }), 400, code);
    }
  });

  test("a token that we did not sign for this does nothing", async (plain) => {
    const world = worldWithJobs(plain);
    const email = newEmail();
    await captured(world, email);
    const [confirmation, refusal] = [await tokenTo(world, email), refusalTokenOf(newEmail())];
    for (const token of ["x", confirmation, `${refusal}x`, refusal.slice(1), `.${refusal}`]) {
      assertRefused(await refuse(world, token), 400, "invalid_field:token");
    }
    for (
      const token of ["x", refusal, confirmation.slice(0, -2), `${crypto.randomUUID()}.${"A".repeat(43)}`]
    ) {
      assertRefused(await confirm(world, token), 404, "confirmation_not_found");
    }
    assert.deepEqual(await contactOf(world, email), { source: null, confirmed: false });
    const broken = await world.request("POST", "/marketing/unsubscribe", {
      body: "\r\n--garbage",
      headers: { "content-type": "multipart/form-data; boundary=x" },
    });
    assertRefused(broken, 400, "missing_field:token");
  });

  test("an address is mailed at most three times a day, whoever asks from wherever", async (plain) => {
    const world = worldWithJobs(plain);
    const email = newEmail();
    const day = Math.floor(Date.now() / 86_400_000);
    const answers = await collect(6, () => capture(world, email));
    const limited = answers.filter(({ status }) => status === 429);
    if (Math.floor(Date.now() / 86_400_000) === day) assert.equal(limited.length, 3);
    for (const answer of limited) {
      assert.equal(answer.body.error, "rate_limited");
      assert.ok(Number(answer.headers.get("retry-after")) >= 1);
    }
    await runJob(world, "/lifecycle/dispatch");
    assert.ok(mailsTo(world, email).length <= 3);
  });

  test("a network is heard thirty times an hour, whatever it claims to be; others go on", async (plain) => {
    const world = worldWithJobs(plain);
    const { "x-forwarded-for": address } = newAddress();
    const hour = Math.floor(Date.now() / 3_600_000);
    let answers = 0;
    const capturing = () =>
      world.request("POST", "/marketing/capture", {
        body: { email: newEmail() },
        headers: { "x-forwarded-for": `198.51.100.${answers++}, ${address}` },
      });
    const statuses = (await collect(NETWORK_TRIES + 5, capturing)).map(({ status }) => status);
    if (Math.floor(Date.now() / 3_600_000) === hour) {
      assert.equal(statuses.filter((status) => status === 202).length, NETWORK_TRIES);
      assert.equal(statuses.at(-1), 429);
    }
    assert.equal((await capture(world, newEmail())).status, 202);
  });

  test("many captures of one address at once make one contact", async (plain) => {
    const world = worldWithJobs(plain);
    const email = newEmail();
    const answers = await Promise.all([1, 2, 3].map(() => capture(world, email)));
    assert.deepEqual(answers.map(({ status }) => status), [202, 202, 202]);
    const { rows } = await world.sql.query(
      "select count(*) as n from app.marketing_contacts where email = $1",
      [
        email,
      ],
    );
    assert.equal(Number(rows[0].n), 1);
  });

  test("no address and no token reaches the log, and no token the database", async (plain) => {
    const world = worldWithJobs(plain);
    const email = newEmail();
    await captured(world, email);
    const token = await tokenTo(world, email);
    await confirm(world, token);
    const { rows } = await world.sql.query("select t::text from app.marketing_contacts t, app.mail_outbox m");
    assert.ok(!JSON.stringify(rows).includes(token));
    for (const secret of [email, token]) assert.ok(!JSON.stringify(world.logs).includes(secret));
  });
});

function newEmail(): string {
  return `${crypto.randomUUID()}@example.com`;
}

/** Captures from a network of its own. */
function capture(world: World, email: string, source?: string): Promise<Answer> {
  return world.request("POST", "/marketing/capture", { body: { email, source }, headers: newAddress() });
}

/** Captures, and waits for the mail that asks. */
async function captured(world: World, email: string, source?: string, mails = 1): Promise<void> {
  const answer = await capture(world, email, source);
  assert.deepEqual([answer.status, answer.body], [202, ACCEPTED]);
  await eventually("the mail that asks is sent", () => mailsTo(world, email).length >= mails);
}

function confirm(world: World, token: string): Promise<Answer> {
  return world.request("POST", "/marketing/confirm", { body: { token } });
}

function refuse(world: World, token: string): Promise<Answer> {
  return world.request("POST", `/marketing/unsubscribe?token=${encodeURIComponent(token)}`);
}

function mailsTo(world: World, email: string): Mail[] {
  return world.mails.filter(({ to }) => to === email);
}

/** The token of the newest mail that asks. */
async function tokenTo(world: World, email: string): Promise<string> {
  return tokenIn(await eventually("a mail that asks", () => mailsTo(world, email).at(-1)));
}

function tokenIn({ text }: Mail): string {
  return /[0-9A-Za-z_-]+\.[0-9A-Za-z_-]{43}/.exec(text)![0];
}

/** The token that a mail to this address would carry for refusing. */
function refusalTokenOf(email: string): string {
  return signToken("unsubscribe", addressHash(email), MAIL_SETTINGS.linkSecrets[0]!);
}

async function contactOf(world: World, email: string) {
  const { rows } = await world.sql.query(
    "select source, confirmed_at is not null as confirmed from app.marketing_contacts where email = $1",
    [email],
  );
  return rows[0];
}

async function refuses(world: World, email: string): Promise<boolean> {
  const { rows } = await world.sql.query(
    "select 1 from app.mail_refusals where address_hash = sha256(convert_to($1, 'UTF8'))",
    [email],
  );
  return rows.length > 0;
}

async function collect<T>(count: number, work: () => Promise<T>): Promise<T[]> {
  const all: T[] = [];
  for (let i = 0; i < count; i++) all.push(await work());
  return all;
}

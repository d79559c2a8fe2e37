/** The templates of mails: each says what it must, and nothing that people chose gets out of its place. */

import assert from "node:assert/strict";
import fc from "npm:fast-check@4.10.2";
import {
  carriesToken,
  escapeHtml,
  invitationToken,
  MAIL_KINDS,
  type MailFacts,
  renderMail,
  tokenLink,
} from "../../supabase/functions/_shared/domain/mail.ts";

const TOKEN = invitationToken(new Uint8Array(32).fill(255));
const FACTS = {
  team_name: "Night shift",
  role: "write",
  inviter: "ada@example.com",
  token: TOKEN,
  expires_at: "2026-11-27T12:34:56.789Z",
  seat_count: 6,
  adds_seats: "no",
  credits_milli: 93_421,
  plan: "growth",
};
const LINK = tokenLink("team_invitation", "https://app.example.com/x", TOKEN);

/** The mails that are about a team; they name it. */
const OF_ACCOUNTS = [
  ...["webhook_disabled", "welcome", "first_snapshot", "credits_low", "credits_out", "subscription_ending"],
  "marketing_confirmation",
];
const TEAM_KINDS = MAIL_KINDS.filter((kind) => !OF_ACCOUNTS.includes(kind) && !kind.startsWith("vault_"));

/** These have nothing to say but what they always say. */
const WITHOUT_FACTS = ["welcome", "first_snapshot"];

/** Tags that a template makes by itself. */
const OWN_TAGS = /<(?:!doctype html|html lang="en"|\/?(?:html|body|p|code|a)|a href="[^"<>]*")>/g;

function render(kind: string, over: MailFacts = {}) {
  const message = renderMail(kind, { ...FACTS, ...over });
  assert.ok(message, kind);
  return message;
}

for (const kind of ["team_invitation", "guardian_invitation"]) {
  Deno.test(`${kind} shows who asks, for what, until when, and the code`, () => {
    const { subject, text, html } = render(kind);
    assert.match(subject, /Night shift/);
    for (
      const part of [
        "Night shift",
        "ada@example.com",
        "2026-11-27 12:34 UTC",
        TOKEN,
      ]
    ) {
      assert.ok(text.includes(part), part);
      assert.ok(html.includes(part), part);
    }
    assert.ok(html.includes(`<code>${TOKEN}</code>`));
    assert.doesNotMatch(html, /<a /);
    assert.ok(carriesToken(kind));
  });

  Deno.test(`${kind} has a link when there is a page for it, and the token is in the fragment`, () => {
    const { text, html } = render(kind, { link: LINK });
    assert.ok(text.includes(`    ${LINK}\n`));
    assert.ok(html.includes(`<a href="${LINK}">${LINK}</a>`));
    assert.ok(text.includes(`    ${TOKEN}\n`));
    const url = new URL(LINK);
    assert.equal(url.pathname, "/x/invitations/accept");
    assert.equal(url.search, "");
    assert.equal(url.hash, `#token=${TOKEN}`);
  });

  Deno.test(`${kind} can do without an inviter's name`, () => {
    assert.match(render(kind, { inviter: null }).text, /^Somebody /);
  });
}

Deno.test("seat_added and seat_limit_reached count seats", () => {
  assert.match(render("seat_added").text, /now has 6 seats\./);
  assert.match(
    render("seat_added", { seat_count: 1 }).text,
    /now has 1 seat\./,
  );
  assert.match(
    render("seat_limit_reached").text,
    /^Somebody could not .* it has 6 seats, and none is free/,
  );
  assert.match(
    render("seat_limit_reached", { email_domain: "example.com" }).text,
    /^Somebody at example\.com /,
  );
  assert.ok(!carriesToken("seat_added") && !carriesToken("seat_limit_reached"));
});

Deno.test("a kind without a template, and a template without its facts, make no mail", () => {
  for (const kind of ["", "unknown", "toString", "constructor", "__proto__"]) {
    assert.equal(renderMail(kind, FACTS), undefined, kind);
    assert.equal(carriesToken(kind), false, kind);
  }
  for (const kind of MAIL_KINDS) {
    assert.equal(renderMail(kind, {}) === undefined, !WITHOUT_FACTS.includes(kind), kind);
  }
  for (const kind of TEAM_KINDS) {
    for (
      const team_name of [undefined, null, "", " \r\n\u202e", {}, ["x"], true]
    ) {
      assert.equal(renderMail(kind, { ...FACTS, team_name }), undefined, kind);
    }
  }
});

Deno.test("a webhook that was disabled is named by its host, with the reason", () => {
  const [gone, failing] = ["gone", "failing"].map((reason) =>
    render("webhook_disabled", { host: "<b>hooks.example.com", reason })
  );
  assert.equal(gone!.subject, "Your webhook at <b>hooks.example.com was disabled");
  assert.match(gone!.text, /gone \(410\)/);
  assert.match(failing!.text, /five days/);
  assert.deepEqual(gone!.html.replaceAll(OWN_TAGS, "").match(/<[^>]*/g), null);
  assert.equal(renderMail("webhook_disabled", { ...FACTS, reason: "gone" }), undefined);
});

Deno.test("markup in a name is shown as it is written", () => {
  const name = `<script>alert("x")</script>&'`;
  for (const kind of TEAM_KINDS) {
    const { subject, text, html } = render(kind, { team_name: name });
    assert.ok(subject.includes(name) && text.includes(name));
    assert.ok(
      html.includes(
        "&lt;script&gt;alert(&quot;x&quot;)&lt;/script&gt;&amp;&#39;",
      ),
    );
    assert.doesNotMatch(html, /<script/i);
  }
});

Deno.test("a line break in a name begins no header and no paragraph", () => {
  for (const kind of TEAM_KINDS) {
    const plain = render(kind, { team_name: "a Bcc: x@y" });
    for (
      const gap of [
        "\r\n",
        "\n",
        "\r",
        "\n\n",
        "\u2028",
        "\u0085",
        "\u202e ",
        "\t",
      ]
    ) {
      assert.deepEqual(render(kind, { team_name: `a${gap}Bcc: x@y` }), plain);
    }
  }
});

Deno.test("whatever people choose, a subject is one short line and the markup is ours", () => {
  const piece = fc.oneof(
    fc.string({ unit: "binary", maxLength: 300 }),
    fc.constantFrom(
      "<b>",
      '" onload="',
      "\r\nBcc: x@y",
      "&#60;",
      "\u0000",
      "</p>",
      "javascript:x",
    ),
  );
  const facts = fc.record({
    team_name: piece,
    inviter: piece,
    role: piece,
    email_domain: piece,
  });
  fc.assert(
    fc.property(fc.constantFrom(...MAIL_KINDS), facts, (kind, chosen) => {
      const message = renderMail(kind, { ...FACTS, ...chosen });
      if (message === undefined) return;
      assert.doesNotMatch(message.subject, /[\p{Cc}\p{Zl}\p{Zp}\p{Cs}]/u);
      assert.ok([...message.subject].length <= 150);
      assert.doesNotMatch(
        message.text.replaceAll("\n", ""),
        /[\p{Cc}\p{Zl}\p{Zp}\p{Cs}]/u,
      );
      assert.doesNotMatch(message.html.replaceAll(OWN_TAGS, ""), /[<>"']/);
      assert.equal(
        message.text.split("\n").length,
        render(kind).text.split("\n").length,
      );
    }),
    { numRuns: 1_000 },
  );
});

Deno.test("a long name is cut between characters", () => {
  const { subject } = render("seat_added", { team_name: "😀".repeat(500) });
  assert.match(subject, /“(?:😀){99}…”$/u);
});

Deno.test("escaping keeps nothing that could end a tag or an attribute", () => {
  assert.equal(
    escapeHtml(`<a b="c" d='e'>&amp;`),
    "&lt;a b=&quot;c&quot; d=&#39;e&#39;&gt;&amp;amp;",
  );
});

Deno.test("a token spells 256 bits without a character that an address would escape", () => {
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 32, maxLength: 32 }), (bytes) => {
      const token = invitationToken(bytes);
      assert.match(token, /^inv_[0-9A-Za-z_-]{43}$/);
      const text = token.slice(4).replaceAll("-", "+").replaceAll("_", "/");
      assert.deepEqual(
        Uint8Array.from(atob(text), (c) => c.charCodeAt(0)),
        new Uint8Array(bytes),
      );
      assert.equal(encodeURIComponent(token), token);
    }),
  );
  assert.throws(() => invitationToken(new Uint8Array(16)), RangeError);
});

/** Mail over HTTP, against a server that looks at all that it is sent and answers in every way that providers do. */

import assert from "node:assert/strict";
import { MailError } from "../../supabase/functions/_shared/domain/mail_error.ts";
import { readSettings } from "../../supabase/functions/_shared/env.ts";
import { openResendMailer } from "../../supabase/functions/_shared/platform/mailer_resend.ts";

const MAIL = {
  to: "ada@example.com",
  subject: "Invitation “x”",
  text: "Line one\n\nLine two ✓\n",
  html: "<p>Line &lt;one&gt;</p>",
  idempotencyKey: "6a1f0c5e-2b1d-4c53-9a57-2f9f7f1f8f00-2",
};
const KEY = "re_test_key";

interface Received {
  method: string;
  path: string;
  headers: Headers;
  body: string;
}

/** Runs `work` with a mailer whose provider answers as told. */
async function withProvider(
  answer: (received: Received) => Response | Promise<Response>,
  work: (send: () => Promise<void>, received: Received[]) => Promise<void>,
  timeoutMs?: number,
): Promise<void> {
  const received: Received[] = [];
  const abort = new AbortController();
  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, signal: abort.signal, onListen() {} },
    async (request) => {
      const { pathname, search } = new URL(request.url);
      const each = {
        method: request.method,
        path: pathname + search,
        headers: request.headers,
        body: await request.text(),
      };
      received.push(each);
      return await answer(each);
    },
  );
  const { mail } = readSettings({
    RESEND_API_KEY: KEY,
    RESEND_API_URL: `http://127.0.0.1:${server.addr.port}/base/`,
    MAIL_FROM: "Agent State <hello@agents.example>",
  });
  const mailer = openResendMailer(mail, timeoutMs);
  try {
    await work(() => mailer.send(MAIL), received);
  } finally {
    abort.abort();
    await server.finished;
  }
}

/** Asserts that sending fails with a code, and that the error tells nothing of the mail or the key. */
async function expectFailure(
  send: () => Promise<void>,
  code: string,
  permanent: boolean,
): Promise<void> {
  const error = await send().then(
    () => assert.fail("it was sent"),
    (thrown) => thrown,
  );
  assert.ok(error instanceof MailError, String(error));
  assert.deepEqual([error.code, error.permanent], [code, permanent]);
  assert.match(error.code, /^[a-z0-9_]{1,64}$/);
  const told = Deno.inspect(error, { depth: 10 });
  for (const secret of [MAIL.to, MAIL.text, MAIL.subject, MAIL.html, KEY]) {
    assert.ok(!told.includes(secret));
  }
}

function test(name: string, fn: () => Promise<void>): void {
  Deno.test({
    name: `resend: ${name}`,
    sanitizeOps: false,
    sanitizeResources: false,
    fn,
  });
}

test("one request, field by field", () =>
  withProvider(
    () => Response.json({ id: "49a3999c" }),
    async (send, received) => {
      await send();
      assert.equal(received.length, 1);
      const { method, path, headers, body } = received[0]!;
      assert.deepEqual([method, path], ["POST", "/base/emails"]);
      assert.equal(headers.get("authorization"), `Bearer ${KEY}`);
      assert.equal(headers.get("content-type"), "application/json");
      assert.equal(headers.get("idempotency-key"), MAIL.idempotencyKey);
      assert.deepEqual(JSON.parse(body), {
        from: "Agent State <hello@agents.example>",
        to: ["ada@example.com"],
        subject: MAIL.subject,
        text: MAIL.text,
        html: MAIL.html,
      });
    },
  ));

test("header fields of a mail go where the provider looks for them, and only then", async () => {
  const headers = {
    "List-Unsubscribe": "<https://a.example>",
    "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
  };
  const bodies: Record<string, unknown>[] = [];
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
    bodies.push(await request.json());
    return Response.json({ id: "49a3999c" });
  });
  const mailer = openResendMailer({
    apiKey: KEY,
    apiUrl: `http://127.0.0.1:${server.addr.port}`,
    from: "a@b.example",
  });
  await mailer.send({ ...MAIL, headers });
  await mailer.send(MAIL);
  await server.shutdown();
  assert.deepEqual(bodies.map((body) => body.headers), [headers, undefined]);
});

const STATUSES: [status: number, permanent: boolean][] = [
  [400, true],
  [402, true],
  [413, true],
  [422, true],
  [451, true],
  [401, false],
  [403, false],
  [404, false],
  [405, false],
  [408, false],
  [409, false],
  [429, false],
  [500, false],
  [502, false],
  [503, false],
];

for (const [status, permanent] of STATUSES) {
  test(`${status} is ${permanent ? "final" : "for now"}`, () =>
    withProvider(
      ({ body }) =>
        Response.json({ name: "error", message: `quoting ${body}` }, {
          status,
        }),
      async (send, received) => {
        await expectFailure(send, `mail_http_${status}`, permanent);
        assert.equal(
          received.length,
          1,
          "the outbox tries again, not the mailer",
        );
      },
    ));
}

for (const status of [301, 302, 307, 308]) {
  test(`a redirect (${status}) is not followed: the key and the mail go nowhere else`, () =>
    withProvider(
      ({ path }) =>
        path === "/base/emails"
          ? new Response(null, { status, headers: { location: "/elsewhere" } })
          : Response.json({ id: "x" }),
      async (send, received) => {
        await expectFailure(send, `mail_http_${status}`, false);
        assert.deepEqual(received.map(({ path }) => path), ["/base/emails"]);
      },
    ));
}

for (
  const text of [
    "",
    "<html>Welcome to the guest network</html>",
    "{}",
    "null",
    "[]",
    '{"id":7}',
    '{"id":""}',
  ]
) {
  test(`200 with ${JSON.stringify(text)} is no promise of delivery`, () =>
    withProvider(
      () => new Response(text),
      (send) => expectFailure(send, "mail_bad_answer", false),
    ));
}

test("a provider that does not answer is given up on", () => {
  const { promise, resolve } = Promise.withResolvers<Response>();
  return withProvider(() => promise, async (send) => {
    await expectFailure(send, "mail_timeout", false);
    resolve(new Response());
  }, 200);
});

test("an answer that stops half-way is given up on", () =>
  withProvider(
    () =>
      new Response(
        new ReadableStream({
          start: (c) => c.enqueue(new TextEncoder().encode('{"id":')),
        }),
      ),
    (send) => expectFailure(send, "mail_timeout", false),
    200,
  ));

test("a provider that is not there is for now", async () => {
  const taken = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const url = `http://127.0.0.1:${taken.addr.port}`;
  taken.close();
  const { mail } = readSettings({ RESEND_API_KEY: KEY, RESEND_API_URL: url });
  await expectFailure(
    () => openResendMailer(mail).send(MAIL),
    "mail_unreachable",
    false,
  );
});

test("without a key nothing is sent, for now", async () => {
  const { mail } = readSettings({ RESEND_API_KEY: "" });
  assert.equal(mail.apiUrl, "https://api.resend.com");
  assert.equal(mail.from, "Agent State <no-reply@localhost>");
  await expectFailure(
    () => openResendMailer(mail).send(MAIL),
    "mail_not_configured",
    false,
  );
});

test("settings that would send the key in the clear, or break a header, are refused by name", () => {
  const wrong: [string, string][] = [
    ["RESEND_API_URL", "http://mail.example"],
    ["RESEND_API_KEY", "re_x\r\ny"],
    ["MAIL_FROM", "a@b\r\nBcc: c@d"],
    ["MAIL_FROM", "nobody"],
    ["APP_URL", "javascript:alert(1)"],
    ["APP_URL", "https://app.example/#x"],
  ];
  for (const [name, value] of wrong) {
    assert.throws(
      () => readSettings({ [name]: value }),
      new RegExp(name),
      `${name}=${value}`,
    );
  }
  assert.equal(
    readSettings({ APP_URL: "https://app.example/x/" }).appUrl,
    "https://app.example/x",
  );
  return Promise.resolve();
});

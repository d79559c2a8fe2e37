/** The local mailbox: one readable file a mail, one line on the terminal, and each mail once. */

import assert from "node:assert/strict";
import { openMailFiles } from "../../local/mail_files.ts";

const MAIL = {
  to: "ada@example.com",
  subject: "Invitation\r\nBcc: x@y\u001b[2J",
  text: "Line one\n\nLine two\n",
  html: "<p>not kept</p>",
  idempotencyKey: "6a1f0c5e-2b1d-4c53-9a57-2f9f7f1f8f00-2",
};

async function withMailbox(work: (root: string) => Promise<void>): Promise<void> {
  const directory = await Deno.makeTempDir();
  try {
    await work(`${directory}/mail`);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}

Deno.test("mail files: header fields are shown where a reader looks for them", () =>
  withMailbox(async (root) => {
    const mailer = await openMailFiles(root, () => {});
    await mailer.send({ ...MAIL, headers: { "List-Unsubscribe": "<https://a.example/x?token=y>" } });
    const text = await Deno.readTextFile(`${root}/${list(root)[0]}`);
    assert.match(text, /^To: .*\nSubject: .*\nList-Unsubscribe: <https:\/\/a\.example\/x\?token=y>\n/);
  }));

function list(root: string): string[] {
  return [...Deno.readDirSync(root)].map(({ name }) => name).sort();
}

Deno.test("mail files: a mail is a file, and a line says where", () =>
  withMailbox(async (root) => {
    const lines: string[] = [];
    const mailer = await openMailFiles(root, (line) => void lines.push(line));
    await mailer.send(MAIL);
    const [name, ...more] = list(root);
    assert.deepEqual(more, []);
    assert.match(name!, new RegExp(`^\\d{8}T\\d{6}\\.\\d{3}Z-${MAIL.idempotencyKey}\\.txt$`));
    assert.equal(
      await Deno.readTextFile(`${root}/${name}`),
      "To: ada@example.com\nSubject: Invitation Bcc: x@y [2J\n" +
        `Idempotency-Key: ${MAIL.idempotencyKey}\n\nLine one\n\nLine two\n`,
    );
    assert.equal(lines.length, 1);
    assert.match(lines[0]!, /^Mail to ada@example\.com: Invitation Bcc: x@y \[2J \(.*\/mail\/.*\.txt\)$/);
    assert.equal((await Deno.stat(`${root}/${name}`)).mode! & 0o777, 0o600, "it may hold a token");
  }));

Deno.test("mail files: the same key is one file, at once, later, and after a restart", () =>
  withMailbox(async (root) => {
    const mailer = await openMailFiles(root, () => {});
    await Promise.all([mailer.send(MAIL), mailer.send(MAIL)]);
    await mailer.send(MAIL);
    await (await openMailFiles(root, () => {})).send(MAIL);
    assert.equal(list(root).length, 1);
    await mailer.send({ ...MAIL, idempotencyKey: "another" });
    assert.equal(list(root).length, 2);
  }));

Deno.test("mail files: a mail that could not be written is written when it is sent again", () =>
  withMailbox(async (root) => {
    const mailer = await openMailFiles(root, () => {});
    await Deno.remove(root);
    await assert.rejects(mailer.send(MAIL), Deno.errors.NotFound);
    await Deno.mkdir(root);
    await mailer.send(MAIL);
    assert.equal(list(root).length, 1);
  }));

Deno.test("mail files: a key that would leave the mailbox is refused", () =>
  withMailbox(async (root) => {
    const mailer = await openMailFiles(root, () => {});
    for (const idempotencyKey of ["../x", "a/b", "", "a\0b", "x".repeat(201)]) {
      await assert.rejects(mailer.send({ ...MAIL, idempotencyKey }), TypeError);
    }
    assert.deepEqual(list(root), []);
  }));

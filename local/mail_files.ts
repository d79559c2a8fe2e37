/** The mail of the local stack: nothing leaves the machine, each mail is a file that people can read. */

import { dirname, join, relative } from "node:path";
import type { Mail, Mailer } from "../supabase/functions/_shared/platform/mod.ts";
import { syncDirectory, writeFileAtomically } from "./files.ts";

const KEY = /^[0-9A-Za-z_.-]{1,200}$/;
const FILE_NAME = /^[0-9TZ.]+-([0-9A-Za-z_.-]+)\.txt$/;

/**
 * Opens the mailbox under `root`, made first if need be: `<time>-<key>.txt` for each mail, and a line to `say`.
 * A mail whose key has a file already is not written again. Errors of `send`: those of the file system.
 */
export async function openMailFiles(root: string, say: (line: string) => void): Promise<Mailer> {
  await Deno.mkdir(root, { recursive: true, mode: 0o700 });
  await syncDirectory(dirname(root));
  const sent = new Map<string, Promise<void>>();
  for await (const { name } of Deno.readDir(root)) {
    const key = FILE_NAME.exec(name)?.[1];
    if (key !== undefined) sent.set(key, Promise.resolve());
  }

  async function write(mail: Mail): Promise<void> {
    // Without `-` and `:`, which other systems do not take in a name.
    const time = new Date().toISOString().replace(/[-:]/g, "");
    const path = join(root, `${time}-${mail.idempotencyKey}.txt`);
    await writeFileAtomically(path, toText(mail));
    say(`Mail to ${oneLine(mail.to)}: ${oneLine(mail.subject)} (${shown(path)})`);
  }

  return {
    async send(mail) {
      const key = mail.idempotencyKey;
      if (!KEY.test(key)) throw new TypeError("Not an idempotency key that can be in a file's name");
      const writing = sent.get(key) ?? write(mail);
      sent.set(key, writing);
      try {
        await writing;
      } catch (error) {
        sent.delete(key);
        throw error;
      }
    },
  };
}

function toText({ to, subject, text, idempotencyKey, headers = {} }: Mail): string {
  const fields = { "To": to, "Subject": subject, ...headers, "Idempotency-Key": idempotencyKey };
  const lines = Object.entries(fields).map(([name, value]) => `${name}: ${oneLine(value)}`);
  return `${lines.join("\n")}\n\n${text}`;
}

/** A path as short as it can be from where the service runs. */
function shown(path: string): string {
  const short = relative(Deno.cwd(), path);
  return short.startsWith("..") ? path : short;
}

/** Neither a header nor a terminal gets a control character. */
function oneLine(text: string): string {
  return text.replace(/\p{Cc}+/gu, " ");
}

/**
 * A dispatch that is killed, at any point, with others beside it: everybody hears once. The provider is a server on
 * this machine that does with idempotency keys what Resend does, and takes no two mails under one.
 */

import assert from "node:assert/strict";
import { openResendMailer } from "../../supabase/functions/_shared/platform/mailer_resend.ts";
import { onOneBackend, type World } from "../support/harness.ts";
import { runJob, withJobs } from "../support/jobs.ts";
import { makeDue } from "../support/mail.ts";
import { accountIdOf, newPerson, type Person } from "../support/people.ts";

const CHILD = new URL("../support/dispatch_child.ts", import.meta.url).pathname;
const PEOPLE = 12;

/** Where it is killed, and at the how manieth time. */
const POINTS: [point: string, nth: number][] = [
  ["before owe_lifecycle_mails", 1],
  ["after owe_lifecycle_mails", 1],
  ["after send", 1],
  ["after send", 7],
  ["before finish_mail", 3],
  ["after finish_mail", 3],
];

onOneBackend((test) => {
  for (const [point, nth] of POINTS) {
    test(`killed ${point}, the ${nth}. time: each newcomer is welcomed once`, async (world) => {
      await using provider = startProvider();
      const people = await Promise.all(Array.from({ length: PEOPLE }, () => newcomer(world)));
      await killOne(world, provider.url, point, nth);

      const service = withJobs(world, { mailer: openResendMailer(provider.settings) });
      await Promise.all([1, 2, 3].map(() => runJob(service, "/lifecycle/dispatch")));
      await makeDue(world);
      await Promise.all([1, 2, 3].map(() => runJob(service, "/lifecycle/dispatch")));
      for (const { email } of people) assert.equal(provider.delivered.get(email), 1, email);
      assert.deepEqual(provider.conflicts, [], "one key never stands for two mails");
    });
  }
});

async function newcomer(world: World): Promise<Person> {
  const person = await newPerson(world);
  await accountIdOf(world, person);
  return person;
}

async function killOne(world: World, mailUrl: string, point: string, nth: number): Promise<void> {
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-check", CHILD, world.databaseUrl, mailUrl, point, String(nth)],
    stdin: "null",
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  const { value } = await child.stdout.pipeThrough(new TextDecoderStream()).getReader().read();
  assert.equal(value, "here\n", "it came to the point");
  child.kill("SIGKILL");
  await child.status;
}

/** Takes mails as Resend does: the same key again delivers nothing more; with another mail it is our mistake. */
function startProvider() {
  const byKey = new Map<string, string>();
  const delivered = new Map<string, number>();
  const conflicts: string[] = [];
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
    const key = request.headers.get("idempotency-key")!;
    const text = await request.text();
    if (byKey.has(key)) {
      if (byKey.get(key) !== text) conflicts.push(key);
    } else {
      byKey.set(key, text);
      const { to: [address] } = JSON.parse(text);
      delivered.set(address, (delivered.get(address) ?? 0) + 1);
    }
    return Response.json({ id: key });
  });
  const url = `http://127.0.0.1:${server.addr.port}`;
  return {
    url,
    delivered,
    conflicts,
    // The sender is the one that the other process has, so that one key stands for one text.
    settings: { apiKey: "re_test_key", apiUrl: url, from: "Agent State <no-reply@localhost>" },
    [Symbol.asyncDispose]: () => server.shutdown(),
  };
}

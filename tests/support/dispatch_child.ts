/**
 * A lifecycle dispatch in a process of its own, so that a test can kill it: `dispatch_child.ts DATABASE_URL MAIL_URL
 * POINT NTH`. At the NTH time that it comes to POINT it says so and goes no further.
 */

import { readSettings } from "../../supabase/functions/_shared/env.ts";
import { openDirectDatabase } from "../../supabase/functions/_shared/platform/database_direct.ts";
import { openResendMailer } from "../../supabase/functions/_shared/platform/mailer_resend.ts";
import type { Database, Platform } from "../../supabase/functions/_shared/platform/mod.ts";
import { dispatchLifecycle } from "../../supabase/functions/v2-agent-state/flows/dispatch_lifecycle.ts";

const [url, mailUrl, point, nth] = Deno.args;
let times = 0;

/** Stays there for ever when it is the place to be killed at. */
async function pass(here: string): Promise<void> {
  if (here !== point || ++times < Number(nth)) return;
  Deno.stdout.writeSync(new TextEncoder().encode("here\n"));
  await new Promise(() => setInterval(() => {}, 1000));
}

const settings = readSettings({
  RESEND_API_KEY: "re_test_key",
  RESEND_API_URL: mailUrl!,
  API_URL: "https://api.example/functions/v1/v2-agent-state",
  UNSUBSCRIBE_SECRET: "a-secret-that-signs-the-tokens-of-mails",
});
const { db } = openDirectDatabase({ url: url!, poolSize: 2, prepared: true, role: "service_role", log() {} });
const mailer = openResendMailer(settings.mail);
const watched: Database = {
  rows: db.rows,
  async call<T>(name: string, args: Parameters<Database["call"]>[1]) {
    await pass(`before ${name}`);
    const answer = await db.call<T>(name, args);
    await pass(`after ${name}`);
    return answer;
  },
};
const platform: Pick<Platform, "db" | "mailer" | "log"> = {
  db: watched,
  mailer: {
    async send(mail) {
      await mailer.send(mail);
      await pass("after send");
    },
  },
  log() {},
};
await dispatchLifecycle(platform as Platform, settings);
Deno.exit(0);

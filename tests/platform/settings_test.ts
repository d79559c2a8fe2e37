/** The configuration: what is wrong is named at the start, and never quoted. */

import assert from "node:assert/strict";
import { RETENTION } from "../../supabase/functions/_shared/domain/retention.ts";
import { readSettings } from "../../supabase/functions/_shared/env.ts";
import { readSources } from "../contract/sources.ts";

Deno.test("settings: what is kept how long is the table's, but for what the operator says", () => {
  const { retention } = readSettings({});
  for (const [name, { days }] of Object.entries(RETENTION)) {
    assert.equal(Reflect.get(retention, name), days, name);
  }
  const other = readSettings({ RETENTION_DAYS: '{"sync_log": 365, "mail_sent": 1}' }).retention;
  assert.deepEqual(other, { ...retention, sync_log: 365, mail_sent: 1 });
});

Deno.test("settings: a retention that is misspelled, too short or no number of days is refused by name", () => {
  const wrong: [string, RegExp][] = [
    ['{"sink_log": 30}', /RETENTION_DAYS.*sink_log: unknown/],
    ['{"__proto__": 30, "toString": 3}', /toString: unknown/],
    ['{"devices": 7}', /devices: at least 31/],
    ['{"usage_cycles": 31}', /usage_cycles: at least 32/],
    ['{"mail_sent": 0}', /mail_sent: at least 1/],
    ['{"mail_sent": 1.5}', /mail_sent/],
    ['{"mail_sent": "30"}', /mail_sent/],
    ["[]", /RETENTION_DAYS/],
    ["secret", /RETENTION_DAYS.*not JSON/],
  ];
  for (const [value, message] of wrong) {
    assert.throws(() => readSettings({ RETENTION_DAYS: value }), (error: Error) => {
      assert.match(error.message, message, value);
      assert.ok(!error.message.includes("secret"));
      return true;
    });
  }
});

Deno.test("settings: the README's table of retention says what the code does", () => {
  const readme = readSources(".", "README.md").find(({ path }) => path === "README.md")!.text;
  for (const [name, { days, what, after }] of Object.entries(RETENTION)) {
    assert.ok(readme.includes(`| \`${name}\` | ${days} | ${what} | ${after} |`), name);
  }
});

Deno.test("settings: a hosted project trusts the header of its own proxy, any other the last of a list", () => {
  const hosted = readSettings({ SUPABASE_URL: "https://abc.supabase.co" });
  assert.deepEqual(hosted.clientAddress, { header: "cf-connecting-ip", proxies: 1 });
  for (const url of [undefined, "https://supabase.example", "https://supabase.co.evil.example"]) {
    const other = readSettings({ SUPABASE_URL: url });
    assert.deepEqual(other.clientAddress, { header: undefined, proxies: 1 });
  }
  const told = readSettings({ CLIENT_ADDRESS_HEADER: "x-real-ip", TRUSTED_PROXIES: "0" });
  assert.deepEqual(told.clientAddress, { header: "x-real-ip", proxies: 0 });
  assert.throws(() => readSettings({ TRUSTED_PROXIES: "-1" }), /TRUSTED_PROXIES/);
});

Deno.test("settings: mails are signed with a secret of their own, or with the project's key; several while it changes", () => {
  const key = { SUPABASE_SERVICE_ROLE_KEY: "the-key-of-the-project" };
  assert.deepEqual(readSettings(key).linkSecrets, ["the-key-of-the-project"]);
  assert.deepEqual(readSettings({}).linkSecrets, []);
  const both = readSettings({ ...key, UNSUBSCRIBE_SECRET: "the-new-secret-of-ours the-old-secret-of-ours" });
  assert.deepEqual(both.linkSecrets, ["the-new-secret-of-ours", "the-old-secret-of-ours"]);
  assert.throws(() => readSettings({ UNSUBSCRIBE_SECRET: "short" }), (error: Error) => {
    return /UNSUBSCRIBE_SECRET/.test(error.message) && !error.message.includes("short:");
  });
});

Deno.test("settings: mail programs unsubscribe at the function's own address", () => {
  const { apiUrl } = readSettings({ SUPABASE_URL: "https://abc.supabase.co" });
  assert.equal(apiUrl, "https://abc.supabase.co/functions/v1/v2-agent-state");
  assert.equal(readSettings({ API_URL: "https://api.example/" }).apiUrl, "https://api.example");
  assert.throws(() => readSettings({ API_URL: "ftp://api.example" }), /API_URL/);
});

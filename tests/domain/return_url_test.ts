/** Where people may be sent after they have paid: every spelling that might lead elsewhere is refused. */

import assert from "node:assert/strict";
import { isReturnUrl } from "../../supabase/functions/v2-agent-state/domain/return_url.ts";

const ORIGINS = ["https://app.example", "https://admin.example:8443"];

const GOOD = [
  "https://app.example",
  "https://app.example/",
  "https://app.example/paid?checkout_id={CHECKOUT_ID}&x=%20#done",
  "https://app.example?next=https://evil.example/@x",
  "https://app.example#x",
  "https://admin.example:8443/x",
];

const HOSTILE = [
  "",
  " ",
  "/paid",
  "//app.example/paid",
  "app.example/paid",
  "http://app.example/",
  "HTTPS://APP.EXAMPLE/",
  "https://App.example/",
  "https:app.example",
  "https:/app.example",
  "https:///app.example",
  "https:\\\\app.example",
  "https://app.example.evil.example/",
  "https://app.example.",
  "https://app.examplee/",
  "https://evil.example/https://app.example/",
  "https://evil.example?https://app.example",
  "https://evil.example#https://app.example",
  "https://evilapp.example/",
  "https://sub.app.example/",
  "https://app.example@evil.example/",
  "https://app.example:443@evil.example/",
  "https://app.example:pass@evil.example/",
  "https://user@app.example/",
  "https://:@app.example/",
  "https://@app.example/",
  "https://app.example:443/",
  "https://app.example:8443/",
  "https://app.example:/",
  "https://app.example:99999/",
  "https://admin.example/",
  "https://admin.example:84430/",
  "https://app.example\\@evil.example/",
  "https://app.example\\.evil.example/",
  "https://app.example/\\evil.example",
  "https://app.example/x\\",
  "https://app.example\t/",
  "https://app.example/\n",
  "https://app.example/\r\nSet-Cookie: x=1",
  "https://app.example/\0",
  "https://app.example/\u007f",
  "https://app.example/\u0085",
  "https://app.example/\u2028",
  "https://app.example/a b",
  "\u0000https://app.example/",
  " https://app.example/",
  "https://app.example/ ",
  "\thttps://app.example/",
  "ht\ntps://app.example/",
  "https://app。example/",
  "https://app.example／x",
  "https://ａpp.example/",
  "https://аpp.example/",
  "https://app%2eexample/",
  "https://app.example%2f@evil.example/",
  "https://app.example%00.evil.example/",
  "https://app.example;evil.example/",
  "https://app.example,evil.example/",
  "https://[::1]/",
  "https://2130706433/",
  "javascript:alert(1)",
  "javascript://app.example/%0aalert(1)",
  "data:text/html,https://app.example/",
  "blob:https://app.example/x",
  "view-source:https://app.example/",
  "ftp://app.example/",
  "wss://app.example/",
  "https://app.example/\ud800",
  "https://*/",
  "https://:*/",
  "https://app.example:*/",
  `https://app.example/${"x".repeat(2_048)}`,
];

Deno.test(`${HOSTILE.length} hostile spellings of a return address are refused, good ones pass`, () => {
  assert.ok(HOSTILE.length >= 60);
  assert.equal(new Set(HOSTILE).size, HOSTILE.length);
  for (const url of GOOD) assert.ok(isReturnUrl(url, ORIGINS), url);
  for (const url of HOSTILE) assert.ok(!isReturnUrl(url, ORIGINS), JSON.stringify(url));
  for (const url of [...GOOD, ...HOSTILE]) assert.ok(!isReturnUrl(url, []), JSON.stringify(url));
});

Deno.test("on this machine any port may be named, and still no other host", () => {
  const local = ["http://localhost:*", "http://127.0.0.1:*"];
  for (
    const url of [
      "http://localhost",
      "http://localhost/x",
      "http://localhost:3000/x",
      "http://127.0.0.1:5173",
    ]
  ) {
    assert.ok(isReturnUrl(url, local), url);
  }
  for (
    const url of [
      "https://localhost/",
      "http://localhost.evil.example/",
      "http://localhost:3000@evil.example/",
      "http://localhost:3000.evil.example/",
      "http://localhost:*/",
      "http://127.0.0.1.evil.example/",
      "http://127.1/",
      "http://2130706433/",
      "http://0.0.0.0/",
      "http://[::1]/",
      "http://localhost\\@evil.example/",
    ]
  ) {
    assert.ok(!isReturnUrl(url, local), url);
  }
});

/** Where a request comes from: what our own proxies say counts, and what the caller says does not. */

import assert from "node:assert/strict";
import fc from "npm:fast-check@4.10.2";
import { readNetwork } from "../../supabase/functions/_shared/domain/client_address.ts";
import { isInternalAddress, networkOf } from "../../supabase/functions/_shared/domain/public_address.ts";

/** Rule, what came, whose network. */
const CASES: [
  what: string,
  rule: [header: string | undefined, proxies: number],
  came: [header: string | undefined, forwardedFor: string | undefined, connection: string | undefined],
  network: string | undefined,
][] = [
  ["one proxy", [undefined, 1], [undefined, "203.0.113.7", "10.0.0.2"], "203.0.113.7"],
  ["a forged entry before it", [undefined, 1], [undefined, "1.1.1.1, 203.0.113.7", undefined], "203.0.113.7"],
  [
    "proxies inside",
    [undefined, 1],
    [undefined, "1.1.1.1,203.0.113.7, 10.0.0.1 ,172.16.3.4", undefined],
    "203.0.113.7",
  ],
  [
    "a proxy outside",
    [undefined, 2],
    [undefined, "1.1.1.1, 203.0.113.7, 198.51.100.1", undefined],
    "203.0.113.7",
  ],
  ["fewer entries than proxies", [undefined, 3], [undefined, "203.0.113.7", undefined], "203.0.113.7"],
  ["everybody inside", [undefined, 1], [undefined, "10.0.0.9, 192.168.1.5", undefined], "192.168.1.5"],
  ["no proxy", [undefined, 0], [undefined, "1.1.1.1", "203.0.113.7"], "203.0.113.7"],
  ["no header", [undefined, 1], [undefined, undefined, "203.0.113.7"], "203.0.113.7"],
  ["a header of its own", ["cf-connecting-ip", 1], ["203.0.113.7", "1.1.1.1", "10.0.0.1"], "203.0.113.7"],
  ["that header is missing", ["cf-connecting-ip", 1], [undefined, "1.1.1.1", undefined], "1.1.1.1"],
  [
    "a port behind it",
    [undefined, 1],
    [undefined, "1.1.1.1:80, 203.0.113.7:4711, 10.0.0.1:80", undefined],
    "203.0.113.7",
  ],
  ["IPv6 with a port", [undefined, 1], [undefined, "[2001:db8:1:2::7]:4711", undefined], "2001:db8:1:2::/64"],
  ["garbage", [undefined, 1], [undefined, "unknown", undefined], undefined],
  ["garbage, but a connection", [undefined, 1], [undefined, "<script>", "203.0.113.7"], "203.0.113.7"],
  ["empty entries", [undefined, 1], [undefined, ", ,", undefined], undefined],
  ["nothing", [undefined, 1], [undefined, undefined, undefined], undefined],
];

for (const [what, [header, proxies], [value, forwardedFor, connection], network] of CASES) {
  Deno.test(`${what}: the caller is ${network ?? "not known"}`, () => {
    assert.equal(readNetwork({ header, proxies }, { header: value, forwardedFor, connection }), network);
  });
}

Deno.test("whatever a caller writes before it, the entry that our proxy added counts", () => {
  fc.assert(
    fc.property(fc.array(fc.oneof(fc.ipV4(), fc.ipV6(), fc.string())), (forged) => {
      const forwardedFor = [...forged, "203.0.113.7"].join(", ");
      const rule = { header: undefined, proxies: 1 };
      const sources = { header: undefined, forwardedFor, connection: undefined };
      assert.equal(readNetwork(rule, sources), "203.0.113.7");
    }),
  );
});

Deno.test("an IPv6 caller is their first 64 bits, an IPv4 caller the address, however either is spelled", () => {
  assert.equal(networkOf("2001:db8:1:2:3:4:5:6"), networkOf("2001:db8:1:2::1"));
  assert.notEqual(networkOf("2001:db8:1:2::1"), networkOf("2001:db8:1:3::1"));
  assert.equal(networkOf("::ffff:203.0.113.7"), "203.0.113.7");
  assert.equal(networkOf("::1"), "0:0:0:0::/64");
  for (const none of ["", "1.2.3", "01.2.3.4", "1.2.3.4:80", "::1%eth0", "host", ":::"]) {
    assert.equal(networkOf(none), undefined, none);
  }
});

Deno.test("internal is what lies behind a proxy of one's own, and nothing else", () => {
  for (
    const address of [
      "10.1.2.3",
      "172.31.0.1",
      "192.168.0.1",
      "127.0.0.1",
      "100.64.0.1",
      "::1",
      "fd00::1",
      "fe80::1",
    ]
  ) {
    assert.ok(isInternalAddress(address), address);
  }
  for (const address of ["172.32.0.1", "100.128.0.1", "8.8.8.8", "2001:db8::1", "2600::1", "", "localhost"]) {
    assert.ok(!isInternalAddress(address), address);
  }
  assert.ok(isInternalAddress("::ffff:10.0.0.1"));
});

/** Every spelling of an address that is not public is refused, and every public one is let through. */

import assert from "node:assert/strict";
import { openClaim } from "../support/claims.ts";
import { findUrlFault, isPublicAddress } from "../../supabase/functions/_shared/domain/public_address.ts";

const held = openClaim("No webhook goes to an address that is not public, however it is spelled");

/** Ways to spell an IPv4 address as a host: dotted, decimal, hexadecimal, octal, short, and with odd characters. */
function spellings(address: string): string[] {
  const bytes = address.split(".").map(Number);
  const number = bytes.reduce((sum, byte) => sum * 256 + byte, 0);
  const hex = bytes.map((byte) => byte.toString(16).padStart(2, "0"));
  return [
    address,
    `${address}.`,
    String(number),
    `0x${number.toString(16)}`,
    `0${number.toString(8)}`,
    bytes.map((byte) => `0x${byte.toString(16)}`).join("."),
    bytes.map((byte) => `0${byte.toString(8)}`).join("."),
    `${bytes[0]}.${(bytes[1]! * 256 + bytes[2]!) * 256 + bytes[3]!}`,
    `${bytes[0]}.${bytes[1]}.${bytes[2]! * 256 + bytes[3]!}`,
    address.replaceAll(".", "%2e"),
    address.replaceAll(".", "\u3002"),
    Array.from(address, (each) => /[0-9]/.test(each) ? String.fromCharCode(0xff10 + Number(each)) : each)
      .join(""),
    `[::ffff:${address}]`,
    `[::ffff:${hex[0]}${hex[1]}:${hex[2]}${hex[3]}]`,
    `[::${address}]`,
    `[64:ff9b::${address}]`,
    `[2002:${hex[0]}${hex[1]}:${hex[2]}${hex[3]}::]`,
  ];
}

const HOSTILE_HOSTS = [
  ...["127.0.0.1", "10.0.0.1", "169.254.169.254", "192.168.1.1", "172.16.0.1", "100.100.100.200", "8.8.8.8"]
    .flatMap(spellings),
  ...["[::1]", "[::]", "[0:0:0:0:0:0:0:1]", "[fe80::1]", "[fd00:ec2::254]", "[2606:4700:4700::1111]"],
  ...["127.0x1", "0", "0x", "0x0", "1.2.3", "00000000177.1", "①②⑦.0.0.1", "127｡0｡0｡1", "a.1", "a.0x7f"],
  ...[
    "localhost",
    "localhost.",
    "LOCALHOST",
    "lｏcalhost",
    "a.localhost",
    "localhost.localdomain",
    "%6cocalhost",
  ],
  ...[
    "printer.local",
    "printer.local.",
    "metadata.google.internal",
    "metadata.google.internal.",
    "db.internal",
  ],
  ...[
    "router.lan",
    "nas.home",
    "nas.home.arpa",
    "mail.corp",
    "wiki.intranet",
    "x.private",
    "hidden.onion",
    "db.default.svc",
  ],
  ...[
    "hooks.test",
    "hooks.example",
    "hooks.invalid",
    "1.0.0.127.in-addr.arpa",
    "metadata",
    "kubernetes",
    "x",
  ],
  ...["-a.com", "a-.com", "a..com", ".com", `${"a".repeat(64)}.com`, `${"a.".repeat(130)}com`],
];

const HOSTILE_URLS = [
  ...[
    "http://hooks.com/",
    "ftp://hooks.com/",
    "file:///etc/passwd",
    "gopher://hooks.com/",
    "data:text/plain,x",
  ],
  ...[
    "javascript:alert(1)",
    "ws://hooks.com/",
    "wss://hooks.com/",
    "blob:https://hooks.com/x",
    "about:blank",
  ],
  ...[
    "https://user@hooks.com/",
    "https://user:pass@hooks.com/",
    "https://:pass@hooks.com/",
    "https://@hooks.com/",
  ],
  ...["https://hooks.com@127.0.0.1/", "https://127.0.0.1#@hooks.com/", "https://hooks.com%40127.0.0.1/"],
  ...["https://hooks.com:22/", "https://hooks.com:80/", "https://hooks.com:6379/", "https://hooks.com:5432/"],
  ...["https://hooks.com:0/", "https://hooks.com:99999/", "https://hooks.com:8080/", "https://hooks.com:-1/"],
  ...[
    "https:\\\\hooks.com\\",
    "https://hooks.com\\@127.0.0.1/",
    " https://hooks.com/",
    "https://hooks.com/ ",
  ],
  ...[
    "https://hooks.com/\n",
    "https://hoo\tks.com/",
    "https://hooks.com/\0",
    "ht\ntps://hooks.com/",
    "https://h​.com/",
  ],
  ...[
    "",
    "hooks.com",
    "//hooks.com/",
    "https://",
    "https:///",
    "https:",
    "https://[",
    "https://[::1",
    "://",
    "*",
  ],
  ...[
    "https://127.0.0.1:443",
    "https:127.0.0.1",
    "https:/127.0.0.1/",
    "https:////127.0.0.1/",
    "HTTPS://127.0.0.1",
  ],
  `https://hooks.com/${"a".repeat(2_048)}`,
];

const REFUSED_ADDRESSES = [
  ...["0.0.0.0", "0.255.255.255", "10.0.0.0", "10.255.255.255", "100.64.0.0", "100.127.255.255", "127.0.0.1"],
  ...["127.255.255.255", "168.63.129.16", "169.254.169.254", "172.16.0.0", "172.31.255.255", "192.0.0.192"],
  ...["192.0.2.1", "192.31.196.1", "192.52.193.1", "192.88.99.1", "192.168.0.0", "192.168.255.255"],
  ...["192.175.48.1", "198.18.0.0", "198.19.255.255", "198.51.100.1", "203.0.113.255", "224.0.0.1"],
  ...["239.255.255.255", "240.0.0.0", "255.255.255.255"],
  ...[
    "::",
    "::1",
    "::ffff:8.8.8.8",
    "::ffff:127.0.0.1",
    "::ffff:a9fe:a9fe",
    "::127.0.0.1",
    "64:ff9b::8.8.8.8",
  ],
  ...["64:ff9b:1::1", "100::1", "2001::1", "2001:2::1", "2001:10::1", "2001:20::1", "2001:1ff:ffff::1"],
  ...["2001:db8::1", "2002:7f00:1::", "2620:4f:8000::1", "3fff::1", "3fff:fff::1", "4000::1", "5f00::1"],
  ...["fc00::1", "fd00:ec2::254", "fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1", "1fff::1"],
  ...["", "x", "1.2.3", "1.2.3.4.5", "1.2.3.256", "01.2.3.4", "1.2.3.4.", "2606::1::2", "2606:4700", ":::"],
  ...[
    "2606:4700:4700:0:0:0:0:0:1111",
    "2606:4700:4700::g",
    "2606:4700:4700::11111",
    "2606::1.2.3",
    "[2606::1]",
  ],
  ...["2606:4700:4700::1111%1", " 8.8.8.8", "8.8.8.8\n", "1:2:3:4:5:6:7::8", "2606:4700:4700::1111/64"],
];

const PUBLIC_ADDRESSES = [
  ...["1.0.0.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255"],
  ...["128.0.0.1", "168.63.129.17", "169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0"],
  ...["191.255.255.255", "192.0.1.1", "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0"],
  ...["223.255.255.255", "2606:4700:4700::1111", "2001:200::1", "2001:4860:4860::8888", "2003::1", "2A00::1"],
  ...["2000::", "3ffe::1", "2606:4700:4700:0:0:0:0:1111", "2606:4700::1.2.3.4"],
];

Deno.test("there are more than 120 hostile spellings, and none is written twice", () => {
  const all = [...HOSTILE_HOSTS, ...HOSTILE_URLS];
  assert.equal(new Set(all).size, all.length);
  assert.ok(all.length >= 120, String(all.length));
  held(all.length);
});

for (const host of HOSTILE_HOSTS) {
  Deno.test(`a webhook cannot go to the host ${JSON.stringify(host.slice(0, 60))}`, () => {
    assert.notEqual(findUrlFault(`https://${host}/hook`, false), undefined);
  });
}

for (const url of HOSTILE_URLS) {
  Deno.test(`a webhook cannot go to ${JSON.stringify(url.slice(0, 60))}`, () => {
    assert.notEqual(findUrlFault(url, false), undefined);
  });
}

Deno.test("a URL is refused for what is wrong with it", () => {
  const reasons: [string, string][] = [
    ["hooks.com", "not_a_url"],
    ["http://hooks.com/", "not_https"],
    ["https://me@hooks.com/", "has_credentials"],
    ["https://hooks.com:22/", "port_not_allowed"],
    ["https://0x7f.1/", "ip_address"],
    ["https://8.8.8.8/", "ip_address"],
    ["https://[2606:4700:4700::1111]/", "ip_address"],
    ["https://localhost/", "host_not_public"],
  ];
  for (const [url, reason] of reasons) assert.equal(findUrlFault(url, false), reason, url);
});

Deno.test("names of the public DNS are let through, their addresses being checked elsewhere", () => {
  for (
    const url of [
      ...[
        "https://hooks.com",
        "https://hooks.com/a?b=c#d",
        "https://hooks.com:443/",
        "https://hooks.com:8443/x",
      ],
      ...["https://a_b.hooks.co.uk/", "https://bücher.de/", "HTTPS://HOOKS.COM/", "https://hooks.com./"],
      ...[
        "https://localhost.com/",
        "https://x.notlocal/",
        "https://1.2.3.4.nip.io/",
      ],
      ...["https://hooks.com/@me", "https://hooks.com/?to=me@hooks.com", "https://xn--bcher-kva.de/"],
    ]
  ) assert.equal(findUrlFault(url, false), undefined, url);
});

Deno.test("in development any http or https URL without credentials will do", () => {
  for (
    const url of ["http://127.0.0.1:8000/", "http://localhost:1/", "https://10.0.0.1/", "http://[::1]:9/x"]
  ) {
    assert.equal(findUrlFault(url, true), undefined, url);
  }
  for (const url of ["ftp://localhost/", "http://me@localhost/", "localhost:80", "file:///etc/passwd"]) {
    assert.notEqual(findUrlFault(url, true), undefined, url);
  }
});

for (const address of REFUSED_ADDRESSES) {
  Deno.test(`${JSON.stringify(address)} is not a public address`, () => {
    assert.equal(isPublicAddress(address), false);
  });
}

for (const address of PUBLIC_ADDRESSES) {
  Deno.test(`${address} is a public address`, () => assert.equal(isPublicAddress(address), true));
}

/** The worked example of docs/vault.md: the client's cryptography, the fast clock, and the whole story over HTTP. */

import assert from "node:assert/strict";
import { openVaultClock } from "../../local/vault_clock.ts";
import {
  combineShares,
  newKeyPair,
  newVaultKey,
  openAsset,
  sealAsset,
  splitKey,
  wrapFor,
} from "../../local/vault_crypto.ts";
import { runCommand, startService, withDataDir } from "../support/service.ts";

const TEXT = new TextEncoder().encode("The house is for Ben.");

for (const [preset, shares, threshold] of [["standard", 3, 2], ["enhanced", 5, 3]] as const) {
  Deno.test(`${preset}: any ${threshold} of ${shares} shares open an asset, and no fewer do`, async () => {
    const key = newVaultKey();
    const sealed = await sealAsset(key, TEXT);
    const people = await Promise.all(Array.from({ length: shares }, newKeyPair));
    const parts = await splitKey(key, shares, threshold);
    const wrapped = await Promise.all(parts.map((part, i) => wrapFor(people[i]!.pem, part)));
    for (const some of subsets(shares)) {
      if (some.length < 2) continue;
      const unwrapped = await Promise.all(some.map((i) => people[i]!.unwrap(wrapped[i]!)));
      const opening = openAsset(await combineShares(unwrapped), sealed);
      if (some.length >= threshold) assert.deepEqual(await opening, TEXT, some.join());
      else await assert.rejects(opening, Error, some.join());
    }
    await assert.rejects(people[0]!.unwrap(wrapped[1]!), "a share is for one person alone");
  });
}

Deno.test("an asset of which one bit has changed is not opened", async () => {
  const key = newVaultKey();
  const sealed = await sealAsset(key, TEXT);
  for (const field of ["ciphertext_b64", "wrapped_key"] as const) {
    const bytes = Uint8Array.fromBase64(sealed[field]);
    bytes[bytes.length - 1]! ^= 1;
    await assert.rejects(openAsset(key, { ...sealed, [field]: bytes.toBase64() }));
  }
});

Deno.test("the vault's clock runs as fast as it is told, from where it began, and never at another speed", async () => {
  await withDataDir(async (dataDir) => {
    const real = await openVaultClock(dataDir, undefined, true);
    assert.ok(Math.abs(real().getTime() - Date.now()) < 1_000);
    const fast = await openVaultClock(dataDir, "1000000", false);
    const [before, at] = [fast().getTime(), performance.now()];
    while (performance.now() - at < 20);
    const passed = fast().getTime() - before;
    assert.ok(passed >= 19_000_000 && passed < 1e9, `${passed} ms`);
    const again = await openVaultClock(dataDir, "1000000", false);
    assert.ok(again().getTime() >= before + passed, "it goes on after a restart");
    for (const speed of [undefined, "", "1", "2"]) {
      await assert.rejects(openVaultClock(dataDir, speed, false), /runs 1000000 times as fast/);
    }
    for (const speed of ["0", "-1", "1.5", "fast", "1000001"]) {
      await assert.rejects(openVaultClock(dataDir, speed, false), /not a whole number/);
    }
    await assert.rejects(openVaultClock(dataDir, "1000000", true), /on this machine/);
  });
});

Deno.test("a stack that others reach does not start with a fast clock", async () => {
  await withDataDir(async (dataDir) => {
    const env = { VAULT_CLOCK_SPEED: "60", PUBLIC_URL: "https://state.example" };
    const service = startService(dataDir, env);
    assert.equal(await service.exit, 1);
    assert.match(
      service.output(),
      /Cannot start\. VAULT_CLOCK_SPEED is for trying things out on this machine/,
    );
  });
});

Deno.test("task demo:vault: an heir decrypts what was left to them after a missed check-in", async () => {
  await withDataDir(async (dataDir) => {
    const { code, output } = await runCommand("demo_vault", [], dataDir);
    assert.equal(code, 0, output);
    assert.match(output, /vault {5}is releasing[^]*vault {5}is released[^]*"The house is for Ben\./);
    assert.match(output, /Verdict: released after a missed check-in, opened by its heir/);
  });
});

/** Every set of indexes below `count`. */
function subsets(count: number): number[][] {
  return Array.from(
    { length: 2 ** count },
    (_, bits) => Array.from({ length: count }, (_, i) => i).filter((i) => bits >> i & 1),
  );
}

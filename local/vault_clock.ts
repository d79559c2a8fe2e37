/** A clock for the vault that runs fast, so that years can be watched in minutes. Of this machine's stack alone. */

import { join } from "node:path";
import { createFileAtomically, readTextIfExists } from "./files.ts";

const SPEED_MAX = 1_000_000;

/** The clock cannot be had as it was asked for. The message says why, for people. */
export class ClockRefused extends Error {}

/**
 * Opens the vault's clock of a data directory. `speed` is `VAULT_CLOCK_SPEED`: how many times as fast as the real one
 * it runs, counted from its first start; empty or absent is the real clock. What was begun at one speed is never
 * continued at another: time would jump. `reachable` says that others than this machine can get at the stack; they
 * get the real clock or none.
 */
export async function openVaultClock(
  dataDir: string,
  speed: string | undefined,
  reachable: boolean,
): Promise<() => Date> {
  const path = join(dataDir, "vault_clock");
  const times = readSpeed(speed);
  if (times !== 1 && reachable) {
    throw new ClockRefused(
      "VAULT_CLOCK_SPEED is for trying things out on this machine: not with HOST or PUBLIC_URL.",
    );
  }
  if (times !== 1) await createFileAtomically(path, JSON.stringify({ speed: times, startedAt: Date.now() }));
  const kept = await readTextIfExists(path);
  if (kept === undefined) return () => new Date();
  const { speed: began, startedAt } = JSON.parse(kept) as { speed: number; startedAt: number };
  if (began !== times) {
    throw new ClockRefused(
      `The vault's clock of ${dataDir} runs ${began} times as fast. ` +
        `Set VAULT_CLOCK_SPEED=${began}, or use another DATA_DIR.`,
    );
  }
  return () => new Date(startedAt + (Date.now() - startedAt) * began);
}

function readSpeed(speed: string | undefined): number {
  if (!speed) return 1;
  const times = Number(speed);
  if (!/^[0-9]{1,7}$/.test(speed) || times < 1 || times > SPEED_MAX) {
    throw new ClockRefused(`VAULT_CLOCK_SPEED is not a whole number from 1 to ${SPEED_MAX}: ${speed}`);
  }
  return times;
}

/** `snapshot FILE` and `restore`: one file as a checkpoint. */

import { readFile } from "node:fs/promises";
import { basename } from "node:path";
import { decodeBase64, encodeBase64 } from "../bytes.ts";
import { readWhole, writeWhole } from "./folder.ts";
import { type Home, UsageError, withSnapshots } from "./home.ts";

/** Stores a file as the next snapshot of an agent. */
export async function snapshotFile(home: Home, agent: string, file: string) {
  const payload = { name: basename(file), base64: encodeBase64(await readWhole(file)) };
  const receipt = await withSnapshots(home, agent, (client) => client.snapshot({ key: home.key, payload }));
  return { agent, name: payload.name, ...receipt };
}

/** Writes the file of a snapshot, of the latest one unless `sequence` says which. */
export async function restoreFile(
  home: Home,
  agent: string,
  options: { sequence?: number | undefined; output?: string | undefined; force?: boolean | undefined },
) {
  const { key } = home;
  const { payload, receipt } = await withSnapshots(
    home,
    agent,
    (client) =>
      options.sequence === undefined
        ? client.restore({ key })
        : client.restoreAt({ sequence: options.sequence, key }),
  );
  const { name, base64 } = (payload ?? {}) as { name?: unknown; base64?: unknown };
  if (typeof name !== "string" || typeof base64 !== "string") {
    throw new UsageError(`Snapshot ${receipt.sequence_number} of ${agent} is not a file's`);
  }
  const bytes = decodeBase64(base64);
  const target = options.output ?? basename(name);
  const present = await readFile(target).catch(() => undefined);
  if (present !== undefined && !options.force && !present.equals(bytes)) {
    throw new UsageError(`${target} exists with other bytes. Name another with --output, or say --force.`);
  }
  await writeWhole(target, bytes);
  return { agent, file: target, bytes: bytes.length, ...receipt };
}

/** Breaks things in a laboratory, one after another, until it is told to stop. */

import type { Chance } from "./chance.ts";
import type { Lab } from "./lab.ts";
import type { StorageFailure } from "./storage_server.ts";
import type { Moment } from "./wire_proxy.ts";

const MOMENTS: Moment[] = ["unsent", "uncommitted", "unanswered", "half answered"];
const FAILURES: StorageFailure[] = [
  { kind: "status", status: 500 },
  { kind: "cut" },
  { kind: "cut after" },
  { kind: "status after", status: 503 },
  { kind: "truncate" },
  { kind: "lie" },
];
const PAUSE_MS = 80;

/** What it did. */
export interface Nemesis {
  /** How often each kind of fault was made. */
  readonly done: Record<string, number>;
  /** Ends the faults; resolves when everything is whole again. */
  stop(): Promise<void>;
}

/** How a nemesis goes about it. */
export interface Temper {
  /** Whether the process of the service is killed, too. */
  kills: boolean;
  /** About how long it waits between two faults. */
  pauseMs: number;
  /** Faults of a test's own, by their names. */
  more?: Record<string, () => Promise<void> | void>;
}

/** Starts breaking. */
export function unleash(
  lab: Lab,
  chance: Chance,
  temper: Temper = { kills: true, pauseMs: PAUSE_MS },
): Nemesis {
  const done: Record<string, number> = {};
  let stopped = false;

  const faults: Record<string, () => Promise<void> | void> = {
    async "a call of the database is cut"() {
      const fault = lab.wire.inject({ moment: chance.pick(MOMENTS), times: 1 + chance.below(4) });
      await pause();
      fault.lift();
    },
    "every connection to the database is cut"() {
      lab.wire.cutAll();
    },
    async "the database refuses connections"() {
      lab.wire.refusing = true;
      lab.wire.cutAll();
      await pause();
      lab.wire.refusing = false;
    },
    async "the database answers nothing"() {
      const fault = lab.wire.inject({ moment: "stalled" });
      await pause();
      fault.lift();
    },
    async "a process of the database is ended"() {
      await lab.world.sql.query(
        `select pg_terminate_backend(pid) from pg_stat_activity
          where datname = current_database() and application_name = 'v2-agent-state' and pid <> pg_backend_pid()
          order by random() limit 2`,
      );
    },
    async "storage fails"() {
      const request = chance.pick(["upload", "info"] as const);
      const fault = lab.storage.inject({
        request,
        failure: chance.pick(FAILURES),
        times: 1 + chance.below(3),
      });
      await pause();
      fault.lift();
    },
    ...temper.more,
    ...(temper.kills ? { "the service is killed": () => lab.restart() } : {}),
  };

  function pause(ms = PAUSE_MS): Promise<void> {
    return new Promise((resolve) => setTimeout(resolve, ms * (0.5 + chance.below(100) / 50)));
  }

  async function rage(): Promise<void> {
    const names = Object.keys(faults);
    while (!stopped) {
      await pause(temper.pauseMs);
      if (stopped) break;
      const name = chance.pick(names);
      await faults[name]!();
      done[name] = (done[name] ?? 0) + 1;
    }
  }

  const raging = rage();
  return {
    done,
    async stop() {
      stopped = true;
      await raging;
    },
  };
}

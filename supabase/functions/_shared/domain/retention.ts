/** How long things are kept that nobody needs any more: the one table, and what the operator may say instead. */

/** A kind of row that the purge removes. */
interface Retention {
  /** Days after the moment that `after` names, unless the operator says otherwise. */
  days: number;
  /** Fewer days would take what the service itself still reads. */
  atLeast: number;
  what: string;
  after: string;
}

/** Everything that is ever purged. What is not here is kept for as long as its account. */
export const RETENTION = {
  failed_uploads: {
    days: 1,
    atLeast: 1,
    what: "Uploads of snapshots that failed, with the objects that they may have left",
    after: "their lease",
  },
  failed_snapshots: {
    days: 30,
    atLeast: 1,
    what: "Snapshots that were never confirmed",
    after: "they began",
  },
  invitations: { days: 30, atLeast: 1, what: "Invitations that nobody accepted", after: "they expired" },
  mail_sent: { days: 30, atLeast: 1, what: "Mails that were sent", after: "they were sent" },
  mail_given_up: { days: 90, atLeast: 1, what: "Mails that could not be sent", after: "they were given up" },
  webhook_deliveries: {
    days: 30,
    atLeast: 1,
    what: "Deliveries of webhooks that have come to an end (a busy webhook's after 30 at the most)",
    after: "their event",
  },
  deleted_webhooks: {
    days: 1,
    atLeast: 1,
    what: "Webhooks that were deleted, once they have no deliveries left",
    after: "their deletion",
  },
  sync_log: { days: 90, atLeast: 1, what: "Entries of teams' sync logs", after: "they were written" },
  usage_cycles: {
    days: 400,
    atLeast: 32,
    what: "Usage of closed billing cycles; what it adds up to is kept",
    after: "the cycle began",
  },
  devices: { days: 90, atLeast: 31, what: "Devices that do not sync any more", after: "they were last seen" },
  rate_limits: { days: 1, atLeast: 1, what: "Counters of rate limits", after: "their window began" },
  marketing_unconfirmed: {
    days: 7,
    atLeast: 1,
    what: "Addresses that were never confirmed",
    after: "they were captured",
  },
} as const satisfies Record<string, Retention>;

/** The name of something that is purged. */
export type Purgeable = keyof typeof RETENTION;

/** Days that each is kept. */
export type RetentionDays = Readonly<Record<Purgeable, number>>;

/** The table, with what the operator says instead. */
export function retentionDays(instead: Readonly<Record<string, number>>): RetentionDays {
  const names = Object.keys(RETENTION) as Purgeable[];
  return Object.fromEntries(
    names.map((name) => [name, instead[name] ?? RETENTION[name].days]),
  ) as RetentionDays;
}

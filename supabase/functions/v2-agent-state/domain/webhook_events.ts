/** The events that webhooks can listen to. Names are for ever; docs/webhooks.md shows what each carries. */

/** Every event, in the order of the documentation. `webhook.test` reaches every webhook that is tested. */
export const WEBHOOK_EVENTS = [
  "snapshot.confirmed",
  "replication.appended",
  "memory.written",
  "api_key.created",
  "api_key.revoked",
  "team.created",
  "member.added",
  "member.removed",
  "team.rotated",
  "invitation.created",
  "invitation.accepted",
  "subscription.updated",
  "credits.low",
  "webhook.test",
] as const;

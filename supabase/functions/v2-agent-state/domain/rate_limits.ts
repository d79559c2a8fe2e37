/** How often somebody may do what is worth guessing or flooding. People and their tools never come near these. */

const HOUR = 3_600;
const DAY = 86_400;

/** By person, or by network for those who are not signed in, unless the name says otherwise. */
export const RATE_LIMITS = {
  invitation_accept: { name: "invitation", max: 30, windowSeconds: HOUR },
  key_creation: { name: "key creation", max: 300, windowSeconds: HOUR },
  webhook_test: { name: "webhook test", max: 60, windowSeconds: HOUR },
  capture_by_network: { name: "marketing capture", max: 30, windowSeconds: HOUR },
  capture_by_address: { name: "marketing address", max: 3, windowSeconds: DAY },
} as const;

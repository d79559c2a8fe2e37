/**
 * What middleware means for an operation: which credential it asks for, and how it refuses. Spec section 5. Each is
 * known by its function's name, and so is a handler that looks at a credential itself.
 */

import type { ErrorCode } from "../errors.ts";

/** Credentials as OpenAPI describes them. */
export const SCHEMES = {
  apiKey: {
    type: "http",
    scheme: "bearer",
    description:
      "`sov_live_…`, a paid key of an account or a team, or `sov_proj_` and any lower-case UUID v4: " +
      "free, without registration.",
  },
  session: {
    type: "http",
    scheme: "bearer",
    bearerFormat: "JWT",
    description: "A session JWT of the identity provider. API keys are refused: `session_jwt_required`.",
  },
  scimToken: {
    type: "http",
    scheme: "bearer",
    description: "`scim_…`, a token of a team's directory, which an admin of the team makes.",
  },
  vaultKey: {
    type: "apiKey",
    in: "header",
    name: "x-api-key",
    description: "A person's own `sov_live_` key; where it says so, one of scope `vault:check_in`.",
  },
  cronSecret: {
    type: "http",
    scheme: "bearer",
    description: "The secret of the scheduled jobs, `CRON_SECRET` of the deployment.",
  },
  webhookSignature: {
    type: "apiKey",
    in: "header",
    name: "webhook-signature",
    description: "HMAC of `webhook-id`, `webhook-timestamp` and the body, as Standard Webhooks say.",
  },
} as const satisfies Record<string, Record<string, string>>;

/** One class of callers. */
export interface CredentialClass {
  /** Any of these lets in. */
  schemes: readonly (keyof typeof SCHEMES)[];
  /** Whether callers without one are let in as well. */
  optional?: true;
  errors: readonly ErrorCode[];
}

const SESSION: CredentialClass = {
  schemes: ["session"],
  errors: ["missing_or_invalid_bearer_token", "session_jwt_required", "invalid_session"],
};

const OWNER: CredentialClass = {
  schemes: ["vaultKey", "session"],
  errors: [
    "missing_or_invalid_api_key",
    "invalid_api_key",
    "api_key_revoked",
    "owner_not_found",
    "user_key_required",
    "forbidden_scope",
    "invalid_session",
  ],
};

export const CREDENTIALS: Record<string, CredentialClass> = {
  requireApiKey: {
    schemes: ["apiKey"],
    errors: [
      "missing_or_invalid_bearer_token",
      "invalid_api_key",
      "api_key_revoked",
      "owner_not_found",
      "forbidden_scope",
    ],
  },
  requireSession: SESSION,
  acceptSession: { ...SESSION, optional: true },
  requireScimToken: {
    schemes: ["scimToken"],
    errors: ["missing_or_invalid_bearer_token", "invalid_scim_token", "scim_token_revoked"],
  },
  requireOwner: OWNER,
  // A key of any scope may come this far; for what more it has to be is the operation's to say.
  requireLivingOwner: { ...OWNER, errors: OWNER.errors.filter((code) => code !== "forbidden_scope") },
  requireCronSecret: { schemes: ["cronSecret"], errors: ["invalid_cron_secret", "cron_not_configured"] },
  receiveBillingEvent: {
    schemes: ["webhookSignature"],
    errors: ["invalid_webhook_signature", "billing_not_configured"],
  },
};

/** How middleware that stands in front of every route may refuse. */
export const FRAME_ERRORS: Record<string, readonly ErrorCode[]> = {};

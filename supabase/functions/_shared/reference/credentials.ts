/** What whoever checks a credential means for an operation: its security scheme, and how it refuses. Spec section 5. */

import type { ErrorCode } from "../errors.ts";

/** One class of credential. */
export interface CredentialClass {
  /** Name of its security scheme. */
  scheme: string;
  /** As OpenAPI describes it. */
  definition: Record<string, string>;
  /** Whether callers without one are let in as well. */
  optional?: true;
  errors: readonly ErrorCode[];
}

const SESSION = {
  scheme: "session",
  definition: {
    type: "http",
    scheme: "bearer",
    bearerFormat: "JWT",
    description: "A session JWT of the identity provider. API keys are refused: `session_jwt_required`.",
  },
  errors: ["missing_or_invalid_bearer_token", "session_jwt_required", "invalid_session"],
} as const satisfies CredentialClass;

/** By the name of the middleware, or of a handler that looks for itself. */
export const CREDENTIALS: Record<string, CredentialClass> = {
  requireApiKey: {
    scheme: "apiKey",
    definition: {
      type: "http",
      scheme: "bearer",
      description:
        "`sov_live_…`, a paid key of an account or a team, or `sov_proj_` and any lower-case UUID v4: " +
        "free, without registration.",
    },
    errors: ["missing_or_invalid_bearer_token", "invalid_api_key", "api_key_revoked", "owner_not_found"],
  },
  requireSession: SESSION,
  acceptSession: { ...SESSION, optional: true },
  requireScimToken: {
    scheme: "scimToken",
    definition: {
      type: "http",
      scheme: "bearer",
      description: "`scim_…`, a token of a team's directory, which an admin of the team makes.",
    },
    errors: ["missing_or_invalid_bearer_token", "invalid_scim_token", "scim_token_revoked"],
  },
  requireCronSecret: {
    scheme: "cronSecret",
    definition: {
      type: "http",
      scheme: "bearer",
      description: "The secret of the scheduled jobs, `CRON_SECRET` of the deployment.",
    },
    errors: ["invalid_cron_secret", "cron_not_configured"],
  },
  receiveBillingEvent: {
    scheme: "webhookSignature",
    definition: {
      type: "apiKey",
      in: "header",
      name: "webhook-signature",
      description: "HMAC of `webhook-id`, `webhook-timestamp` and the body, as Standard Webhooks say.",
    },
    errors: ["invalid_webhook_signature", "billing_not_configured"],
  },
};

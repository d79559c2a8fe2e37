/**
 * Accounts, billing, webhooks and whatever joins in the crash matrix: whatever breaks, what was acknowledged is kept, what was
 * not is whole or not there, money is right, and the same request again works.
 */

import { defineCrashMatrix } from "../support/crash_matrix.ts";

defineCrashMatrix(
  /^(?!POST \/(snapshot|replicate)$)(?!.*\/(teams|invitations|sso|scim|retention|lifecycle))/,
);

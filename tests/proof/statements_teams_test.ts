/** Teams and directories, ended between any two of their writes: no half is left. */

import { defineStatementMatrix } from "../support/statement_matrix.ts";

defineStatementMatrix(/\/(teams|invitations|sso|scim)\b/);

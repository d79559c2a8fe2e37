/** What the vault and its people do, ended between any two of their writes: no half is left. */

import { defineStatementMatrix } from "../support/statement_matrix.ts";

defineStatementMatrix(/./, "vault");

/** Assets, releases and claims, ended between any two of their writes: no half is left. */

import { defineStatementMatrix } from "../support/statement_matrix.ts";

defineStatementMatrix(/^(?!.*(?:\/vault$|\/(?:heir|guardian|invitation)\b))/, "vault");

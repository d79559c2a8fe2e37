/**
 * Assets, releases and claims in the crash matrix: whatever breaks, what was acknowledged is kept, what was not is whole or not
 * there, and the same request again works.
 */

import { defineCrashMatrix } from "../support/crash_matrix.ts";

defineCrashMatrix(/^(?!.*(?:\/vault$|\/(?:heir|guardian|invitation)\b))/, "vault");

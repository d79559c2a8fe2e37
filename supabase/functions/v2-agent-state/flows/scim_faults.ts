/** Lets rules about SCIM say what is wrong, and makes refusals of it. */

import { ApiError } from "../../_shared/errors.ts";
import { ScimFault } from "../domain/scim_fault.ts";

/** Runs a rule. Errors: the code of the fault that it finds, with a sentence as `detail`. */
export function refuseFaults<T>(rule: () => T): T {
  try {
    return rule();
  } catch (error) {
    if (error instanceof ScimFault) throw new ApiError(error.code, { detail: error.message });
    throw error;
  }
}

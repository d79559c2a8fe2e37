/** What is wrong with a SCIM request: the one error that the rules about SCIM throw. RFC 7644, table 9. */

/** The catalogue's codes for SCIM requests that cannot be carried out as they are. */
export type ScimFaultCode =
  | "invalid_scim_filter"
  | "invalid_scim_path"
  | "invalid_scim_syntax"
  | "invalid_scim_value"
  | "scim_mutability"
  | "scim_no_target";

/** A fault, with a sentence for the administrator who reads the directory's log. */
export class ScimFault extends Error {
  readonly code: ScimFaultCode;

  constructor(code: ScimFaultCode, message: string) {
    super(message);
    this.name = "ScimFault";
    this.code = code;
  }
}

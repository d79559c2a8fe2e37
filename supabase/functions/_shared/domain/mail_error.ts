/** Why a mail was not taken: the one error that mailers throw and that the delivery of mail understands. */

/**
 * A mail that was not taken. `code` is short, in lower case, and never quotes an address or the mail.
 * `permanent` says that the same mail would be refused again, however often it is tried.
 */
export class MailError extends Error {
  readonly code: string;
  readonly permanent: boolean;

  constructor(code: string, permanent = false) {
    super(code);
    this.name = "MailError";
    this.code = code;
    this.permanent = permanent;
  }
}

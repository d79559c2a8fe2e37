/** Where people may be sent after they have paid: never to a place that the operator did not name. */

const LENGTH_MAX = 2_048;
/** An origin and what may follow it. User names, backslashes, control and foreign characters match nowhere. */
const SHAPE = /^(https?:\/\/[a-z0-9.-]+(?::[0-9]{1,5})?)(?:[/?#](?:(?!\\)[\x21-\x7e])*)?$/;

/**
 * Whether a URL begins, letter for letter, with one of the origins. `http://localhost:*` stands for any port.
 * Other spellings of the same origin are refused as well: what is not parsed cannot be parsed differently.
 */
export function isReturnUrl(url: string, origins: readonly string[]): boolean {
  const origin = url.length <= LENGTH_MAX ? SHAPE.exec(url)?.[1] : undefined;
  if (origin === undefined || !URL.canParse(url) || new URL(url).origin !== origin) return false;
  return origins.includes(origin) || origins.includes(origin.replace(/(?::[0-9]+)?$/, ":*"));
}

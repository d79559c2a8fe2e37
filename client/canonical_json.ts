/** The JSON Canonicalization Scheme (RFC 8785): equal values have one spelling, so that they have one hash. */

/** What JSON can hold. */
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/**
 * Spells a value canonically: no white space, keys in the order of their UTF-16 units, numbers as ECMAScript does.
 * Fields that are undefined are left out, as `JSON.stringify` leaves them out; what else JSON has no spelling for
 * (NaN, functions, lone surrogates, cycles) throws a TypeError.
 */
export function canonicalize(value: unknown): string {
  return spell(value, []);
}

function spell(value: unknown, above: readonly object[]): string {
  if (value === null || typeof value === "boolean") return String(value);
  if (typeof value === "string") return spellText(value);
  if (typeof value === "number") {
    if (!Number.isFinite(value)) throw new TypeError("JSON has no spelling for a number that is not finite");
    return JSON.stringify(value);
  }
  if (typeof value !== "object") throw new TypeError(`JSON has no spelling for a ${typeof value}`);
  if (above.includes(value)) throw new TypeError("JSON has no spelling for a value that contains itself");
  const inside = [...above, value];
  if (Array.isArray(value)) return `[${Array.from(value, (each) => spell(each, inside)).join(",")}]`;
  if (typeof (value as { toJSON?: unknown }).toJSON === "function") {
    return spell((value as { toJSON(): unknown }).toJSON(), inside);
  }
  requirePlain(value);
  const fields = Object.entries(value)
    .filter(([, each]) => each !== undefined)
    .sort(([a], [b]) => a < b ? -1 : 1)
    .map(([key, each]) => `${spellText(key)}:${spell(each, inside)}`);
  return `{${fields.join(",")}}`;
}

function spellText(text: string): string {
  // A lone surrogate has no UTF-8: two different texts would hash alike.
  if (!text.isWellFormed()) throw new TypeError("JSON has no spelling for a lone surrogate");
  return JSON.stringify(text);
}

/** A Map or a Set would silently be spelled as an empty object. */
function requirePlain(value: object): void {
  const prototype = Object.getPrototypeOf(value);
  if (prototype === null || Object.getPrototypeOf(prototype) === null) return;
  throw new TypeError(`JSON has no spelling for a ${prototype.constructor?.name ?? "value of a class"}`);
}

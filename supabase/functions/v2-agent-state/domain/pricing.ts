/** What storing costs. The database charges by the same formula (`app.price_milli`); a test holds them together. */

const MILLI_PER_THOUSAND_BYTES = 45;

/** Price in milli-cents of storing `bytes` in one request: 0.045 a byte, rounded up once. Spec 4.1 and 4.2. */
export function priceMilli(bytes: number): number {
  return Math.ceil(bytes * MILLI_PER_THOUSAND_BYTES / 1000);
}

/** Reads a run of numbered entries in pieces, so that its memory is bounded whatever the entries weigh. */

/** Entries after `since` and before `before`, at most `limit`. */
export interface Range {
  since: number;
  before: number;
  limit: number;
}

/** A run of entries whose length is known before it is read. */
export interface Run<Entry> {
  count: number;
  /** Number of the last entry; null when there is none. */
  last: number | null;
  /** Whether the range holds entries beyond `limit`. */
  hasMore: boolean;
  /** The entries in order. The next piece is fetched only when it is asked for. */
  entries: AsyncGenerator<Entry>;
}

/** What a run needs to know of an entry: its own number, and the highest number there is. */
export interface Position {
  at: number;
  head: number;
}

type FetchPiece<Entry> = (since: number, limit: number) => Promise<Entry[]>;

/**
 * Opens a run with one call. Small runs need no other; long ones fetch pieces. Pieces fit together because entries
 * never change and their numbers have no gaps.
 */
export async function openRun<Entry>(
  range: Range,
  fetchPiece: FetchPiece<Entry>,
  positionOf: (entry: Entry) => Position,
): Promise<Run<Entry>> {
  const firstPiece = await fetchPiece(range.since, range.limit);
  const first = firstPiece[0];
  const readOn = (count: number) => generate(firstPiece, count, fetchPiece, (entry) => positionOf(entry).at);
  if (first === undefined) return { count: 0, last: null, hasMore: false, entries: readOn(0) };

  const { at, head } = positionOf(first);
  const end = Math.min(head, range.before - 1);
  const count = Math.min(range.limit, end - at + 1);
  const last = at + count - 1;
  return { count, last, hasMore: last < end, entries: readOn(count) };
}

async function* generate<Entry>(
  firstPiece: Entry[],
  count: number,
  fetchPiece: FetchPiece<Entry>,
  numberOf: (entry: Entry) => number,
): AsyncGenerator<Entry> {
  let piece = firstPiece;
  let left = count;
  while (left > 0) {
    // Never end early in silence: an answer that cannot be completed must break off, not look complete.
    if (piece.length === 0) throw new Error("There are fewer entries than their bounds say");
    yield* piece;
    left -= piece.length;
    if (left > 0) piece = await fetchPiece(numberOf(piece.at(-1)!), left);
  }
}

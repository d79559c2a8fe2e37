/** Reads a replication log to its end, checking every block on the way. Specification 4.2. */

import { type MemoryRecord, openBlock } from "./block.ts";
import type { Key } from "./cipher.ts";
import { IntegrityError, NetworkError, NotFoundError, RollbackError } from "./errors.ts";
import { ReplayParser } from "./replay_parser.ts";
import type { Transport } from "./transport.ts";
import { type Cursor, LogWalk, START } from "./verify.ts";
import type { LogChunk, LogHead } from "./wire.ts";

/** Blocks of one page; less means that the log ends here, where the service does not say. */
const PAGE_MAX = 1_000;
/** How often an answer may break off without a single block in it. */
const BROKEN_MAX = 5;

/** A block that was checked and decrypted. `sequence` and `root` are a cursor to go on from. */
export interface LogBlock extends Cursor {
  hash: string;
  records: MemoryRecord[];
  createdAt: string;
}

/** What to read, and what must be found in it. */
export interface ReadLogOptions {
  key: Key;
  after?: Cursor | undefined;
  /** A place that the log must still have, as it was. */
  through?: Cursor;
  signal?: AbortSignal | undefined;
}

/**
 * Yields the blocks after `after`, in order, each checked: number, hash, place in the chain, tag. When it ends, the
 * chain has been checked against the roots that were recorded, and the log still has what `through` says. Throws
 * {@link IntegrityError} and {@link RollbackError}.
 */
export async function* readLog(transport: Transport, options: ReadLogOptions): AsyncGenerator<LogBlock> {
  const { key, after = START, through = START, signal } = options;
  const walk = new LogWalk(after);
  for await (const chunk of readChunks(transport, () => walk.place.sequence, signal)) {
    const previous = walk.place;
    const bytes = walk.next(chunk);
    const place = walk.place;
    if (place.sequence === through.sequence) requireSame(place, through);
    const records = await openBlock(key, bytes, previous);
    yield { ...place, hash: chunk.block_hash, records, createdAt: chunk.created_at };
  }
  walk.end();
  if (walk.place === after && after.sequence >= 0) await requireHead(transport, after, signal);
  if (walk.place.sequence < through.sequence) {
    const message = `Block ${through.sequence} was acknowledged; the log now ends at ${walk.place.sequence}`;
    throw new RollbackError(message);
  }
}

/** The chunks of all pages after `since()`, as they come. An answer that breaks off is gone on with where it did. */
async function* readChunks(
  transport: Transport,
  since: () => number,
  signal?: AbortSignal,
): AsyncGenerator<LogChunk> {
  for (let [more, broken] = [true, 0]; more;) {
    const start = since();
    try {
      const parser = new ReplayParser();
      let count = 0;
      for await (const text of transport.stream(`/replay?since=${start}`, signal)) {
        for (const chunk of parser.push(text)) {
          count++;
          // `since=0` replays from the start: the block with number 0 may be known already.
          if (chunk.sequence_number > start) yield chunk;
        }
      }
      more = parser.end().has_more ?? count >= PAGE_MAX;
    } catch (error) {
      const breaksOff = error instanceof SyntaxError || error instanceof NetworkError;
      broken = since() > start ? 0 : broken + 1;
      if (!breaksOff || broken > BROKEN_MAX) throw asNetworkError(error);
      continue;
    }
    if (more && since() === start) {
      throw new IntegrityError("root_mismatch", "A page says more, and has nothing");
    }
  }
}

function asNetworkError(error: unknown): unknown {
  if (!(error instanceof SyntaxError)) return error;
  return new NetworkError("invalid_answer", "invalid_answer: the answer is not JSON", { cause: error });
}

/** Nothing came after `after`; that it is still there itself, only the head can tell. */
async function requireHead(transport: Transport, after: Cursor, signal?: AbortSignal): Promise<void> {
  const head = await transport.request<LogHead>("GET", "/head", { signal }).catch((error) => {
    if (error instanceof NotFoundError) return undefined;
    throw error;
  });
  if (head === undefined || head.sequence_number < after.sequence) {
    const now = head === undefined ? "is empty" : `ends at ${head.sequence_number}`;
    throw new RollbackError(`Block ${after.sequence} was acknowledged; the log now ${now}`);
  }
  if (head.sequence_number === after.sequence) requireSame({ ...after, root: head.merkle_root }, after);
}

function requireSame(place: Cursor, through: Cursor): void {
  if (place.root === through.root) return;
  throw new RollbackError(`The log up to block ${through.sequence} is not the one that was acknowledged`);
}

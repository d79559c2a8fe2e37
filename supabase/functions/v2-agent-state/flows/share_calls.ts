/** Calls to the database that several requests share: what arrives while a call is under way goes into the next one. */

/** A call that takes longer no longer keeps the next one from starting: it may be waiting for a lock. */
const SLOW_MS = 50;

/**
 * Makes a queue. `take` divides what waits into what goes into one call (one item at least) and what waits on, both in
 * order; `run` makes the call and settles each item. `run` never throws.
 *
 * One call is under way at a time: two would carry half as much each, and what a call costs however little it carries
 * is more than what they would gain by working side by side.
 */
export function shareCalls<Item>(
  take: (queue: readonly Item[]) => [Item[], Item[]],
  run: (items: readonly Item[]) => Promise<void>,
): (item: Item) => void {
  let queue: Item[] = [];
  let busy = false;

  function start(): void {
    if (busy || queue.length === 0) return;
    const [together, rest] = take(queue);
    queue = rest;
    busy = true;
    let released = false;
    const release = () => {
      clearTimeout(timer);
      if (released) return;
      released = true;
      busy = false;
      start();
    };
    const timer = setTimeout(release, SLOW_MS);
    run(together).finally(release);
  }
  return function add(item) {
    queue.push(item);
    start();
  };
}

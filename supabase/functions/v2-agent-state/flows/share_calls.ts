/** Calls to the database that several requests share: what arrives while calls are under way goes into the next one. */

/** While one call flushes, others work. More at once would only be smaller ones. */
const CALLS_MAX = 3;
/** A call that takes longer no longer keeps others from starting: it may be waiting for a lock. */
const SLOW_MS = 50;

/**
 * Makes a queue. `take` divides what waits into what goes into one call (one item at least) and what waits on, both in
 * order; `run` makes the call and settles each item. `run` never throws.
 */
export function shareCalls<Item>(
  take: (queue: readonly Item[]) => [Item[], Item[]],
  run: (items: readonly Item[]) => Promise<void>,
): (item: Item) => void {
  let queue: Item[] = [];
  let calls = 0;
  let lastSize = 0;

  /** Beside running calls the next one waits until it is as large as the last: equal shares, not all and one. */
  function mayStart(): boolean {
    return calls === 0 || calls < CALLS_MAX && queue.length >= lastSize;
  }

  function start(): void {
    while (queue.length > 0 && mayStart()) {
      const [together, rest] = take(queue);
      queue = rest;
      calls++;
      lastSize = together.length;
      let running = true;
      const release = () => {
        clearTimeout(timer);
        if (!running) return;
        running = false;
        calls--;
        start();
      };
      const timer = setTimeout(release, SLOW_MS);
      run(together).finally(release);
    }
  }
  return function add(item) {
    queue.push(item);
    start();
  };
}

/** Calls to the database that several requests share: what arrives while a call is under way goes into the next one. */

/** Beside calls that are under way others start only when there is as much to do as one call should carry. */
const CALLS_MAX = 3;
/** A call that takes longer no longer keeps others from starting: it may be waiting for a lock. */
const SLOW_MS = 50;

/** How requests become calls. */
export interface Sharing<Item> {
  /** Divides what waits into what goes into one call (one item at least) and what waits on, both in order. */
  take(queue: readonly Item[]): [Item[], Item[]];
  /** Makes the call and settles each item. Never throws. */
  run(items: readonly Item[]): Promise<void>;
  /** Whether what waits is worth a call of its own while others are under way. */
  isMuch(queue: readonly Item[]): boolean;
}

/**
 * Makes a queue. Of small items one call is under way at a time: two would carry half as much each, and what a call
 * costs however little it carries is more than what they would gain by working side by side.
 */
export function shareCalls<Item>({ take, run, isMuch }: Sharing<Item>): (item: Item) => void {
  let queue: Item[] = [];
  let calls = 0;

  function start(): void {
    while (queue.length > 0 && (calls === 0 || calls < CALLS_MAX && isMuch(queue))) {
      const [together, rest] = take(queue);
      queue = rest;
      calls++;
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

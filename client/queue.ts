/** One thing after another: what is given to a queue starts when everything before it has ended. */

/** Runs a task in its turn and returns its outcome. A task that fails does not stop the next. */
export type Queue = <T>(task: () => Promise<T>) => Promise<T>;

/** A queue of its own. */
export function createQueue(): Queue {
  let last: Promise<unknown> = Promise.resolve();
  return function enqueue(task) {
    const mine = last.then(task);
    last = mine.catch(() => {});
    return mine;
  };
}

/** Waiting in tests: for a condition with a deadline, never for a time that is hoped to be long enough. */

const POLL_MS = 25;
const STEADY_SAMPLES = 20;

/** Asks `probe` until its answer is truthy, and returns that. Throws what it waited for at the deadline. */
export async function eventually<T>(
  what: string,
  probe: () => T | Promise<T>,
  deadlineMs = 15_000,
): Promise<NonNullable<T>> {
  const deadline = performance.now() + deadlineMs;
  for (;;) {
    const answer = await probe();
    if (answer) return answer;
    if (performance.now() > deadline) throw new Error(`Not within ${deadlineMs} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

/** Waits until half a second's samples lie within `tolerance` of each other, and returns the last. */
export async function settled(
  what: string,
  sample: () => number | Promise<number>,
  tolerance = 0,
): Promise<number> {
  let samples: number[] = [];
  await eventually(`${what} stays as it is`, async () => {
    samples = [...samples, await sample()].slice(-STEADY_SAMPLES);
    return samples.length === STEADY_SAMPLES && Math.max(...samples) - Math.min(...samples) <= tolerance;
  });
  return samples.at(-1)!;
}

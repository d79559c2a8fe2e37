/** The one way the command-line files write to the terminal. */

const encoder = new TextEncoder();

/** Prints one line on standard output. */
export function print(line = ""): void {
  write(Deno.stdout, line);
}

/** Prints one line on standard error. */
export function printError(line: string): void {
  write(Deno.stderr, line);
}

function write(stream: { writeSync(bytes: Uint8Array): number }, line: string): void {
  let rest = encoder.encode(line + "\n");
  try {
    while (rest.length > 0) rest = rest.subarray(stream.writeSync(rest));
  } catch (error) {
    // Whoever read the output has gone; that must not take a running service down.
    if (!(error instanceof Deno.errors.BrokenPipe)) throw error;
  }
}

/** The one way the command-line files write to the terminal. */

const encoder = new TextEncoder();

/** How long a line of {@link printSoon} may wait for others: no person notices, and many share a write. */
const GATHER_MS = 10;
/** What waits is written at once when it grows to this. */
const GATHERED_LENGTH_MAX = 64 * 1024;

let gathered = "";
let timer: ReturnType<typeof setTimeout> | undefined;
for (const end of ["unload", "error", "unhandledrejection"]) globalThis.addEventListener(end, printGathered);

/** Prints one line on standard output. */
export function print(line = ""): void {
  printGathered();
  write(Deno.stdout, `${line}\n`);
}

/** Prints one line on standard error. */
export function printError(line: string): void {
  write(Deno.stderr, `${line}\n`);
}

/** Prints one line on standard output a moment later, with others, in order; when the process exits, before that. */
export function printSoon(line: string): void {
  timer ??= setTimeout(printGathered, GATHER_MS);
  gathered += `${line}\n`;
  if (gathered.length >= GATHERED_LENGTH_MAX) printGathered();
}

function printGathered(): void {
  clearTimeout(timer);
  timer = undefined;
  if (gathered === "") return;
  const text = gathered;
  gathered = "";
  write(Deno.stdout, text);
}

function write(stream: { writeSync(bytes: Uint8Array): number }, text: string): void {
  let rest = encoder.encode(text);
  try {
    while (rest.length > 0) rest = rest.subarray(stream.writeSync(rest));
  } catch (error) {
    // Whoever read the output has gone; that must not take a running service down.
    if (!(error instanceof Deno.errors.BrokenPipe)) throw error;
  }
}

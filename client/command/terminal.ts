/** What the command says, and to whom: results on standard output, all else on standard error. */

import process from "node:process";

const BAR_WIDTH = 24;

/** Where output goes. */
export interface Terminal {
  /** One line of the result. */
  print(line: string): void;
  /** One line beside it. */
  note(line: string): void;
  /** A bar that is drawn over and over; without a terminal, a line when it is full. */
  progress(what: string, done: number, total: number): void;
}

/** The process's own output. */
export function openTerminal(quiet: boolean): Terminal {
  const draw = !quiet && process.stderr.isTTY === true;
  return {
    print: (line) => void process.stdout.write(`${line}\n`),
    note: (line) => void (quiet || process.stderr.write(`${line}\n`)),
    progress(what, done, total) {
      const full = done >= total;
      const line = `${what.padEnd(10)} ${bar(done, total)} ${done}/${total}`;
      if (draw) process.stderr.write(`\r\x1b[2K${line}${full ? "\n" : ""}`);
      else if (!quiet && full) process.stderr.write(`${line}\n`);
    },
  };
}

function bar(done: number, total: number): string {
  const filled = total === 0 ? BAR_WIDTH : Math.round(Math.min(done / total, 1) * BAR_WIDTH);
  return `[${"#".repeat(filled)}${"-".repeat(BAR_WIDTH - filled)}]`;
}

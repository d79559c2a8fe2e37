/** Drives Chromium: a page of another origin uses the package against the service. Prints what the page found. */

import { chromium } from "playwright-core";

const { CHROMIUM, PAGE_URL, AGENT_STATE_URL } = process.env;
const browser = await chromium.launch({
  executablePath: CHROMIUM,
  headless: true,
  args: [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
  ],
});
try {
  const context = await browser.newContext();
  const account = {
    baseUrl: AGENT_STATE_URL,
    token: `sov_proj_${crypto.randomUUID()}`,
    key: "07".repeat(32),
  };
  const visit = async (what) => {
    const page = await context.newPage();
    page.on("console", (message) => process.stderr.write(`${message.text()}\n`));
    await page.goto(PAGE_URL);
    const found = await page.evaluate(async ([what, account]) => {
      const { run } = await import("/page.js");
      return await run(what, account);
    }, [what, account]);
    await page.close({ runBeforeUnload: false });
    return found;
  };
  const report = {};
  // Each visit is a page of its own; what one left in IndexedDB is all that the next has.
  for (const what of ["snapshots", "append", "flush", "worker", "team"]) report[what] = await visit(what);
  process.stdout.write(JSON.stringify(report));
} finally {
  await browser.close();
}

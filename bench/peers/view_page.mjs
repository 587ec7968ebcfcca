// Opens the viewer's page in Chromium and flies through the trace with the keyboard.
//
//     node view_page.mjs PACKAGES CHROMIUM MOVES SPANWISE TRACE
//
// Prints one JSON object: seconds from the start of `spanwise view` to the first painted timeline,
// milliseconds of every question about slices as the browser saw it, and the page's memory.

import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { join } from "node:path";

const [packages, browserPath, moves, spanwise, trace] = process.argv.slice(2);
const { chromium } = createRequire(join(packages, "/"))("playwright-core");
// In, along, in further, along, and out again: all depths, and on through the trace.
const KEYS = ["w", "d", "w", "d", "w", "w", "d", "d", "s", "s", "s", "d", "s"];

// A key moves the page as long as it is held.
const HELD_MS = 60;

const browser = await chromium.launch({ executablePath: browserPath, args: ["--no-sandbox"] });
const page = await browser.newPage({ viewport: { width: 1800, height: 900 } });
const devtools = await page.context().newCDPSession(page);
await devtools.send("Performance.enable");
const answers = [];
page.on("requestfinished", (request) => {
  if (!request.url().includes("/api/slices")) return;
  const { requestStart, responseEnd } = request.timing();
  answers.push(responseEnd - requestStart);
});

const isSettled = () => {
  const { waiting, rectangles } = document.querySelector("#panel-timeline")?.dataset ?? {};
  return waiting === "false" && rectangles !== undefined;
};

const start = performance.now();
const server = spawn(spanwise, ["view", "--no-browser", "--quiet", trace], {
  stdio: ["ignore", "pipe", "inherit"],
});
try {
  const address = await new Promise((resolve, reject) => {
    server.stdout.once("data", (text) => resolve(String(text).trim()));
    server.once("exit", () => reject(new Error("spanwise view ended")));
  });
  await page.goto(address);
  await page.waitForFunction(isSettled);
  const first_s = (performance.now() - start) / 1e3;
  for (let move = 0; move < Number(moves); move += 1) {
    await page.keyboard.press(KEYS[move % KEYS.length], { delay: HELD_MS });
    await page.waitForFunction(isSettled);
  }
  const { metrics } = await devtools.send("Performance.getMetrics");
  const heap_bytes = metrics.find(({ name }) => name === "JSHeapUsedSize").value;
  console.log(JSON.stringify({ first_s, heap_bytes, answers_ms: answers }));
} finally {
  server.kill();
  await browser.close();
}

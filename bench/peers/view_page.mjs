// Opens the viewer's page in Chromium and flies through the trace with the keyboard.
//
//     node view_page.mjs PACKAGES CHROMIUM MOVES SPANWISE TRACE
//
// Prints one JSON object: seconds from the start of `spanwise view` to the first painted timeline,
// milliseconds of every question about slices as the browser saw it, the page's memory, and of each
// frame of a flight with keys held down how long after the one before it came and how long the
// page's own script took for it.

import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { join } from "node:path";

const [packages, browserPath, moves, spanwise, trace] = process.argv.slice(2);
const { chromium } = createRequire(join(packages, "/"))("playwright-core");
// In, along, in further, along, and out again: all depths, and on through the trace.
const KEYS = ["w", "d", "w", "d", "w", "w", "d", "d", "s", "s", "s", "d", "s"];

// A key moves the page as long as it is held.
const HELD_MS = 60;
// The flight of frames: long strokes, at the depths that a person stops at.
const STROKES = [["d", 400], ["w", 500], ["d", 800], ["w", 600], ["a", 800], ["w", 600], ["d", 800],
  ["w", 600], ["d", 800], ["s", 1500], ["d", 800], ["s", 1500]];

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

// Every frame in which the page's script asked to be called: when, and how long it took.
await page.addInitScript(() => {
  const frames = [];
  const ask = window.requestAnimationFrame.bind(window);
  window.requestAnimationFrame = (paint) => ask((now) => {
    const begin = performance.now();
    paint(now);
    const took = performance.now() - begin;
    const last = frames.at(-1);
    if (last?.[0] === now) last[1] += took;
    else frames.push([now, took]);
  });
  window.takeFrames = () => frames.splice(0);
});

const isSettled = () => {
  const { waiting, rectangles } = document.querySelector("#panel-timeline")?.dataset ?? {};
  return waiting === "false" && rectangles !== undefined;
};

/** What paints: a graphics card, or the processor in its place. */
const rendererOf = () => {
  const context = document.createElement("canvas").getContext("webgl");
  const names = context?.getExtension("WEBGL_debug_renderer_info");
  return names ? context.getParameter(names.UNMASKED_RENDERER_WEBGL) : "without WebGL";
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
  await page.keyboard.press("0");
  await page.waitForFunction(isSettled);
  const frames_ms = [];
  const script_ms = [];
  for (const [key, held] of STROKES) {
    await page.evaluate(() => window.takeFrames());
    await page.keyboard.press(key, { delay: held });
    const frames = await page.evaluate(() => window.takeFrames());
    // The last may be one that an answer asked for, after the key was released.
    for (let at = 1; at < frames.length - 1; at += 1) {
      frames_ms.push(frames[at][0] - frames[at - 1][0]);
      script_ms.push(frames[at][1]);
    }
    await page.waitForFunction(isSettled);
  }
  const renderer = `Chromium ${browser.version()} headless, ${await page.evaluate(rendererOf)}`;
  console.log(JSON.stringify({ first_s, heap_bytes, answers_ms: answers, frames_ms, script_ms, renderer }));
} finally {
  server.kill();
  await browser.close();
}

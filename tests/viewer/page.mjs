// A server with its page in a browser, and the few things that every case does with it.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const [packages, browserPath, spanwise, pictures, assets] = process.argv.slice(2);
const { chromium } = createRequire(join(packages, "/"))("playwright-core");

const START_MAX_MS = 30_000;
const STEP_MAX_MS = 20_000;
const POLL_MS = 25;

let browser;

export async function startBrowser() {
  // Browsers ask whether a page of elsewhere may reach this machine; the person who ran
  // `spanwise view --in` says yes.
  const args = ["--no-sandbox", "--disable-features=LocalNetworkAccessChecks"];
  browser = await chromium.launch({ executablePath: browserPath, args });
}

export async function stopBrowser() {
  await browser.close();
}

/** Starts `spanwise view` and gives the address that it prints. */
function serve(traces, ...options) {
  return start(["view", "--no-browser", "--no-index", "--quiet", ...options, ...traces]);
}

/** Starts a command of `spanwise` that prints an address. */
function start(words) {
  const child = spawn(spanwise, words, { stdio: ["ignore", "pipe", "pipe"] });
  let said = "";
  const address = new Promise((resolve, reject) => {
    const listen = (text) => {
      said += text;
      const found = /https?:\/\/\S+/.exec(said);
      if (found) resolve(found[0]);
    };
    child.stdout.on("data", listen);
    child.stderr.on("data", (text) => (said += text));
    child.on("exit", () => reject(new Error(`the server ended: ${said}`)));
    setTimeout(() => {
      reject(new Error(`no address: ${said}`));
      if (!/https?:/.test(said)) child.kill();
    }, START_MAX_MS).unref();
  });
  return { address, stop: () => child.kill() };
}

/** The trace in another format, which the file's ending tells; gives the file. */
export function convert(trace, file) {
  execFileSync(spanwise, ["convert", "--no-index", "--quiet", trace, "-o", file], { timeout: START_MAX_MS });
  return file;
}

/** A page on some traces; `after` is what stands behind the address. */
export async function visit(name, traces, { after = "", width = 1440, height = 900, scheme = "light", watched } = {}) {
  const server = watched === undefined ? serve(traces) : start(["top", "--view", "--interval", "500ms", "-p", watched]);
  const address = (await server.address) + after;
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: scheme });
  const page = await context.newPage();
  page.setDefaultTimeout(STEP_MAX_MS);
  const errors = [];
  page.on("console", (message) => message.type() === "error" && errors.push(message.text()));
  page.on("pageerror", (error) => errors.push(error.stack ?? error.message));
  page.on("dialog", (dialog) => errors.push(`a dialog: ${dialog.message()}`));
  if (assets !== "") await takeBuilt(page);
  await page.goto(address);
  return new Visit(name, page, server, errors);
}

/** A trace in somebody else's viewer, whose address is answered for by `answer`. */
export async function visitOther(name, viewer, trace, origin, answer) {
  const server = serve([trace], "--in", viewer);
  const address = (await server.address).trim();
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, serviceWorkers: "block" });
  await context.route(`${origin}/**`, answer);
  const page = await context.newPage();
  page.setDefaultTimeout(STEP_MAX_MS);
  await page.goto(address);
  return new Visit(name, page, server, []);
}

/** The page as it was built last, with the headers of the server. */
async function takeBuilt(page) {
  const files = new Map([["/", "index.html"], ["/app.js", "app.js"], ["/app.css", "app.css"]]);
  for (const [ending, file] of files) {
    await page.route((url) => url.pathname.endsWith(ending), async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, body: readFileSync(join(assets, file)) });
    });
  }
}

/** Has a page of this format written about the trace; gives the file. */
export function writePage(format, trace, file) {
  const convert = ["convert", "--to", format, "--no-index", "--quiet", trace, "-o", file];
  execFileSync(spanwise, convert, { timeout: START_MAX_MS });
  return file;
}

class Visit {
  constructor(name, page, server, errors) {
    this.name = name;
    this.page = page;
    this.server = server;
    this.errors = errors;
  }

  /** What the timeline says of itself. */
  async timeline(panel = "#panel-timeline") {
    const said = await this.page.locator(panel).evaluate((element) => ({ ...element.dataset }));
    const numbers = (text) => (text ? text.split(" ").map(Number) : null);
    return {
      from: Number(said.from),
      to: Number(said.to),
      rectangles: Number(said.rectangles),
      selected: said.selected === "" ? null : Number(said.selected),
      box: numbers(said.box),
    };
  }

  /** Waits until every question has its answer and that is painted. */
  async settled(panel = "#panel-timeline") {
    const isSettled = (selector) => {
      const { waiting, rectangles } = document.querySelector(selector)?.dataset ?? {};
      return waiting === "false" && rectangles !== undefined;
    };
    await this.page.waitForFunction(isSettled, panel);
    return this.timeline(panel);
  }

  /** Waits until the question about the timeline is answered with yes, then until it rests. */
  async until(question) {
    const end = Date.now() + STEP_MAX_MS;
    while (!question(await this.timeline())) {
      if (Date.now() > end) throw new Error(`never came: ${question}: ${JSON.stringify(await this.timeline())}`);
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    }
    return this.settled();
  }

  async search(text) {
    await this.page.keyboard.press("/");
    await this.page.getByLabel("Search spans").fill(text);
    await this.page.waitForSelector(".found");
    return Number(await this.page.locator(".found").getAttribute("data-count"));
  }

  announced() {
    return this.page.locator("#announced").textContent();
  }

  picture(step) {
    return this.page.screenshot({ path: join(pictures, `${this.name}-${step}.png`) });
  }

  /** Ends the visit; whatever the browser complained about fails. */
  async end() {
    await this.page.context().close();
    this.server.stop();
    assert.deepEqual(this.errors, [], "errors in the browser");
  }

  async fail() {
    await this.picture("failed").catch(() => {});
    await this.close().catch(() => {});
  }

  async close() {
    this.server.stop();
    await this.page.context().close();
  }
}

// What a user does with the page, case by case; each line says what was seen.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { otherViewers } from "./others.mjs";
import { convert, startBrowser, stopBrowser, visit, writePage } from "./page.mjs";
import { Recorder } from "./recorder.mjs";

const LLAMA = "testdata/kineto/llama_small.json.gz";
const LLAMA_EAGER = "testdata/kineto/llama_small_eager.json.gz";
const RANKS = [0, 1, 2, 3].map((rank) => `testdata/kineto/ddp/ddp_rank${rank}.json.gz`);

const FORMATS = {
  chrome: "testdata/chrome/kinds_of_events.json",
  "torch-1.8": "testdata/chrome/torch_1_8.json",
  memory: "testdata/kineto/memory.json",
  "perf-data": "testdata/perf/small.perf.data",
  "perf-script": "testdata/perf/kernel_and_user.perf",
  switches: "testdata/perf/sched_script.perf",
  samples: "testdata/perf/recorded.perf",
  session: "testdata/session/steps.spanwise-session",
  "hostile-names": "testdata/cli/hostile-names/trace.json",
};

const length = ({ from, to }) => to - from;

async function fromKernelToPython(it) {
  const whole = await it.settled();
  assert.ok(whole.rectangles > 1000, `${whole.rectangles} rectangles`);
  assert.ok((await it.search("vectorized_gather_kernel")) > 0);
  await it.page.locator('[data-role="found"]').first().click();
  const there = await it.until((now) => now.selected !== null);
  await it.page.locator("#panel-timeline .timeline-body").focus();
  await it.page.keyboard.press("f");
  const focused = await it.until((now) => length(now) !== length(there));
  assert.ok(focused.box[2] > 200, `the kernel is ${focused.box[2]} pixels wide`);
  await it.picture("kernel");
  await it.page.locator('[data-role="launch"]').click();
  const launch = await it.until((now) => now.selected !== there.selected);
  assert.match(await it.announced(), /^cudaLaunchKernel, /);
  await it.picture("launch");
  const line = it.page.locator('[data-role="python"]').first();
  const name = await line.textContent();
  await line.click();
  await it.until((now) => now.selected !== launch.selected);
  assert.ok((await it.announced()).startsWith(name), `went to ${await it.announced()}`);
  return `a kernel, its launch, and ${name}`;
}

async function clickAndEscape(it) {
  await it.settled();
  await it.search("aten::_cudnn_attention_forward");
  await it.page.locator('[data-role="found"]').first().click();
  const chosen = await it.until((now) => now.selected !== null);
  await it.page.locator("#panel-timeline .timeline-body").focus();
  await it.page.keyboard.press("Escape");
  await it.until((now) => now.selected === null);
  assert.equal(await it.page.locator(".details").count(), 0);
  const [x, y, w, h] = chosen.box;
  await it.page.mouse.move(x + w / 2, y + h / 2);
  await it.page.waitForSelector(".tooltip:not([hidden])");
  assert.match(await it.page.locator("#panel-timeline .tooltip").textContent(), /cudnn_attention_forward/);
  await it.page.mouse.click(x + w / 2, y + h / 2);
  const again = await it.until((now) => now.selected !== null);
  assert.equal(again.selected, chosen.selected);
  await it.page.keyboard.press("]");
  const next = await it.until((now) => now.selected !== chosen.selected);
  return `span ${chosen.selected} by click, then ${next.selected} of the same name`;
}

async function movesAndZooms(it) {
  const whole = await it.settled();
  const canvas = await it.page.locator("#panel-timeline .tracks").boundingBox();
  const [x, y] = [canvas.x + canvas.width / 4, canvas.y + 40];
  await it.page.mouse.move(x, y);
  const timeAt = ({ from, to }) => from + (to - from) / 4;
  await it.page.keyboard.down("Control");
  await it.page.mouse.wheel(0, -400);
  await it.page.keyboard.up("Control");
  const zoomed = await it.until((now) => length(now) < length(whole) * 0.7);
  assert.ok(Math.abs(timeAt(zoomed) - timeAt(whole)) < length(whole) * 0.01, "zooms where the pointer is");
  await it.page.keyboard.down("Shift");
  await it.page.mouse.wheel(0, 200);
  await it.page.keyboard.up("Shift");
  const panned = await it.until((now) => now.from > zoomed.from);
  assert.ok(Math.abs(length(panned) - length(zoomed)) < 4);
  await it.page.mouse.down();
  await it.page.mouse.move(x + 120, y, { steps: 6 });
  await it.page.mouse.up();
  const dragged = await it.until((now) => now.from < panned.from);
  await it.page.keyboard.press("w");
  const nearer = await it.until((now) => length(now) < length(dragged));
  await it.page.keyboard.press("d");
  await it.until((now) => now.from > nearer.from);
  await it.page.keyboard.press("0");
  const back = await it.until((now) => length(now) >= length(whole) - 2);
  assert.ok(Math.abs(back.from - whole.from) < 3, "0 shows the whole trace");
  return "wheel, drag and keys";
}

async function rangeAndFlame(it) {
  await it.settled();
  const ruler = await it.page.locator("#panel-timeline .ruler").boundingBox();
  await it.page.mouse.move(ruler.x + 300, ruler.y + 10);
  await it.page.mouse.down();
  await it.page.mouse.move(ruler.x + 700, ruler.y + 12, { steps: 8 });
  await it.page.mouse.up();
  await it.page.waitForSelector(".range .section");
  await it.picture("range");
  await it.page.getByRole("button", { name: "Zoom here" }).click();
  await it.until((now) => length(now) < 80_000_000);
  await it.page.getByRole("button", { name: "Flame graph of it" }).click();
  const flame = it.page.locator("#panel-flame");
  await it.page.waitForSelector("#panel-flame[data-frames]");
  const frames = Number(await flame.getAttribute("data-frames"));
  assert.ok(frames > 20, `${frames} frames`);
  await it.picture("flame");
  const canvas = await flame.locator("canvas").boundingBox();
  await it.page.mouse.click(canvas.x + 200, canvas.y + 19 * 3 + 8);
  await it.page.waitForFunction(() => document.querySelector(".flame-status").textContent.includes("zoomed to"));
  await flame.getByLabel("Find frames").fill("aten::");
  await it.page.waitForFunction(() => /found: [\d.]+ %/.test(document.querySelector(".flame-status").textContent));
  await flame.getByRole("button", { name: "Reset" }).click();
  await flame.locator("td button").first().click();
  await it.page.waitForSelector('#panel-flame[data-shape="sandwich"]');
  await it.picture("sandwich");
  await flame.getByLabel("What to show").selectOption("gpu");
  await it.page.waitForSelector('#panel-flame[data-shape="icicle"]');
  return `${frames} frames of a range; focus, search, sandwich, GPU time`;
}

async function addressKeepsAll(it) {
  await it.settled();
  await it.search("aten::mm");
  await it.page.locator('[data-role="found"]').first().click();
  const before = await it.until((now) => now.selected !== null);
  await it.page.waitForFunction(() => location.hash.includes("span=0.") && location.hash.includes("search="));
  await it.page.reload();
  const after = await it.until((now) => now.selected !== null);
  assert.equal(after.selected, before.selected);
  assert.ok(Math.abs(after.from - before.from) <= 1 && Math.abs(after.to - before.to) <= 1);
  assert.equal(await it.page.getByLabel("Search spans").inputValue(), "aten::mm");
  return new URL(it.page.url()).hash;
}

async function findingsLead(it) {
  await it.settled();
  await it.page.getByRole("tab", { name: "Findings" }).click();
  await it.page.waitForSelector(".findings .section");
  await it.picture("findings");
  const sections = await it.page.locator(".findings .section").count();
  assert.ok(sections > 3, `${sections} sections`);
  const link = it.page.getByRole("button", { name: "Show in the timeline" }).first();
  await link.click();
  await it.until((now) => now.from > 0);
  await it.page.waitForSelector(".range");
  return `${sections} sections, and the place of a finding`;
}

async function asksSql(it) {
  await it.settled();
  await it.page.getByRole("tab", { name: "SQL" }).click();
  await it.page.getByRole("button", { name: "Longest spans" }).click();
  await it.page.waitForSelector(".sql-result table");
  const rows = await it.page.locator(".sql-result tbody tr").count();
  assert.equal(rows, 20);
  await it.picture("sql");
  const span = it.page.locator(".sql-result tbody tr").nth(3).getByRole("button").first();
  const wanted = Number(await span.textContent());
  await span.click();
  const there = await it.until((now) => now.selected !== null);
  assert.equal(there.selected, wanted);
  return `${rows} rows, and the span of one`;
}

async function cancelsSql(it) {
  await it.settled();
  await it.page.getByRole("tab", { name: "SQL" }).click();
  const told = it.page.locator(".sql-result");
  const run = async (query) => {
    await it.page.getByLabel("Query").fill(query);
    await it.page.getByRole("button", { name: "Run" }).click();
  };
  const cancel = it.page.getByRole("button", { name: "Cancel" });
  // More than may run at the same time: the server must have stopped each of them.
  for (let round = 0; round < 6; round += 1) {
    await run("with recursive n(x) as (select 1 union all select x + 1 from n) select max(x) from n");
    await told.getByText("Running").waitFor();
    await cancel.click();
    await told.getByText("Canceled.").waitFor();
    assert.ok(await cancel.isDisabled());
  }
  await it.page.waitForFunction(async () => {
    const answer = await fetch("api/query", { method: "POST", body: "select 1" });
    return answer.status === 200;
  });
  await run("with recursive n(x) as (select 1 union all select x + 1 from n limit 5000) select printf('%.*c', 9000, 'x') from n");
  await told.getByText("only what fits into 8 MiB is shown").waitFor();
  return "six endless queries, and an answer that is cut";
}

/** Pages that are written for others: their policy lets their own script and styles work. */
async function writesPages(it) {
  const folder = mkdtempSync(join(tmpdir(), "pages-"));
  const hidden = () => [...document.querySelectorAll("g.f")].filter((frame) => frame.style.display === "none").length;
  try {
    for (const format of ["flame", "html"]) {
      const page = await it.page.context().newPage();
      page.on("console", (message) => it.errors.push(`${format}: ${message.text()}`));
      page.on("pageerror", (error) => it.errors.push(`${format}: ${error.message}`));
      await page.goto(`file://${writePage(format, LLAMA, join(folder, `${format}.html`))}`);
      const font = await page.locator(".flame text").first().evaluate((text) => getComputedStyle(text).font);
      assert.match(font, /monospace/);
      const before = await page.evaluate(hidden);
      await page.locator("g.f").last().dispatchEvent("click");
      assert.ok((await page.evaluate(hidden)) > before, "a click zooms");
      await page.close();
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
  return "a flame graph and a report, with their styles and their script";
}

async function comparesTwo(it) {
  await it.settled();
  await it.page.getByRole("tab", { name: "Compare" }).click();
  await it.page.waitForSelector(".compare-tables .section");
  const timelines = await it.page.locator("#panel-compare .timeline").count();
  assert.equal(timelines, 2);
  await it.page.waitForFunction(() =>
    [...document.querySelectorAll("#panel-compare .timeline")].every(({ dataset }) => Number(dataset.rectangles) > 10));
  await it.picture("compare");
  await it.page.locator("#panel-compare .timeline-body").first().focus();
  const shown = () => it.page.locator("#panel-compare .timeline").evaluateAll((all) => all.map(({ dataset }) => dataset.to));
  const [before] = await shown();
  await it.page.keyboard.press("w");
  await it.page.waitForFunction((to) => {
    const all = [...document.querySelectorAll("#panel-compare .timeline")].map(({ dataset }) => dataset.to);
    return all[0] !== to && all[0] === all[1];
  }, before);
  await it.page.getByRole("button", { name: "Shift the other later" }).click();
  await it.page.waitForFunction(() => document.querySelector('[data-role="shift"]').textContent.startsWith("shifted by"));
  return "two timelines that zoom together, a shift, and tables";
}

async function comparesFlames(it) {
  await it.settled();
  await it.page.getByRole("tab", { name: "Compare" }).click();
  await it.page.getByRole("button", { name: "Flame graph of the change" }).click();
  await it.page.waitForSelector('#panel-flame[data-base="true"]');
  const flame = it.page.locator("#panel-flame");
  const told = flame.locator(".flame-status");
  assert.match(await told.textContent(), / → /);
  // The two call their model from functions of different names, and all below is set side by side.
  await flame.getByLabel("Find frames").fill("w_llama_small → ");
  await it.page.waitForFunction(() => /found: [1-9]/.test(document.querySelector(".flame-status").textContent));
  await flame.getByLabel("Find frames").fill("");
  await it.picture("wall");
  await flame.getByLabel("What to show").selectOption("gpu");
  await it.page.waitForFunction(() => !document.querySelector(".flame-status").textContent.startsWith("Summing"));
  await it.picture("gpu");
  const canvas = await flame.locator("canvas").boundingBox();
  await it.page.mouse.move(canvas.x + 200, canvas.y + 19 * 3 + 8);
  await it.page.waitForSelector("#panel-flame .tooltip:not([hidden])");
  assert.match(await flame.locator(".tooltip").textContent(), / → .*(%|new)/);
  await flame.getByLabel("Widths").selectOption("base");
  await it.picture("base");
  await flame.getByLabel("Compared with").selectOption("");
  await it.page.waitForSelector('#panel-flame[data-base="false"]');
  return `${await told.textContent()}, against the base and alone`;
}

async function rowsLeadToBoth(it) {
  await it.settled();
  await it.page.getByRole("tab", { name: "Compare" }).click();
  const row = it.page.locator('.compare-tables [data-key="changes"] button.link').first();
  const name = await row.textContent();
  await row.click();
  await it.page.waitForFunction(() => document.querySelector('[data-role="shift"]').textContent.startsWith("shifted by"));
  await it.page.waitForSelector(".details");
  const isRested = () => [...document.querySelectorAll("#panel-compare .timeline")]
    .every(({ dataset }) => dataset.waiting === "false" && Number(dataset.rectangles) > 0);
  await it.page.waitForFunction(isRested);
  await it.picture("both");
  return `${name} in both timelines`;
}

async function groupsFlames(it) {
  await it.settled();
  await it.page.getByRole("tab", { name: "Flame graph" }).click();
  const flame = it.page.locator("#panel-flame");
  const seen = [];
  for (const group of ["thread", "phase", "step", "rank"]) {
    await it.page.waitForSelector("#panel-flame[data-frames]");
    const answered = it.page.waitForResponse((response) => response.url().includes(`group=${group}`));
    await flame.getByLabel("Group").selectOption(group);
    const { names, parent, name } = await (await answered).json();
    const roots = parent.flatMap((above, node) => (above === 0 ? [names[name[node]]] : []));
    assert.ok(roots.length > 0, `no ${group}`);
    seen.push(`${roots.length} by ${group}`);
    await it.page.waitForFunction(() => !document.querySelector(".flame-status").textContent.startsWith("Summing"));
    await it.picture(group);
  }
  return seen.join(", ");
}

/** A session that this program writes while the page looks at it. */
async function followsLive(it) {
  const { recorder } = it;
  const first = await it.settled();
  const corner = it.page.locator("#panel-timeline .corner");
  assert.match(await corner.textContent(), /still recording/);
  assert.ok((await it.search("step")) > 0);
  await it.page.locator('[data-role="found"]').first().click();
  const chosen = await it.until((now) => now.selected !== null);
  await it.page.locator("#panel-timeline .timeline-body").focus();
  await it.page.keyboard.press("0");
  recorder.work(200);
  const longer = await it.until((now) => now.to > first.to * 1.5);
  assert.ok(longer.rectangles > first.rectangles, `${longer.rectangles} rectangles`);
  assert.equal(longer.selected, chosen.selected);
  await it.picture("growing");
  recorder.end();
  await it.page.waitForFunction(() => !document.querySelector("#panel-timeline .corner").textContent.includes("recording"));
  const spans = /([\d,]+) spans/.exec(await corner.textContent())[1];
  return `${spans} spans, ${longer.rectangles} rectangles, and its end`;
}

/** A process that `spanwise top --view` looks at, again and again. */
async function watchesProcess(it) {
  const first = await it.settled();
  const corner = it.page.locator("#panel-timeline .corner");
  assert.match(await corner.textContent(), /still recording/);
  // No two looks are equally long, and the view shows all of each.
  const next = await it.until((now) => now.to !== first.to && now.rectangles > 0);
  await it.picture("watched");
  it.busy.kill();
  await it.page.waitForFunction(() => !document.querySelector("#panel-timeline .corner").textContent.includes("recording"));
  return `looks of ${Math.round(length(first) / 1e6)} and ${Math.round(length(next) / 1e6)} ms, and the end of the process`;
}

async function showsRanks(it) {
  const seen = await it.settled();
  assert.ok(seen.rectangles > 100);
  const groups = await it.page.locator("#panel-timeline .group-name").allTextContents();
  for (const rank of [0, 1, 2, 3]) {
    assert.ok(groups.some((text) => text.includes(`rank ${rank}`)), `rank ${rank} in ${groups}`);
  }
  const align = it.page.locator('#panel-timeline [data-role="align"]');
  assert.equal(await align.textContent(), "on one clock");
  await it.picture("clock");
  await align.click();
  await it.until((now) => now.to !== seen.to);
  assert.match(await align.textContent(), /begin/);
  const first = it.page.locator("#panel-timeline .group-name").first();
  await first.click();
  assert.equal(await first.getAttribute("aria-expanded"), "false");
  await it.picture("folded");
  return `${groups.length} groups of four ranks`;
}

async function tellsWhenServerIsGone(it) {
  await it.settled();
  it.server.stop();
  await it.page.locator("#panel-timeline .timeline-body").focus();
  for (const key of ["w", "w", "w", "d"]) await it.page.keyboard.press(key, { delay: 120 });
  await it.page.waitForSelector(".banner:not([hidden])");
  const said = await it.page.locator(".banner").textContent();
  assert.match(said, /does not answer/);
  await it.picture("gone");
  // The browser itself complains of refused connections, as it must.
  it.errors.length = 0;
  return said.slice(0, 40);
}

async function helpAndTheme(it) {
  await it.settled();
  await it.page.keyboard.press("?");
  await it.page.waitForSelector("dialog[open]");
  await it.picture("help");
  await it.page.keyboard.press("Escape");
  await it.page.waitForSelector("dialog:not([open])", { state: "attached" });
  const theme = () => it.page.evaluate(() => document.documentElement.dataset.theme);
  assert.equal(await theme(), "dark");
  await it.picture("dark");
  await it.page.getByRole("button", { name: "Dark or light" }).click();
  assert.equal(await theme(), "light");
  const unnamed = await it.page.evaluate(() =>
    [...document.querySelectorAll("button, input, select, textarea, canvas")]
      .filter((control) => !control.textContent.trim() && !control.ariaLabel && !control.title).length);
  assert.equal(unnamed, 0, "controls without a name");
  return "help, dark, light, every control has a name";
}

/** What PyTorch recorded of memory is a line, whose words are sizes. */
async function showsMemory(it) {
  await it.settled();
  const names = await it.page.locator("#panel-timeline .track-name").allTextContents();
  const memory = names.filter((name) => name.includes("memory, "));
  assert.ok(memory.some((name) => /GPU 0 memory, allocated.* (KiB|MiB)/.test(name)), `${memory}`);
  const track = await it.page.locator(".track-name", { hasText: "GPU 0 memory, allocated" }).boundingBox();
  const canvas = await it.page.locator("#panel-timeline .tracks").boundingBox();
  await it.page.mouse.move(canvas.x + canvas.width / 2, track.y + track.height / 2);
  await it.page.waitForSelector("#panel-timeline .tooltip:not([hidden])");
  const said = await it.page.locator("#panel-timeline .tooltip").textContent();
  assert.match(said, /GPU 0 memory, allocated[\d.]+ [KM]iB/);
  await it.picture("memory");
  return `${memory.length} counters: ${said}`;
}

/** Drawn calls say their samples, waits their reason and who ended them; ranges and flames both. */
async function showsSamples(it) {
  await it.settled();
  await it.search("run");
  await it.page.locator('[data-role="found"]').first().click();
  const samples = it.page.locator('[data-role="sampled"]');
  await samples.waitFor();
  assert.match(await samples.textContent(), /CPU time2\.857 ms.*cpu-clock2 samples.*page-faults2 samples, 2 faults.*\/usr\/bin\/app/);
  await it.picture("call");
  await it.search("[blocked: mutex]");
  await it.page.locator('[data-role="found"]').first().click();
  const state = it.page.locator('[data-role="state"]');
  await state.waitFor();
  assert.match(await state.textContent(), /Wait reasonmutex.*Wakerio 302/);
  assert.match(await state.locator('[data-role="waker-stack"]').textContent(), /pthread_mutex_unlock.*finish/);
  await it.picture("wait");
  const ruler = await it.page.locator("#panel-timeline .ruler").boundingBox();
  await it.page.mouse.move(ruler.x + 2, ruler.y + 10);
  await it.page.mouse.down();
  await it.page.mouse.move(ruler.x + ruler.width - 4, ruler.y + 12, { steps: 8 });
  await it.page.mouse.up();
  await it.page.waitForSelector(".range .section");
  const range = await it.page.locator(".range").textContent();
  assert.match(range, /CPU time: 10.000 ms in 7 samples/);
  assert.match(range, /hot4.286 ms/);
  assert.match(range, /mutex/);
  await it.picture("range");
  await it.page.getByRole("tab", { name: "Flame graph", exact: true }).click();
  await it.page.waitForSelector("#panel-flame[data-frames]");
  await it.picture("flame");
  return "a drawn call, a wait, a range, a flame graph";
}

/** Nothing that cannot be seen, or that turns text around, reaches the page. */
async function hostileNames(it) {
  await it.settled();
  await it.search("r");
  await it.picture("names");
  const text = await it.page.evaluate(() => document.body.textContent);
  const hidden = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/;
  assert.doesNotMatch(text, hidden);
  assert.match(text, /\\u\{202e\}/);
  return "every letter can be seen";
}

/** On a small and on a large screen nothing is cut off or stands outside. */
async function fitsTheScreen(it) {
  const seen = await it.settled();
  assert.ok(seen.rectangles > 100, `${seen.rectangles} rectangles`);
  const isRested = () => [...document.querySelectorAll("#panel-compare .timeline")]
    .every(({ dataset }) => dataset.waiting === "false" && Number(dataset.rectangles) > 0);
  const panels = {
    Timeline: "#panel-timeline",
    "Flame graph": "#panel-flame[data-frames]",
    Compare: ".compare-tables .section",
    Findings: ".findings .section",
    SQL: "#panel-sql",
  };
  for (const [panel, whatIsThere] of Object.entries(panels)) {
    await it.page.getByRole("tab", { name: panel, exact: true }).click();
    await it.page.waitForSelector(whatIsThere);
    if (panel === "Compare") await it.page.waitForFunction(isRested);
    const outside = await it.page.evaluate(() => {
      const { scrollWidth, clientWidth } = document.documentElement;
      return scrollWidth - clientWidth;
    });
    assert.equal(outside, 0, `${panel} is ${outside} pixels too wide`);
    await it.picture(panel.toLowerCase().replace(" ", "-"));
  }
  return `${Object.keys(panels).length} panels`;
}

async function opensAnyFormat(it) {
  const seen = await it.settled();
  assert.ok(seen.rectangles > 0, "nothing painted");
  await it.picture("open");
  assert.equal(await it.page.evaluate(() => document.querySelectorAll("script, img, iframe").length), 1);
  return `${seen.rectangles} rectangles`;
}

const CASES = [
  ["kernel-to-python", [LLAMA], fromKernelToPython],
  ["click", [LLAMA], clickAndEscape],
  ["moves", [LLAMA], movesAndZooms],
  ["range", [LLAMA], rangeAndFlame],
  ["address", [LLAMA], addressKeepsAll],
  ["findings", [LLAMA], findingsLead],
  ["sql", [LLAMA], asksSql],
  ["cancel", [LLAMA], cancelsSql],
  ["pages", [LLAMA], writesPages],
  ["compare", [LLAMA, LLAMA_EAGER], comparesTwo],
  ["compare-rows", [LLAMA, LLAMA_EAGER], rowsLeadToBoth],
  ["compare-flames", [LLAMA, LLAMA_EAGER], comparesFlames],
  ["groups", RANKS, groupsFlames],
  ["live", [], followsLive],
  ["top", [], watchesProcess, { isWatched: true }],
  ["ranks", RANKS, showsRanks],
  ["gone", [LLAMA], tellsWhenServerIsGone],
  ["help", [LLAMA], helpAndTheme, { scheme: "dark" }],
  ["memory", [FORMATS.memory], showsMemory],
  ["samples", [FORMATS.samples], showsSamples],
  ["hostile", [FORMATS["hostile-names"]], hostileNames],
  ["small-light", [LLAMA, LLAMA_EAGER], fitsTheScreen, { width: 1280, height: 720 }],
  ["small-dark", [LLAMA, LLAMA_EAGER], fitsTheScreen, { width: 1280, height: 720, scheme: "dark" }],
  ["large-light", [LLAMA, LLAMA_EAGER], fitsTheScreen, { width: 3840, height: 2160 }],
  ["large-dark", [LLAMA, LLAMA_EAGER], fitsTheScreen, { width: 3840, height: 2160, scheme: "dark" }],
  ...Object.entries(FORMATS).map(([name, trace]) => [`opens-${name}`, [trace], opensAnyFormat]),
  // Of these there is no recording that is small enough, so one is made of another.
  ["opens-perfetto", [LLAMA], opensAnyFormat, { as: "trace.perfetto-trace" }],
  ["opens-fxt", [LLAMA], opensAnyFormat, { as: "trace.fxt" }],
];

let failed = 0;
await startBrowser();
for (const [name, traces, check, options] of CASES) {
  if (process.env.ONLY && !name.includes(process.env.ONLY)) continue;
  let it;
  const folder = mkdtempSync(join(tmpdir(), "viewer-"));
  const session = join(folder, "running.spanwise-session");
  const busy = options?.isWatched ? spawn(process.execPath, ["-e", "for (;;) JSON.parse('[1]')"]) : null;
  try {
    const recorder = traces.length === 0 && busy === null ? new Recorder(session) : null;
    recorder?.work(20);
    const converted = options?.as === undefined ? traces : [convert(traces[0], join(folder, options.as))];
    const watched = busy === null ? {} : { watched: busy.pid };
    it = await visit(name, recorder === null ? converted : [session], { ...options, ...watched });
    Object.assign(it, { recorder, busy });
    const seen = await check(it);
    await it.end();
    console.log(`${name}: ${seen}`);
  } catch (error) {
    failed += 1;
    await it?.fail();
    console.log(`${name}: FAILED: ${error.message.split("\n").slice(0, 6).join("\n    ")}`);
  } finally {
    busy?.kill();
    rmSync(folder, { recursive: true });
  }
}
const [speedscope, perfetto] = [process.env.SPEEDSCOPE_PAGE, process.env.PERFETTO_PAGE];
for (const [name, look] of otherViewers({ speedscope, perfetto })) {
  if (process.env.ONLY && !name.includes(process.env.ONLY)) continue;
  try {
    console.log(`${name}: ${await look(LLAMA)}`);
  } catch (error) {
    failed += 1;
    console.log(`${name}: FAILED: ${error.message.split("\n").slice(0, 6).join("\n    ")}`);
  }
}
await stopBrowser();
process.exit(failed === 0 ? 0 : 1);

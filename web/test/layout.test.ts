import assert from "node:assert/strict";
import { test } from "node:test";
import type { TraceInfo, TrackInfo } from "../src/server/protocol";
import { Source } from "../src/state/source";
import { layoutOf, lineAt, linesBetween, trackLineOf } from "../src/timeline/layout";

function track(id: number, process: string, more: Partial<TrackInfo> = {}): TrackInfo {
  return { id, kind: "thread", process, process_name: "python", thread: String(id), thread_name: null, spans: 10, rows: 3, marks: 0, least: null, most: null, unit: "number", ...more };
}

function source(id: number, tracks: TrackInfo[]): Source {
  const trace: TraceInfo = { id, file: `${id}.json`, producer: null, rank: id, from: 100, began: null, to: 200, spans: 1, live: false, read: 0, notices: [], tracks };
  return new Source(trace);
}

const ONE = source(0, [
  track(1, "7"),
  track(2, "8", { kind: "counter", spans: 0, rows: 0, least: 0, most: 5 }),
  track(3, "7", { marks: 2 }),
  track(4, "7", { spans: 0, rows: 0 }),
]);

test("tracks of a process stand together, and empty ones are left out", () => {
  const { lines } = layoutOf([ONE], new Set());
  const shown = lines.map((line) => (line.type === "group" ? line.title : line.track.id));
  assert.deepEqual(shown, ["python 7", 1, 3, "python 8", 2]);
});

test("what only the profiler needs comes last", () => {
  const noise = source(0, [
    track(1, "1", { kind: "profiler" }),
    track(2, "2", { spans: 0, rows: 0, marks: 1 }),
    track(3, "3", { kind: "gpu_stream" }),
    track(4, "4"),
  ]);
  const { lines } = layoutOf([noise], new Set());
  const shown = lines.flatMap((line) => (line.type === "group" ? [] : [line.track.id]));
  assert.deepEqual(shown, [3, 4, 1, 2]);
});

test("lines follow each other without gaps", () => {
  const { lines, height } = layoutOf([ONE, source(1, [track(1, "7")])], new Set());
  let top = 0;
  for (const line of lines) {
    assert.equal(line.top, top);
    top += line.height;
  }
  assert.equal(height, top);
});

test("a folded group hides its tracks, a folded track its inner rows", () => {
  const folded = layoutOf([ONE], new Set(["0/python 7"]));
  assert.equal(trackLineOf(folded, 0, 1), undefined);
  assert.ok(trackLineOf(folded, 0, 2) !== undefined);
  const inner = trackLineOf(layoutOf([ONE], new Set(["0/1"])), 0, 1);
  assert.equal(inner?.rows, 1);
});

test("several traces say which is which", () => {
  const { lines } = layoutOf([ONE, source(1, [track(1, "7")])], new Set());
  const titles = lines.flatMap((line) => (line.type === "group" ? [line.title] : []));
  assert.deepEqual(titles, ["rank 0 · python 7", "rank 0 · python 8", "rank 1 · python 7"]);
  const gpu = source(0, [track(1, "7", { kind: "gpu_stream" })]);
  const [first] = layoutOf([ONE, gpu], new Set()).lines;
  assert.equal(first?.type === "group" && first.title, "python 7 · rank 0 · 0.json");
  const [stream] = layoutOf([gpu], new Set()).lines;
  assert.equal(stream?.type === "group" && stream.title, "GPU 7");
});

test("a height leads to its line", () => {
  const { lines, height } = layoutOf([ONE], new Set());
  for (let y = 0; y < height; y++) {
    const expected = lines.find((line) => line.top <= y && y < line.top + line.height);
    assert.equal(lineAt(lines, y), expected);
  }
  assert.equal(lineAt(lines, height), undefined);
  assert.equal(lineAt(lines, -1), undefined);
  assert.deepEqual(linesBetween(lines, 0, 1), [lines[0]]);
});

test("all traces begin at the screen's zero, unless one is shifted", () => {
  assert.deepEqual(ONE.bounds, { from: 0, to: 100 });
  assert.deepEqual(new Source(ONE.trace, 30).bounds, { from: 30, to: 130 });
  assert.deepEqual(new Source(ONE.trace, 30).toTrace({ from: 30, to: 40 }), { from: 100, to: 110 });
});

import assert from "node:assert/strict";
import { test } from "node:test";
import type { SliceTable } from "../src/server/decode";
import { markAt, pointAt, spanAt } from "../src/timeline/pointing/hit";
import type { TrackPicture } from "../src/timeline/store";

const SLICES: SliceTable = {
  count: 4,
  names: new Map([[0, "outer"], [1, "inner"]]),
  labels: new Map(),
  tracks: [],
  start: new Float64Array([0, 10, 50, 500]),
  dur: new Float64Array([100, 20, 1, 10]),
  span: new Uint32Array([1, 2, 3, 4]),
  name: new Uint32Array([0, 1, 1, 0]),
  merged: new Uint32Array([1, 1, 7, 1]),
  row: new Uint32Array([0, 1, 1, 0]),
  busy: new Float32Array([1, 1, 0.5, 1]),
  kind: new Uint8Array([1, 2, 2, 1]),
};
const PICTURE: TrackPicture = {
  chunk: { key: "", range: { from: 0, to: 1000 }, pixels: 100 },
  slices: SLICES,
  first: 0,
  len: 3,
  points: [],
  marks: [[10, 1, 0], [14, 3, 1]],
  markNames: ["one", "two"],
};

test("the span of a row at a time, or just beside it", () => {
  const lines: [row: number, time: number, span: number | undefined][] = [
    [0, 0, 1],
    [0, 100, 1],
    [0, 103, undefined],
    [1, 15, 2],
    [1, 31, 2],
    [1, 40, undefined],
    [1, 52, 3],
    [0, 505, undefined],
  ];
  for (const [row, time, span] of lines) assert.equal(spanAt(PICTURE, row, time, 2)?.span, span, `row ${row} at ${time}`);
});

test("of several within reach the shortest is taken", () => {
  assert.equal(spanAt(PICTURE, 1, 40, 25)?.span, 3);
});

test("a counter keeps its value until it changes", () => {
  const points: [number, number, number, number][] = [[0, 1, 1, 1], [10, 2, 4, 3]];
  assert.equal(pointAt(points, -1), null);
  assert.equal(pointAt(points, 0)?.[3], 1);
  assert.equal(pointAt(points, 9)?.[3], 1);
  assert.equal(pointAt(points, 1_000)?.[3], 3);
});

test("the nearest mark within reach", () => {
  assert.equal(markAt(PICTURE, 11, 5)?.name, "one");
  assert.equal(markAt(PICTURE, 13, 5)?.name, "two");
  assert.equal(markAt(PICTURE, 100, 5), null);
});

import assert from "node:assert/strict";
import { test } from "node:test";
import type { TraceInfo } from "../src/server/protocol";
import { aligned, boundsOf, sharesClock } from "../src/state/source";

function trace(began: number | null, to: number): TraceInfo {
  return { id: 0, file: "a", producer: null, rank: null, from: 0, began, to, spans: 1, live: false, read: 0, notices: [], tracks: [] };
}

test("traces that were recorded at the same time share a clock, two runs do not", () => {
  const lines: [TraceInfo[], boolean][] = [
    [[trace(0, 100), trace(30, 100)], true],
    [[trace(0, 100), trace(30, 100), trace(99, 5)], true],
    [[trace(0, 100), trace(100, 100)], false],
    [[trace(0, 100), trace(null, 100)], false],
    [[trace(0, 100)], false],
  ];
  for (const [traces, expected] of lines) {
    assert.equal(sharesClock(traces), expected, JSON.stringify(traces.map(({ began }) => began)));
  }
});

test("on one clock a trace stands where it began, else at 0", () => {
  const traces = [trace(0, 100), trace(30, 100)];
  assert.deepEqual(aligned(traces, "clock").map(({ bounds }) => bounds.from), [0, 30]);
  assert.deepEqual(boundsOf(aligned(traces, "clock")), { from: 0, to: 130 });
  assert.deepEqual(boundsOf(aligned(traces, "starts")), { from: 0, to: 100 });
});

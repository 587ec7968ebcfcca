import assert from "node:assert/strict";
import { test } from "node:test";
import { takeGrown } from "../src/server/live";
import type { TraceInfo } from "../src/server/protocol";
import { wholeOf, type Range } from "../src/drawing/scale";
import { Source } from "../src/state/source";
import { State } from "../src/state/state";

function trace(to: number, live = true): TraceInfo {
  const read = to;
  return { id: 0, file: "a", producer: null, rank: null, from: 100, began: null, to, spans: 1, live, read, notices: [], tracks: [] };
}

/** What is on the screen after a trace of 1000 has grown to 2000. */
function viewAfter(view: Range | null): { state: State; notified: number[] } {
  const state = new State();
  state.sources.set([new Source(trace(1100))]);
  state.view.set(view ?? wholeOf(state.bounds));
  const notified: number[] = [];
  takeGrown(state, [trace(2100)], ({ to }) => notified.push(to));
  return { state, notified };
}

test("who sees the whole goes on seeing the whole", () => {
  const { state, notified } = viewAfter(null);
  assert.ok(state.view.value.from <= 0 && state.view.value.to >= 2000);
  assert.deepEqual(notified, [2100]);
});

test("a view of the end follows it, as close as before", () => {
  const { state } = viewAfter({ from: 900, to: 1000 });
  assert.deepEqual(state.view.value, { from: 1900, to: 2000 });
});

test("a view of another range stays there", () => {
  const { state } = viewAfter({ from: 200, to: 300 });
  assert.deepEqual(state.view.value, { from: 200, to: 300 });
  assert.deepEqual(state.bounds, { from: 0, to: 2000 });
});

test("a trace that does not grow changes nothing", () => {
  const state = new State();
  const sources = [new Source(trace(1100))];
  state.sources.set(sources);
  takeGrown(state, [trace(1100)], () => assert.fail("it has not grown"));
  assert.equal(state.sources.value, sources);
});

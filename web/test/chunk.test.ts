import assert from "node:assert/strict";
import { test } from "node:test";
import { overlapOf } from "../src/drawing/scale";
import { chunkOf, covers } from "../src/timeline/chunk";

const BOUNDS = { from: 1_000, to: 5_000_000 };

/** Views of many lengths and places. */
function* views(): Generator<{ from: number; to: number }> {
  let seed = 1;
  const random = (): number => (seed = (seed * 48_271) % 2_147_483_647) / 2_147_483_647;
  for (let at = 0; at < 500; at++) {
    const length = 20 * 10 ** (random() * 5.5);
    const from = random() * 5_500_000 - 200_000;
    yield { from, to: from + length };
  }
}

test("a chunk covers what can be seen, at least as finely", () => {
  for (const view of views()) {
    const seen = overlapOf(view, BOUNDS);
    if (seen === null) continue;
    const chunk = chunkOf(view, 1000, BOUNDS);
    assert.ok(covers(chunk, { from: Math.ceil(seen.from), to: Math.floor(seen.to) }), JSON.stringify({ view, chunk }));
    const perPixel = (chunk.range.to - chunk.range.from) / chunk.pixels;
    assert.ok(perPixel <= (view.to - view.from) / 1000 + 1, "too coarse");
    assert.ok(chunk.pixels <= 3001, `${chunk.pixels} pixels`);
  }
});

test("a chunk asks for whole nanoseconds within the trace", () => {
  for (const view of views()) {
    const { range, pixels } = chunkOf(view, 1000, BOUNDS);
    assert.ok(Number.isInteger(range.from) && Number.isInteger(range.to) && Number.isInteger(pixels));
    assert.ok(range.from < range.to && range.to <= BOUNDS.to);
    if (overlapOf(view, BOUNDS) !== null) assert.ok(range.from >= BOUNDS.from);
  }
});

test("a small step needs no new answer", () => {
  const one = chunkOf({ from: 300_000, to: 400_000 }, 1000, BOUNDS);
  assert.equal(chunkOf({ from: 300_500, to: 400_500 }, 1000, BOUNDS).key, one.key);
  assert.notEqual(chunkOf({ from: 900_000, to: 1_000_000 }, 1000, BOUNDS).key, one.key);
});

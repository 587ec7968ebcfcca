import assert from "node:assert/strict";
import { test } from "node:test";
import { around, insideOf, lengthOf, overlapOf, panBy, revealed, ticksOf, timeAt, wholeOf, xOf, zoomAt } from "../src/drawing/scale";

const BOUNDS = { from: 0, to: 1_000_000 };

test("pixels and times are each other's inverse", () => {
  const view = { from: -50, to: 1950 };
  for (const x of [0, 17, 500, 999]) assert.ok(Math.abs(xOf(timeAt(x, view, 1000), view, 1000) - x) < 1e-9);
});

test("zooming keeps the time under the pointer", () => {
  const view = { from: 200_000, to: 600_000 };
  for (const at of [250_000, 400_000, 550_000]) {
    const zoomed = zoomAt(view, 0.5, at, BOUNDS);
    assert.ok(Math.abs(xOf(at, zoomed, 1000) - xOf(at, view, 1000)) < 1e-6);
    assert.equal(lengthOf(zoomed), 200_000);
  }
});

test("zooming ends at the whole and at a few nanoseconds", () => {
  const view = { from: 0, to: 1_000_000 };
  assert.equal(lengthOf(zoomAt(view, 100, 500_000, BOUNDS)), lengthOf(wholeOf(BOUNDS)));
  assert.equal(lengthOf(zoomAt(view, 1e-12, 500_000, BOUNDS)), 20);
});

test("a view never leaves what there is", () => {
  const view = { from: 0, to: 100_000 };
  for (const by of [-1e9, -1, 0, 1, 1e9]) {
    const moved = panBy(view, by, BOUNDS);
    assert.ok(overlapOf(moved, BOUNDS) !== null, `panned by ${by}`);
    assert.equal(lengthOf(moved), 100_000);
  }
  assert.ok(lengthOf(insideOf({ from: 5, to: 5 }, { from: 0, to: 0 })) > 0);
});

test("what is revealed is in the view, and the zoom stays where it can", () => {
  const view = { from: 0, to: 10_000 };
  const inside = { from: 10, to: 20 };
  assert.equal(revealed(view, inside, BOUNDS), view);
  const far = { from: 500_000, to: 500_010 };
  const moved = revealed(view, far, BOUNDS);
  assert.ok(moved.from <= far.from && far.to <= moved.to);
  assert.equal(lengthOf(moved), lengthOf(view));
  const long = { from: 100_000, to: 900_000 };
  const wider = revealed(view, long, BOUNDS);
  assert.ok(wider.from <= long.from && long.to <= wider.to);
});

test("a span has room around it", () => {
  const view = around({ from: 400_000, to: 500_000 }, BOUNDS);
  assert.deepEqual(view, { from: 350_000, to: 550_000 });
});

test("ticks are round, in the view, and far enough apart", () => {
  for (const view of [{ from: 0, to: 1e9 }, { from: -3, to: 17 }, { from: 812_345_670, to: 812_345_990 }]) {
    const { step, times } = ticksOf(view, 1000, 100);
    assert.match(String(step), /^[125]0*$/);
    assert.ok(times.length >= 1 && times.length <= 11, `${times.length} ticks`);
    for (const time of times) assert.ok(time >= view.from && time <= view.to && time % step === 0);
  }
});

test("ranges are cut at limits", () => {
  assert.deepEqual(overlapOf({ from: -5, to: 5 }, { from: 0, to: 10 }), { from: 0, to: 5 });
  assert.equal(overlapOf({ from: 10, to: 20 }, { from: 0, to: 10 }), null);
});

import assert from "node:assert/strict";
import { test } from "node:test";
import { PAINTS, pixelOf, pixelOfHex, spanHsl } from "../src/drawing/color";
import type { SliceTable } from "../src/server/decode";
import { learnKinds } from "../src/drawing/kinds";
import { Labels } from "../src/timeline/painting/labels";
import { fillRows, firstOfRow, firstVisible } from "../src/timeline/painting/slices";

type Row = [row: number, start: number, dur: number, name: number, busy?: number];

function table(rows: Row[]): SliceTable {
  const column = (at: 0 | 1 | 2 | 3): number[] => rows.map((row) => row[at]);
  return {
    count: rows.length,
    names: new Map([[0, "a"], [1, "b"]]),
    labels: new Map(),
    start: Float64Array.from(column(1)),
    dur: Float64Array.from(column(2)),
    span: new Uint32Array(rows.length),
    name: Uint32Array.from(column(3)),
    merged: Uint32Array.from(rows.map((row) => (row[4] === undefined ? 1 : 2))),
    row: Uint32Array.from(column(0)),
    busy: Float32Array.from(rows.map((row) => row[4] ?? 1)),
    kind: new Uint8Array(rows.length).fill(2),
    tracks: [],
  };
}

/** A line of pixels as letters: names as they are, "'" for the half pixel behind wide ones, large
 * letters for pale ones, "^" for what was found, a dot for nothing. */
function line(pixels: Uint32Array, from: number, width: number): string {
  const color = (name: string): number => pixelOf(spanHsl(2, name, "light")) & 0xffffff;
  const letter = (pixel: number): string => {
    if (pixel === 0) return ".";
    if (pixel === pixelOfHex(PAINTS.light.hit)) return "^";
    const alpha = pixel >>> 24;
    const name = (pixel & 0xffffff) === color("a") ? "a" : (pixel & 0xffffff) === color("b") ? "b" : "?";
    return alpha === 255 ? name : alpha === 127 ? "'" : name.toUpperCase();
  };
  return [...pixels.slice(from, from + width)].map(letter).join("");
}

interface ViewOptions { from?: number; width?: number; ratio?: number; rows?: [number, number]; search?: string }

/** What is filled of a table when a nanosecond is a pixel: a text for each row, and below each
 * where something is sought. */
function filled(rows: Row[], { from = 0, width = 12, ratio = 1, rows: [firstRow, lastRow] = [0, 1], search = "" }: ViewOptions = {}): string[] {
  learnKinds(["other", "python", "operator"]);
  const lines = lastRow - firstRow;
  const wide = width * ratio;
  const pixels = new Uint32Array(wide * lines * 2);
  const foundBelow = search === "" ? 0 : lines;
  const labels = new Labels();
  const painting = { pixels, width: wide, ratio, theme: "light" as const, search, foundBelow, foundPixel: pixelOfHex(PAINTS.light.hit), labels };
  const all = { slices: table(rows), first: 0, len: rows.length, firstRow, lastRow, line: 0, y: 0 };
  fillRows(painting, all, { from, pixelsPerNano: 1, width });
  return Array.from({ length: lines + foundBelow }, (_, at) => line(pixels, at * wide, wide));
}

test("rows and times are found by halving, as by looking at all", () => {
  const rows: Row[] = [];
  for (const row of [0, 2, 3]) for (let at = 0; at < 7; at++) rows.push([row, at * 10 + row, 6, 0]);
  const all = table(rows);
  for (let row = 0; row < 5; row++) {
    const expected = rows.findIndex((it) => it[0] >= row);
    assert.equal(firstOfRow(all, 0, rows.length, row), expected < 0 ? rows.length : expected);
  }
  for (let time = -5; time < 90; time++) {
    const expected = rows.slice(0, 7).findIndex(([, start, dur]) => start + dur >= time);
    assert.equal(firstVisible(all, 0, 7, time), expected < 0 ? 7 : expected, `${time}`);
  }
});

test("narrow ones are whole pixels, wide ones have a gap behind them", () => {
  assert.deepEqual(filled([[0, 0, 2, 0], [0, 2, 2, 1], [0, 6, 0.2, 0]]), ["aabb..a....."]);
  assert.deepEqual(filled([[0, 0, 5, 0], [0, 5, 5, 1]]), ["aaaa'bbbb'.."]);
  assert.deepEqual(filled([[0, 1, 2, 0]], { width: 6, ratio: 2 }), ["..aaa'......"]);
});

test("only what is on the screen is filled", () => {
  const rows: Row[] = [[0, 0, 5, 0], [0, 50, 20, 0], [0, 200, 5, 0], [1, 0, 500, 1], [2, 68, 3, 0]];
  assert.deepEqual(filled(rows, { from: 60, rows: [0, 3] }), ["aaaaaaaaa'..", "bbbbbbbbbbbb", "........aaa."]);
  assert.deepEqual(filled(rows, { from: 60, rows: [1, 2] }), ["bbbbbbbbbbbb"]);
  assert.deepEqual(filled([[0, 11.9, 0.05, 0], [0, 12, 3, 1]]), ["...........a"]);
});

test("of those that share a pixel the one that covers most is seen, and none hides its neighbor", () => {
  assert.deepEqual(filled([[0, 0, 0.3, 0, 0.1], [0, 0.4, 0.3, 1, 0.9]], { width: 3 }), ["B.."]);
  assert.deepEqual(filled([[0, 0, 0.3, 0, 0.9], [0, 0.4, 0.3, 1, 0.1]], { width: 3 }), ["A.."]);
  assert.deepEqual(filled([[0, 0, 0.1, 0], [0, 0.2, 2.5, 1]], { width: 3 }), ["abb"]);
});

test("what is sought is underlined, all else pale", () => {
  assert.deepEqual(filled([[0, 0, 2, 0], [0, 2, 2, 1], [0, 6, 0.2, 0]], { search: "A" }), ["aaBB..a.....", "^^....^....."]);
});

import assert from "node:assert/strict";
import { test } from "node:test";
import { PAINTS } from "../src/colour";
import type { SliceTable } from "../src/decode";
import { learnKinds } from "../src/kinds";
import { firstOfRow, firstVisible, paintRows } from "../src/timeline/slices";

type Row = [row: number, start: number, dur: number, name: number];

function table(rows: Row[]): SliceTable {
  const column = (at: 0 | 1 | 2 | 3): number[] => rows.map((row) => row[at]);
  return {
    count: rows.length,
    names: new Map([[0, "a"], [1, "b"]]),
    start: Float64Array.from(column(1)),
    dur: Float64Array.from(column(2)),
    span: new Uint32Array(rows.length),
    name: Uint32Array.from(column(3)),
    merged: new Uint32Array(rows.length).fill(1),
    row: Uint32Array.from(column(0)),
    busy: new Float32Array(rows.length).fill(1),
    kind: new Uint8Array(rows.length).fill(2),
    tracks: [],
  };
}

/** The rectangles that are painted of a table when a nanosecond is a pixel: "x w y". */
function painted(rows: Row[], { from = 0, width = 100, top = 0, bottom = 1000, grain = 1 } = {}): string[] {
  learnKinds(["other", "python", "operator"]);
  const made: string[] = [];
  const fillRect = (x: number, y: number, w: number): void => void made.push(`${x} ${w} ${y}`);
  const measureText = (): TextMetrics => ({ width: 10 }) as TextMetrics;
  const context = { fillRect, measureText, fillText: () => {} } as unknown as CanvasRenderingContext2D;
  const all = { slices: table(rows), first: 0, len: rows.length, top: 0, rows: 9, limits: { top, bottom }, grain };
  const count = paintRows(context, all, { from, pixelsPerNano: 1, width }, PAINTS.light, "");
  assert.ok(count >= made.length && count <= rows.length);
  return made;
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

test("narrow neighbours that look the same are one rectangle", () => {
  assert.deepEqual(painted([[0, 0, 2, 0], [0, 2, 2, 0], [0, 4, 2, 0]]), ["0 6 0"]);
  assert.deepEqual(painted([[0, 0, 2, 0], [0, 2, 2, 1], [0, 4, 2, 0]]), ["0 2 0", "2 2 0", "4 2 0"]);
  assert.deepEqual(painted([[0, 0, 2, 0], [0, 5, 2, 0]]), ["0 2 0", "5 2 0"]);
});

test("wide ones stay apart, also from narrow ones", () => {
  assert.deepEqual(painted([[0, 0, 10, 0], [0, 10, 2, 0], [0, 12, 10, 0]]), ["0 9.5 0", "10 2 0", "12 9.5 0"]);
});

test("only what is on the screen is painted", () => {
  const rows: Row[] = [[0, 0, 5, 0], [0, 50, 20, 0], [0, 200, 5, 0], [1, 0, 500, 1], [2, 60, 10, 0]];
  assert.deepEqual(painted(rows, { from: 60, width: 30 }), ["-1 10.5 0", "-1 31.5 18", "0 9.5 36"]);
  assert.deepEqual(painted(rows, { from: 60, width: 30, top: 20, bottom: 30 }), ["-1 31.5 18"]);
});

test("where there is no time, narrow ones share a few pixels", () => {
  const rows: Row[] = Array.from({ length: 8 }, (_, at) => [0, at, 0.9, at % 2]);
  assert.equal(painted(rows).length, 8);
  assert.deepEqual(painted(rows, { grain: 4 }), ["0 8 0"]);
  assert.deepEqual(painted([[0, 0, 30, 0], ...rows.map(([row, at, dur, name]): Row => [row, 40 + at, dur, name])], { grain: 4 }), ["0 29.5 0", "40 8 0"]);
});

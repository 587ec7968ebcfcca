import assert from "node:assert/strict";
import { test } from "node:test";
import { decodeSlices } from "../src/server/decode";

interface Rectangle {
  start: number;
  dur: number;
  span: number;
  name: number;
  count: number;
  row: number;
  busy: number;
  kind: number;
}

/** The server's side of the contract, column by column. */
function encode(rectangles: Rectangle[], header: object): ArrayBuffer {
  let text = JSON.stringify(header);
  while ((new TextEncoder().encode(text).length + 4) % 8 !== 0) text += " ";
  const bytes = new TextEncoder().encode(text);
  const body = new ArrayBuffer(4 + bytes.length + rectangles.length * 37);
  const view = new DataView(body);
  view.setUint32(0, bytes.length, true);
  new Uint8Array(body, 4).set(bytes);
  let at = 4 + bytes.length;
  const column = (size: number, set: (at: number, it: Rectangle) => void): void => {
    for (const rectangle of rectangles) {
      set(at, rectangle);
      at += size;
    }
  };
  column(8, (here, it) => view.setFloat64(here, it.start, true));
  column(8, (here, it) => view.setFloat64(here, it.dur, true));
  column(4, (here, it) => view.setUint32(here, it.span, true));
  column(4, (here, it) => view.setUint32(here, it.name, true));
  column(4, (here, it) => view.setUint32(here, it.count, true));
  column(4, (here, it) => view.setUint32(here, it.row, true));
  column(4, (here, it) => view.setFloat32(here, it.busy, true));
  column(1, (here, it) => view.setUint8(here, it.kind));
  return body;
}

const RECTANGLES = [
  { start: 1, dur: 2, span: 3, name: 4, count: 5, row: 6, busy: 0.5, kind: 7 },
  { start: 8_640_000_000_000_001, dur: 9, span: 10, name: 4, count: 1, row: 0, busy: 1, kind: 1 },
  { start: 11, dur: 0, span: 4_294_967_295, name: 12, count: 1, row: 2, busy: 0, kind: 0 },
];
const TRACKS = [{ id: 5, first: 0, len: 3 }];
const HEADER = { count: 3, tracks: TRACKS, names: { "4": "aten::mm", "12": "größer ✓" }, labels: { "12": "✓" } };

test("every column comes back", () => {
  const table = decodeSlices(encode(RECTANGLES, HEADER));
  assert.deepEqual(table.tracks, TRACKS);
  for (const [at, it] of RECTANGLES.entries()) {
    const { start, dur, span, name, merged, row, busy, kind } = table;
    const found = { start: start[at], dur: dur[at], span: span[at], name: name[at], count: merged[at], row: row[at], busy: busy[at], kind: kind[at] };
    assert.deepEqual(found, it);
  }
  assert.equal(table.names.get(12), "größer ✓");
  assert.equal(table.labels.get(12), "✓");
});

test("nothing is an answer too", () => {
  assert.equal(decodeSlices(encode([], { count: 0, tracks: [], names: {}, labels: {} })).count, 0);
});

test("an answer that is cut off is refused", () => {
  const whole = encode(RECTANGLES, HEADER);
  for (const length of [0, 3, 4, 12, whole.byteLength - 1]) {
    assert.throws(() => decodeSlices(whole.slice(0, length)), /slices|JSON/, `${length} bytes`);
  }
});

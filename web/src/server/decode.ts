// The binary answer of api/slices as typed arrays, without copying.

import { printable } from "../drawing/printable";

export interface SliceTable {
  count: number;
  names: ReadonlyMap<number, string>;
  /** What to paint instead of long names. */
  labels: ReadonlyMap<number, string>;
  start: Float64Array;
  dur: Float64Array;
  span: Uint32Array;
  name: Uint32Array;
  /** How many spans a rectangle stands for. */
  merged: Uint32Array;
  row: Uint32Array;
  busy: Float32Array;
  kind: Uint8Array;
  /** Which rectangles are whose. */
  tracks: { id: number; first: number; len: number }[];
}

interface Header {
  count: number;
  tracks: { id: number; first: number; len: number }[];
  names: Record<string, string>;
  labels: Record<string, string>;
}

const BYTES_PER_RECTANGLE = 8 * 2 + 4 * 5 + 1;

function texts(record: Record<string, string>): Map<number, string> {
  return new Map(Object.entries(record).map(([key, name]) => [Number(key), printable(name)]));
}

/** Throws where the answer is not what the contract says: the page and server differ then. */
export function decodeSlices(body: ArrayBuffer): SliceTable {
  if (body.byteLength < 4) throw new Error(`slices: ${body.byteLength} bytes are no answer`);
  const headerLength = new DataView(body).getUint32(0, true);
  const columns = 4 + headerLength;
  if (columns % 8 !== 0 || columns > body.byteLength) {
    throw new Error(`slices: a header of ${headerLength} bytes does not fit`);
  }
  const text = new TextDecoder().decode(new Uint8Array(body, 4, headerLength));
  const header = JSON.parse(text) as Header;
  const { count } = header;
  if (columns + count * BYTES_PER_RECTANGLE > body.byteLength) {
    throw new Error(`slices: ${count} rectangles do not fit into ${body.byteLength} bytes`);
  }
  let at = columns;
  const next = (bytes: number): number => {
    const here = at;
    at += bytes * count;
    return here;
  };
  return {
    count,
    tracks: header.tracks,
    names: texts(header.names),
    labels: texts(header.labels),
    start: new Float64Array(body, next(8), count),
    dur: new Float64Array(body, next(8), count),
    span: new Uint32Array(body, next(4), count),
    name: new Uint32Array(body, next(4), count),
    merged: new Uint32Array(body, next(4), count),
    row: new Uint32Array(body, next(4), count),
    busy: new Float32Array(body, next(4), count),
    kind: new Uint8Array(body, next(1), count),
  };
}

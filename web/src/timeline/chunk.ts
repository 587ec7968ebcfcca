// What to ask the server for, given what is on the screen: a little more than is seen, cut
// at a grid, so that a small step to the side or nearer needs no new question and coming
// back to a place finds the old answer.

import { lengthOf, type Range } from "../drawing/scale";

export interface Chunk {
  key: string;
  range: Range;
  pixels: number;
}

/**
 * Covers the part of the view that is within the bounds, in the trace's own time. The grid's
 * cells are half a power of two long and a chunk is three of them, so it always covers a
 * view up to that power, at no less than the view's own resolution.
 */
export function chunkOf(view: Range, width: number, bounds: Range): Chunk {
  const cell = 2 ** Math.ceil(Math.log2(Math.max(lengthOf(view), 2))) / 2;
  const first = Math.floor((view.from - bounds.from) / cell) * cell + bounds.from;
  const from = Math.floor(Math.max(first, bounds.from));
  const to = Math.ceil(Math.min(first + 3 * cell, bounds.to));
  const range = { from: Math.min(from, to - 1), to };
  // The shortest view that asks for this chunk is one cell long and `width` pixels wide.
  const pixels = Math.max(1, Math.ceil((lengthOf(range) / cell) * width));
  return { key: `${range.from}-${range.to}/${pixels}`, range, pixels };
}

export function covers(chunk: Chunk, range: Range): boolean {
  return chunk.range.from <= range.from && range.to <= chunk.range.to;
}

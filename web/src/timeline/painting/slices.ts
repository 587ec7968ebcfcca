// The spans of one track as lines of pixels: what runs 60 times per second. Rectangles come row by
// row, in order of time and without overlap, so what is on the screen is found by halving.

import { pixelOf, spanHsl, type Theme } from "../../drawing/color";
import type { SliceTable } from "../../server/decode";
import type { Labels } from "./labels";
import { ROW_HEIGHT } from "../layout";
import type { Projection } from "./paint";

const LABEL_WIDTH_MIN = 28;
const DIMMED = 0.3;
/** Wider ones have a gap behind them. */
const NARROW_MAX = 3;

/** Where one frame is painted to. */
export interface Painting {
  pixels: Uint32Array;
  /** Pixels of the screen in a line, and for each of CSS. */
  width: number;
  ratio: number;
  theme: Theme;
  search: string;
  /** How many lines below its own one a row has the line for what was found, if any. */
  foundBelow: number;
  /** The color of what was found. */
  foundPixel: number;
  labels: Labels;
}

/** Rectangles of a track, which rows of it to fill (the last not included), and the line and
 * height of the first of those. */
export interface RowsFilled {
  slices: SliceTable;
  first: number;
  len: number;
  firstRow: number;
  lastRow: number;
  line: number;
  y: number;
}

/** Gives how many rectangles can be seen. */
export function fillRows(painting: Painting, rows: RowsFilled, projection: Projection): number {
  const { slices, first, len, firstRow, lastRow } = rows;
  const colors = colorsOf(slices, painting.theme);
  const found = painting.search === "" ? null : namesWith(slices, painting.search);
  let painted = 0;
  let at = firstOfRow(slices, first, first + len, firstRow);
  for (let row = firstRow; row < lastRow; row++) {
    const end = firstOfRow(slices, at, first + len, row + 1);
    painting.labels.y = rows.y + (row - firstRow) * ROW_HEIGHT;
    painted += fillRow(painting, rows.line + row - firstRow, slices, at, end, projection, colors, found);
    at = end;
  }
  return painted;
}

function fillRow(
  painting: Painting,
  line: number,
  slices: SliceTable,
  first: number,
  end: number,
  { from, pixelsPerNano, width: cssWidth }: Projection,
  colors: Colors,
  found: ReadonlySet<number> | null,
): number {
  const { pixels, width, ratio, labels } = painting;
  const { start, dur, name } = slices;
  const scale = pixelsPerNano * ratio;
  const labelMin = LABEL_WIDTH_MIN * ratio;
  const begin = line * width;
  const foundBelow = painting.foundBelow * width;
  let painted = 0;
  // Up to here there are pixels already.
  let reached = 0;
  for (let at = firstVisible(slices, first, end, from); at < end; at++) {
    const left = (start[at]! - from) * scale;
    if (left >= width) break;
    const wide = dur[at]! * scale;
    const right = left + wide;
    let x = left <= 0 ? 0 : Math.min((left + 0.5) | 0, width - 1);
    const to = right >= width ? width : Math.max((right + 0.5) | 0, x + 1);
    let pixel = colors.pixels[at] || pixelAt(slices, at, colors);
    painted++;
    if (found !== null) {
      if (found.has(name[at]!)) pixels.fill(painting.foundPixel, begin + foundBelow + x, begin + foundBelow + to);
      else pixel = dimmed(pixel);
    }
    if (x < reached) {
      // Of those that share a pixel, the one that covers most of it is seen.
      if (wide <= 1 && pixel >>> 24 > pixels[begin + x]! >>> 24) pixels[begin + x] = pixel;
      x = reached;
    }
    if (x >= to) continue;
    // A gap of half a pixel keeps neighbors apart where there is room for it.
    const solid = wide > NARROW_MAX && right < width ? to - 1 : to;
    fill(pixels, pixel, begin + x, begin + solid);
    if (solid < to) pixels[begin + solid] = halved(pixel);
    reached = to;
    if (wide >= labelMin) {
      labels.add(slices.labels.get(name[at]!) ?? slices.names.get(name[at]!) ?? "", left / ratio, right / ratio, cssWidth, pixel >>> 24);
    }
  }
  return painted;
}

/** Calling out for a few pixels costs more than writing them. */
function fill(pixels: Uint32Array, pixel: number, from: number, to: number): void {
  if (to - from > 16) pixels.fill(pixel, from, to);
  else for (let at = from; at < to; at++) pixels[at] = pixel;
}

/** The same color, with less of it. */
function dimmed(pixel: number): number {
  return ((((pixel >>> 24) * DIMMED) << 24) | (pixel & 0xffffff)) >>> 0;
}

function halved(pixel: number): number {
  return (((pixel >>> 25) << 24) | (pixel & 0xffffff)) >>> 0;
}

/** The pixel of each rectangle, once it was painted; 0 before. */
interface Colors {
  theme: Theme;
  pixels: Uint32Array;
  /** By kind and name, without how much there is of it. */
  byName: Map<number, number>;
}

const colors = new WeakMap<SliceTable, Colors>();

function colorsOf(slices: SliceTable, theme: Theme): Colors {
  let known = colors.get(slices);
  if (known === undefined || known.theme !== theme) {
    known = { theme, pixels: new Uint32Array(slices.count), byName: new Map() };
    colors.set(slices, known);
  }
  return known;
}

const KINDS_MAX = 256;

/** The paler, the less of its place is covered. */
function pixelAt(slices: SliceTable, at: number, known: Colors): number {
  const [kind, name] = [slices.kind[at]!, slices.name[at]!];
  const key = name * KINDS_MAX + kind;
  let color = known.byName.get(key);
  if (color === undefined) {
    color = pixelOf(spanHsl(kind, slices.names.get(name) ?? "", known.theme));
    known.byName.set(key, color);
  }
  const share = slices.merged[at]! > 1 ? 0.35 + 0.65 * Math.min(slices.busy[at]!, 1) : 1;
  const pixel = (((share * 255) << 24) | (color & 0xffffff)) >>> 0;
  known.pixels[at] = pixel;
  return pixel;
}

/** The first rectangle of a row or a later one. */
export function firstOfRow(slices: SliceTable, first: number, end: number, row: number): number {
  let [low, high] = [first, end];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (slices.row[middle]! < row) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The first rectangle of those of one row that does not end before the time. */
export function firstVisible(slices: SliceTable, first: number, end: number, time: number): number {
  let [low, high] = [first, end];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (slices.start[middle]! + slices.dur[middle]! < time) low = middle + 1;
    else high = middle;
  }
  return low;
}

const foundNames = new WeakMap<SliceTable, { search: string; names: Set<number> }>();

/** The names of a table that contain the text; letter case is ignored. */
function namesWith(slices: SliceTable, search: string): Set<number> {
  const known = foundNames.get(slices);
  if (known !== undefined && known.search === search) return known.names;
  const wanted = search.toLowerCase();
  const names = new Set<number>();
  for (const [key, name] of slices.names) if (name.toLowerCase().includes(wanted)) names.add(key);
  foundNames.set(slices, { search, names });
  return names;
}

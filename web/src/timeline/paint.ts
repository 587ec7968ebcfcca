// Paints the tracks' contents onto a canvas: rectangles with their names, counters as areas,
// marks as triangles. Free functions on plain arrays; this is what runs 60 times a second.

import { spanColour, type Paints } from "../colour";
import type { SliceTable } from "../decode";
import type { Range } from "../scale";
import { ROW_HEIGHT, TRACK_PADDING, rowsTop, type TrackLine } from "./layout";
import type { TrackPicture } from "./store";

const LABEL_WIDTH_MIN = 28;
const LABEL_PADDING = 4;
export const LABEL_FONT = "11px system-ui, sans-serif";
const DIMMED = 0.3;

/** How a track's own time becomes pixels. */
export interface Projection {
  /** The trace's time at pixel 0. */
  from: number;
  pixelsPerNano: number;
  width: number;
}

export function projectionOf(view: Range, width: number, origin: number): Projection {
  return { from: view.from + origin, pixelsPerNano: width / (view.to - view.from), width };
}

export function paintTrack(
  context: CanvasRenderingContext2D,
  line: TrackLine,
  pictures: readonly TrackPicture[],
  projection: Projection,
  paints: Paints,
  search: string,
): number {
  let painted = 0;
  for (const [at, picture] of pictures.entries()) {
    const above = pictures[at + 1];
    context.save();
    // A finer picture above replaces this one where it knows better.
    if (above !== undefined) clipOutside(context, line, above.chunk.range, projection);
    if (line.track.kind === "counter") paintCounter(context, line, picture, projection, paints);
    else painted += paintSlices(context, line, picture, projection, paints, search);
    if (picture.marks.length > 0) paintMarks(context, line, picture, projection, paints);
    context.restore();
  }
  return painted;
}

function clipOutside(
  context: CanvasRenderingContext2D,
  line: TrackLine,
  range: Range,
  projection: Projection,
): void {
  const left = (range.from - projection.from) * projection.pixelsPerNano;
  const right = (range.to - projection.from) * projection.pixelsPerNano;
  context.beginPath();
  context.rect(0, line.top, Math.max(0, left), line.height);
  context.rect(right, line.top, Math.max(0, projection.width - right), line.height);
  context.clip();
}

function paintSlices(
  context: CanvasRenderingContext2D,
  line: TrackLine,
  picture: TrackPicture,
  projection: Projection,
  paints: Paints,
  search: string,
): number {
  const { slices, first, len } = picture;
  if (slices === null) return 0;
  const { from, pixelsPerNano, width } = projection;
  const { start, dur, row, kind, busy, merged, name } = slices;
  const found = search === "" ? null : namesWith(slices, search);
  const top = rowsTop(line);
  // Where each row was painted up to: of those narrower than a pixel, one a pixel will do.
  const reached = new Float64Array(line.rows).fill(-Infinity);
  let painted = 0;
  for (let at = first; at < first + len; at++) {
    if (row[at]! >= line.rows) continue;
    const left = (start[at]! - from) * pixelsPerNano;
    const wide = dur[at]! * pixelsPerNano;
    if (left > width || left + wide < 0) continue;
    const x = Math.max(left, -1);
    const w = Math.max(Math.min(left + wide, width + 1) - x, 1);
    if (wide < 1 && found === null) {
      const behind = reached[row[at]!]! - x;
      if (behind > 0 && behind <= 1) continue;
      reached[row[at]!] = x + 1;
    }
    const y = top + row[at]! * ROW_HEIGHT;
    const text = slices.names.get(name[at]!) ?? "";
    const isFound = found === null || found.has(name[at]!);
    const share = merged[at]! > 1 ? 0.35 + 0.65 * Math.min(busy[at]!, 1) : 1;
    context.globalAlpha = isFound ? share : share * DIMMED;
    context.fillStyle = spanColour(kind[at]!, text, paints.theme);
    // A gap of half a pixel keeps neighbours apart where there is room for it.
    context.fillRect(x, y, w > 3 ? w - 0.5 : w, ROW_HEIGHT - 1);
    painted++;
    if (found !== null && isFound) paintFound(context, x, y, w, paints);
    if (w >= LABEL_WIDTH_MIN) paintLabel(context, text, x, y, w, paints);
  }
  context.globalAlpha = 1;
  return painted;
}

function paintFound(
  context: CanvasRenderingContext2D,
  x: number,
  y: number,
  w: number,
  paints: Paints,
): void {
  context.fillStyle = paints.hit;
  context.fillRect(x, y + ROW_HEIGHT - 4, w, 3);
}

export function paintLabel(
  context: CanvasRenderingContext2D,
  text: string,
  x: number,
  y: number,
  w: number,
  paints: Paints,
): void {
  const left = Math.max(x, 0) + LABEL_PADDING;
  const label = fitted(context, text, x + w - left - LABEL_PADDING);
  if (label === "") return;
  context.fillStyle = paints.onSpan;
  context.fillText(label, left, y + ROW_HEIGHT / 2);
}

const widths = new Map<string, number>();
const WIDTHS_KEPT = 20_000;

function widthOf(context: CanvasRenderingContext2D, text: string): number {
  // Text of the timeline and of flame graphs differs in size.
  const key = `${context.font}/${text}`;
  let wide = widths.get(key);
  if (wide === undefined) {
    if (widths.size > WIDTHS_KEPT) widths.clear();
    wide = context.measureText(text).width;
    widths.set(key, wide);
  }
  return wide;
}

/** The text, cut with "…" where there is no room; nothing where only the dots would fit. */
export function fitted(context: CanvasRenderingContext2D, text: string, room: number): string {
  const wide = widthOf(context, text);
  if (wide <= room) return text;
  let letters = Math.floor((text.length * room) / wide);
  // Letters differ in width: the share is a guess, which a few steps mend.
  while (letters >= 2) {
    const cut = `${text.slice(0, letters)}…`;
    if (widthOf(context, cut) <= room) return cut;
    letters--;
  }
  return "";
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

function paintCounter(
  context: CanvasRenderingContext2D,
  line: TrackLine,
  picture: TrackPicture,
  projection: Projection,
  paints: Paints,
): void {
  const { points } = picture;
  if (points.length === 0) return;
  const { from, pixelsPerNano, width } = projection;
  const least = Math.min(line.track.least ?? 0, 0);
  const most = Math.max(line.track.most ?? 1, least + Number.MIN_VALUE);
  const bottom = line.top + line.height - TRACK_PADDING;
  const tall = line.height - 2 * TRACK_PADDING - 4;
  const yOf = (value: number): number => bottom - ((value - least) / (most - least)) * tall;
  const lastX = Math.min((picture.chunk.range.to - from) * pixelsPerNano, width);
  context.beginPath();
  context.moveTo(Math.max((points[0]![0] - from) * pixelsPerNano, 0), yOf(0));
  for (const [at, [time, low, high, last]] of points.entries()) {
    const x = (time - from) * pixelsPerNano;
    const before = at === 0 ? last : points[at - 1]![3];
    context.lineTo(x, yOf(before));
    if (low !== high) {
      context.lineTo(x, yOf(high));
      context.lineTo(x, yOf(low));
    }
    context.lineTo(x, yOf(last));
  }
  context.lineTo(lastX, yOf(points.at(-1)![3]));
  context.strokeStyle = paints.counterEdge;
  context.lineWidth = 1;
  context.stroke();
  context.lineTo(lastX, yOf(0));
  context.closePath();
  context.fillStyle = paints.counter;
  context.fill();
}

const MARK_SIZE = 4.5;

function paintMarks(
  context: CanvasRenderingContext2D,
  line: TrackLine,
  picture: TrackPicture,
  projection: Projection,
  paints: Paints,
): void {
  const { from, pixelsPerNano, width } = projection;
  const top = line.top + TRACK_PADDING;
  context.fillStyle = paints.hit;
  context.beginPath();
  for (const [time] of picture.marks) {
    const x = (time - from) * pixelsPerNano;
    if (x < -MARK_SIZE || x > width + MARK_SIZE) continue;
    context.moveTo(x - MARK_SIZE, top);
    context.lineTo(x + MARK_SIZE, top);
    context.lineTo(x, top + 2 * MARK_SIZE);
  }
  context.fill();
}

// What is painted of one track: spans as lines of pixels (slices.ts), counters as areas, marks as
// triangles. Free functions on plain arrays; this is what runs 60 times per second.

import type { Paints } from "../../drawing/color";
import { Letters } from "../../drawing/label";
import type { Range } from "../../drawing/scale";
import { ROW_HEIGHT, TRACK_PADDING, rowsTop, type TrackLine } from "../layout";
import { fillRows, type Painting } from "./slices";
import type { TrackPicture } from "../store";

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

/** The rows of a track that are between two heights, the last not included. */
export function rowsBetween(line: TrackLine, top: number, bottom: number): { first: number; last: number } {
  const begin = rowsTop(line);
  const first = Math.max(0, Math.floor((top - begin) / ROW_HEIGHT));
  const last = Math.min(line.rows, Math.ceil((bottom - begin) / ROW_HEIGHT));
  return { first, last: Math.max(first, last) };
}

/** Fills the lines of pixels for some rows of a track. */
export function fillTrack(
  painting: Painting,
  line: TrackLine,
  rows: { first: number; last: number; line: number },
  pictures: readonly TrackPicture[],
  projection: Projection,
): number {
  const y = rowsTop(line) + rows.first * ROW_HEIGHT;
  const { labels } = painting;
  let painted = 0;
  for (const [at, { slices, first, len, chunk }] of pictures.entries()) {
    // A finer picture above replaces this one where it knows better.
    if (at > 0) clearBetween(painting, rows, placeOf(chunk.range, projection));
    if (slices === null) continue;
    const above = pictures[at + 1];
    labels.hidden = above === undefined ? null : placeOf(above.chunk.range, projection);
    const filled = { slices, first, len, firstRow: rows.first, lastRow: rows.last, line: rows.line, y };
    painted += fillRows(painting, filled, projection);
  }
  return painted;
}

function clearBetween(
  { pixels, width, ratio, foundBelow }: Painting,
  rows: { first: number; last: number; line: number },
  { from, to }: { from: number; to: number },
): void {
  const [left, right] = [Math.round(from * ratio), Math.round(to * ratio)];
  for (let line = rows.line; line < rows.line + rows.last - rows.first; line++) {
    pixels.fill(0, line * width + left, line * width + right);
    if (foundBelow > 0) pixels.fill(0, (line + foundBelow) * width + left, (line + foundBelow) * width + right);
  }
}

/** Where a range is on the screen. */
function placeOf(range: Range, { from, pixelsPerNano, width }: Projection): { from: number; to: number } {
  const left = Math.min(Math.max((range.from - from) * pixelsPerNano, 0), width);
  return { from: left, to: Math.min(Math.max((range.to - from) * pixelsPerNano, left), width) };
}

/** What a track has beside its spans. */
export function paintBeside(
  context: CanvasRenderingContext2D,
  line: TrackLine,
  pictures: readonly TrackPicture[],
  projection: Projection,
  paints: Paints,
): void {
  for (const [at, picture] of pictures.entries()) {
    if (line.track.kind !== "counter" && picture.marks.length === 0) continue;
    const above = pictures[at + 1];
    context.save();
    if (above !== undefined) clipOutside(context, line, above.chunk.range, projection);
    if (line.track.kind === "counter") paintCounter(context, line, picture, projection, paints);
    else paintMarks(context, line, picture, projection, paints);
    context.restore();
  }
}

function clipOutside(
  context: CanvasRenderingContext2D,
  line: TrackLine,
  range: Range,
  projection: Projection,
): void {
  const { from, to } = placeOf(range, projection);
  context.beginPath();
  context.rect(0, line.top, from, line.height);
  context.rect(to, line.top, projection.width - to, line.height);
  context.clip();
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
/** From the middle of a mark to its name, and from there to the next mark. */
const MARK_ROOM = MARK_SIZE + 3;
const marksLetters = new Letters("10px system-ui, sans-serif");

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
  paintMarkNames(context, picture, projection, paints, top + MARK_SIZE);
}

/** Marks that stand alone say what they are. */
function paintMarkNames(
  context: CanvasRenderingContext2D,
  { marks, markNames }: TrackPicture,
  { from, pixelsPerNano, width }: Projection,
  paints: Paints,
  y: number,
): void {
  context.font = marksLetters.font;
  context.textBaseline = "middle";
  context.fillStyle = paints.text;
  // Up to here there are marks or names already.
  let reached = 0;
  for (const [at, [time, count, name]] of marks.entries()) {
    const x = (time - from) * pixelsPerNano;
    if (x < 0 || x > width) continue;
    const next = at + 1 < marks.length ? (marks[at + 1]![0] - from) * pixelsPerNano - MARK_ROOM : width;
    const text = count > 1 ? `${markNames[name] ?? ""} +${count - 1}` : (markNames[name] ?? "");
    const wide = marksLetters.widthOf(context, text, text.length);
    const room = Math.min(next, width) - x - MARK_ROOM;
    // What saved a recording stands at its end: there is room on the left side only.
    const isLeft = wide > room && x - MARK_ROOM - wide > reached;
    const label = isLeft ? text : marksLetters.fitted(context, text, room);
    context.fillText(label, isLeft ? x - MARK_ROOM - wide : x + MARK_ROOM, y);
    reached = isLeft || label === "" ? x + MARK_ROOM : x + MARK_ROOM + Math.min(wide, room);
  }
}

// Paints the tracks' contents onto a canvas: spans (slices.ts), counters as areas, marks as
// triangles. Free functions on plain arrays; this is what runs 60 times a second.

import type { Paints } from "../colour";
import type { Range } from "../scale";
import { TRACK_PADDING, rowsTop, type TrackLine } from "./layout";
import { paintRows } from "./slices";
import type { TrackPicture } from "./store";

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
  limits: { top: number; bottom: number },
  grain: number,
): number {
  let painted = 0;
  for (const [at, picture] of pictures.entries()) {
    const above = pictures[at + 1];
    context.save();
    // A finer picture above replaces this one where it knows better.
    if (above !== undefined) clipOutside(context, line, above.chunk.range, projection);
    if (line.track.kind === "counter") paintCounter(context, line, picture, projection, paints);
    else if (picture.slices !== null) {
      const { slices, first, len } = picture;
      const rows = { slices, first, len, top: rowsTop(line), rows: line.rows, limits, grain };
      painted += paintRows(context, rows, projection, paints, search);
    }
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

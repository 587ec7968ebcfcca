// Arrows of the selected span: from the call that launched it, to what it launched, and
// along its links.

import type { Paints } from "../../drawing/color";
import type { SpanAnswer, SpanPlace } from "../../server/protocol";
import { ROW_HEIGHT, rowsTop, trackLineOf, type Layout } from "../layout";
import type { Projection } from "./paint";

const HEAD = 5;

/** A pair of spans, the earlier in cause first. */
export interface Arrow {
  from: SpanPlace;
  to: SpanPlace;
  isLaunch: boolean;
}

export function arrowsOf(span: SpanAnswer): Arrow[] {
  const arrows: Arrow[] = [];
  if (span.launched_by !== null) arrows.push({ from: span.launched_by, to: span, isLaunch: true });
  for (const other of span.launched.first) arrows.push({ from: span, to: other, isLaunch: true });
  for (const { to, other } of span.links) {
    arrows.push(to ? { from: span, to: other, isLaunch: false } : { from: other, to: span, isLaunch: false });
  }
  return arrows;
}

export function paintArrows(
  context: CanvasRenderingContext2D,
  arrows: readonly Arrow[],
  layout: Layout,
  trace: number,
  projection: Projection,
  paints: Paints,
): void {
  const pointOf = (place: SpanPlace, time: number): [number, number] | null => {
    const line = trackLineOf(layout, trace, place.track);
    if (line === undefined) return null;
    const row = Math.min(place.row, Math.max(line.rows - 1, 0));
    const x = (time - projection.from) * projection.pixelsPerNano;
    return [x, rowsTop(line) + row * ROW_HEIGHT + ROW_HEIGHT / 2];
  };
  context.lineWidth = 1.5;
  for (const { from, to, isLaunch } of arrows) {
    // An arrow leaves where its span ends, or where the next begins if that is earlier.
    const begin = pointOf(from, Math.min(from.start + from.dur, Math.max(to.start, from.start)));
    const end = pointOf(to, to.start);
    if (begin === null || end === null) continue;
    context.strokeStyle = isLaunch ? paints.accent : paints.hit;
    context.fillStyle = context.strokeStyle;
    paintArrow(context, begin, end);
  }
}

function paintArrow(
  context: CanvasRenderingContext2D,
  [x0, y0]: [number, number],
  [x1, y1]: [number, number],
): void {
  const bend = Math.min(Math.max(Math.abs(x1 - x0) / 2, 14), 90);
  context.beginPath();
  context.moveTo(x0, y0);
  context.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1 - HEAD, y1);
  context.stroke();
  context.beginPath();
  context.moveTo(x1, y1);
  context.lineTo(x1 - HEAD * 1.6, y1 - HEAD);
  context.lineTo(x1 - HEAD * 1.6, y1 + HEAD);
  context.fill();
}

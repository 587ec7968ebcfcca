// One frame of the tracks' canvas, from back to front.

import type { Surface } from "../canvas";
import type { Paints } from "../colour";
import { xOf, type Range } from "../scale";
import type { State } from "../state";
import { arrowsOf, paintArrows } from "./arrows";
import { ROW_HEIGHT, linesBetween, rowsTop, trackLineOf, type Layout, type TrackLine } from "./layout";
import { paintTrack, projectionOf } from "./paint";
import type { Hit } from "./pick";
import { paintGrid } from "./ruler";
import { LABEL_FONT } from "./slices";
import type { TrackPicture } from "./store";

export interface Scene {
  surface: Surface;
  state: State;
  layout: Layout;
  scrollTop: number;
  pictures: (line: TrackLine) => readonly TrackPicture[];
  hovered: Hit | null;
  paints: Paints;
  /** See RowsPainted. */
  grain: number;
}

/** Paints everything; the answer is how many rectangles that took. */
export function paintScene(scene: Scene): number {
  const { surface, state, layout, scrollTop, paints } = scene;
  const { context, width, height } = surface;
  const view = state.view.value;
  context.fillStyle = paints.background;
  context.fillRect(0, 0, width, height);
  context.save();
  context.translate(0, -scrollTop);
  const visible = linesBetween(layout.lines, scrollTop, scrollTop + height);
  for (const line of visible) {
    context.fillStyle = line.type === "group" ? paints.alternate : paints.line;
    if (line.type === "group") context.fillRect(0, line.top, width, line.height);
    context.fillStyle = paints.line;
    context.fillRect(0, line.top + line.height - 1, width, 1);
  }
  context.restore();
  paintGrid(context, view, width, Math.min(height, layout.height - scrollTop), paints);
  context.save();
  context.translate(0, -scrollTop);
  context.font = LABEL_FONT;
  context.textBaseline = "middle";
  let painted = 0;
  const limits = { top: scrollTop, bottom: scrollTop + height };
  const search = state.search.value;
  for (const line of visible) {
    if (line.type === "group") continue;
    const projection = projectionOf(view, width, line.source.origin);
    painted += paintTrack(context, line, scene.pictures(line), projection, paints, search, limits, scene.grain);
  }
  paintSelection(scene);
  context.restore();
  paintRange(context, view, width, height, state.range.value, paints);
  return painted;
}

function paintSelection({ surface, state, layout, hovered, paints }: Scene): void {
  const { context, width } = surface;
  const view = state.view.value;
  if (hovered?.type === "span") {
    const { line, span } = hovered;
    const left = xOf(span.start - line.source.origin, view, width);
    const right = xOf(span.start + span.dur - line.source.origin, view, width);
    outline(context, left, right, rowsTop(line) + span.row * ROW_HEIGHT, width, paints.text, 1);
  }
  const chosen = state.selected.value;
  if (chosen === null) return;
  const box = selectedBox(state, layout, width);
  if (box !== null) outline(context, box.x, box.x + box.w, box.y, width, paints.accent, 2);
  const source = layout.lines.find((line) => line.source.trace.id === chosen.trace)?.source;
  if (source === undefined) return;
  const projection = projectionOf(view, width, source.origin);
  paintArrows(context, arrowsOf(chosen.answer), layout, chosen.trace, projection, paints);
}

function outline(
  context: CanvasRenderingContext2D,
  left: number,
  right: number,
  y: number,
  width: number,
  colour: string,
  thick: number,
): void {
  const x = Math.max(left, -5);
  const w = Math.max(Math.min(right, width + 5) - x, 2);
  context.strokeStyle = colour;
  context.lineWidth = thick;
  context.strokeRect(x, y + 0.5, w, ROW_HEIGHT - 2);
}

/** Where the selected span is, below the tracks' top; null when its track is not shown. */
export function selectedBox(
  state: State,
  layout: Layout,
  width: number,
): { x: number; y: number; w: number } | null {
  const chosen = state.selected.value;
  if (chosen === null) return null;
  const { answer, trace } = chosen;
  const line = trackLineOf(layout, trace, answer.track);
  if (line === undefined || answer.row >= line.rows) return null;
  const x = xOf(answer.start - line.source.origin, state.view.value, width);
  const end = xOf(answer.start + answer.dur - line.source.origin, state.view.value, width);
  return { x, y: rowsTop(line) + answer.row * ROW_HEIGHT, w: end - x };
}

function paintRange(
  context: CanvasRenderingContext2D,
  view: Range,
  width: number,
  height: number,
  range: Range | null,
  paints: Paints,
): void {
  if (range === null) return;
  const left = Math.max(xOf(range.from, view, width), -2);
  const right = Math.min(xOf(range.to, view, width), width + 2);
  if (right <= left) return;
  context.fillStyle = paints.selection;
  context.fillRect(left, 0, right - left, height);
  context.fillStyle = paints.accent;
  context.fillRect(left, 0, 1, height);
  context.fillRect(right - 1, 0, 1, height);
}

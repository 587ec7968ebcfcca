// One frame of the tracks' canvas, from back to front.

import type { Surface } from "../../drawing/canvas";
import { pixelOfHex, type Paints } from "../../drawing/color";
import { xOf, type Range } from "../../drawing/scale";
import type { State } from "../../state/state";
import { arrowsOf, paintArrows } from "./arrows";
import { ROW_HEIGHT, linesBetween, rowsTop, trackLineOf, type Layout, type TrackLine } from "../layout";
import type { Labels } from "./labels";
import { fillTrack, paintBeside, projectionOf, rowsBetween } from "./paint";
import type { Hit } from "../pointing/pick";
import type { PixelRows } from "./pixels";
import { paintGrid } from "./ruler";
import type { Painting } from "./slices";
import type { TrackPicture } from "../store";

export interface Scene {
  surface: Surface;
  state: State;
  layout: Layout;
  scrollTop: number;
  pictures: (line: TrackLine) => readonly TrackPicture[];
  hovered: Hit | null;
  paints: Paints;
  /** Both are used again in the next frame. */
  rows: PixelRows;
  labels: Labels;
}

/** A track that is on the screen, and which of its rows. */
interface VisibleTrack {
  line: TrackLine;
  pictures: readonly TrackPicture[];
  first: number;
  last: number;
  /** Of the pixels: the one of the first row. */
  at: number;
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
  const painted = paintTracks(scene, visible.filter((line) => line.type === "track"));
  paintSelection(scene);
  context.restore();
  paintRange(context, view, width, height, state.range.value, paints);
  return painted;
}

function paintTracks(scene: Scene, visible: readonly TrackLine[]): number {
  const { surface, state, scrollTop, paints, rows, labels } = scene;
  const { context, width, height } = surface;
  const view = state.view.value;
  let lines = 0;
  const tracks = visible.map((line): VisibleTrack => {
    const { first, last } = rowsBetween(line, scrollTop, scrollTop + height);
    const at = lines;
    lines += last - first;
    return { line, pictures: scene.pictures(line), first, last, at };
  });
  const search = state.search.value;
  const foundBelow = search === "" ? 0 : lines;
  const foundPixel = pixelOfHex(paints.hit);
  rows.begin(surface.canvas.width, lines + foundBelow);
  labels.begin();
  const { pixels } = rows;
  const ratio = surface.canvas.width / width;
  const painting: Painting = { pixels, width: rows.width, ratio, theme: paints.theme, search, foundBelow, foundPixel, labels };
  let painted = 0;
  for (const { line, pictures, first, last, at } of tracks) {
    const projection = projectionOf(view, width, line.source.origin);
    painted += fillTrack(painting, line, { first, last, line: at }, pictures, projection);
  }
  rows.end(lines + foundBelow);
  context.imageSmoothingEnabled = false;
  for (const shown of tracks) {
    drawRows(context, rows, shown, width, foundBelow);
    paintBeside(context, shown.line, shown.pictures, projectionOf(view, width, shown.line.source.origin), paints);
  }
  labels.paint(context, paints, ratio);
  return painted;
}

function drawRows(context: CanvasRenderingContext2D, rows: PixelRows, { line, first, last, at }: VisibleTrack, width: number, foundBelow: number): void {
  for (let row = first; row < last; row++) {
    const y = rowsTop(line) + row * ROW_HEIGHT;
    rows.draw(context, at + row - first, y, width, ROW_HEIGHT - 1);
    if (foundBelow > 0) rows.draw(context, at + row - first + foundBelow, y + ROW_HEIGHT - 4, width, 3);
  }
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
  color: string,
  thick: number,
): void {
  const x = Math.max(left, -5);
  const w = Math.max(Math.min(right, width + 5) - x, 2);
  context.strokeStyle = color;
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

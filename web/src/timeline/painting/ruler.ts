// The ruler above the tracks, and the overview of the whole trace above that.

import { Surface } from "../../drawing/canvas";
import { spanColor, type Paints } from "../../drawing/color";
import { tickText, nanosText } from "../../drawing/format";
import { lengthOf, ticksOf, xOf, type Range } from "../../drawing/scale";
import type { Source } from "../../state/source";
import { firstOfRow } from "./slices";
import type { TrackPicture } from "../store";

export const RULER_HEIGHT = 28;
export const OVERVIEW_HEIGHT = 48;

export function paintRuler(
  context: CanvasRenderingContext2D,
  view: Range,
  width: number,
  range: Range | null,
  paints: Paints,
): void {
  context.fillStyle = paints.background;
  context.fillRect(0, 0, width, RULER_HEIGHT);
  const { step, times } = ticksOf(view, width);
  context.font = "11px system-ui, sans-serif";
  context.textBaseline = "middle";
  for (const time of times) {
    const x = Math.round(xOf(time, view, width)) + 0.5;
    context.fillStyle = paints.line;
    context.fillRect(x - 0.5, RULER_HEIGHT - 8, 1, 8);
    context.fillStyle = paints.faint;
    context.fillText(tickText(time, step), x + 4, RULER_HEIGHT / 2);
  }
  if (range !== null) paintRangeOnRuler(context, view, width, range, paints);
  context.fillStyle = paints.line;
  context.fillRect(0, RULER_HEIGHT - 1, width, 1);
}

function paintRangeOnRuler(
  context: CanvasRenderingContext2D,
  view: Range,
  width: number,
  range: Range,
  paints: Paints,
): void {
  const left = Math.max(xOf(range.from, view, width), 0);
  const right = Math.min(xOf(range.to, view, width), width);
  if (right <= left) return;
  context.fillStyle = paints.background;
  context.fillRect(left, 0, right - left, RULER_HEIGHT);
  context.fillStyle = paints.selection;
  context.fillRect(left, 0, right - left, RULER_HEIGHT);
  context.fillStyle = paints.accent;
  context.fillRect(left, RULER_HEIGHT - 3, right - left, 3);
  const text = nanosText(Math.round(lengthOf(range)));
  const wide = context.measureText(text).width;
  if (wide + 8 > right - left) return;
  context.fillText(text, (left + right - wide) / 2, RULER_HEIGHT / 2 - 1);
}

/** Lines down through the tracks at the ruler's ticks. */
export function paintGrid(
  context: CanvasRenderingContext2D,
  view: Range,
  width: number,
  height: number,
  paints: Paints,
): void {
  context.fillStyle = paints.line;
  context.globalAlpha = 0.6;
  for (const time of ticksOf(view, width).times) {
    context.fillRect(Math.round(xOf(time, view, width)), 0, 1, height);
  }
  context.globalAlpha = 1;
}

export interface OverviewTrack {
  source: Source;
  picture: TrackPicture;
}

/** The overview as it was painted last: it stays while the view moves. */
export class Overview {
  readonly #tracks = new Surface(document.createElement("canvas"));
  #painted: readonly unknown[] = [];

  /** Every track a thin stripe of its outermost row, and the view as a window in front. */
  paint(
    { context, width }: Surface,
    tracks: readonly OverviewTrack[],
    bounds: Range,
    view: Range,
    paints: Paints,
  ): void {
    const all = tracks.flatMap(({ source, picture }) => [source, picture]);
    const now = [width, window.devicePixelRatio, paints, bounds.from, bounds.to, ...all];
    const isSame = now.length === this.#painted.length && now.every((it, at) => it === this.#painted[at]);
    if (!isSame) {
      this.#tracks.resize(width, OVERVIEW_HEIGHT);
      paintOverviewTracks(this.#tracks.context, tracks, bounds, width, paints);
      this.#painted = now;
    }
    context.drawImage(this.#tracks.canvas, 0, 0, width, OVERVIEW_HEIGHT);
    paintWindow(context, bounds, view, width, paints);
  }
}

function paintOverviewTracks(
  context: CanvasRenderingContext2D,
  tracks: readonly OverviewTrack[],
  bounds: Range,
  width: number,
  paints: Paints,
): void {
  context.fillStyle = paints.alternate;
  context.fillRect(0, 0, width, OVERVIEW_HEIGHT);
  const padding = 3;
  const stripe = (OVERVIEW_HEIGHT - 2 * padding) / Math.max(tracks.length, 1);
  for (const [at, { source, picture }] of tracks.entries()) {
    const { slices, first, len } = picture;
    if (slices === null) continue;
    const y = padding + at * stripe;
    const tall = Math.max(stripe - (stripe > 4 ? 1 : 0), 0.7);
    const end = firstOfRow(slices, first, first + len, 1);
    for (let slice = first; slice < end; slice++) {
      const left = xOf(slices.start[slice]! - source.origin, bounds, width);
      const wide = (slices.dur[slice]! / lengthOf(bounds)) * width;
      context.globalAlpha = 0.25 + 0.75 * Math.min(slices.busy[slice]!, 1);
      const name = slices.names.get(slices.name[slice]!) ?? "";
      context.fillStyle = spanColor(slices.kind[slice]!, name, paints.theme);
      context.fillRect(left, y, Math.max(wide, 0.7), Math.min(tall, 8));
    }
  }
  context.globalAlpha = 1;
}

function paintWindow(
  context: CanvasRenderingContext2D,
  bounds: Range,
  view: Range,
  width: number,
  paints: Paints,
): void {
  const left = Math.max(xOf(view.from, bounds, width), 0);
  const right = Math.min(xOf(view.to, bounds, width), width);
  context.fillStyle = paints.background;
  context.globalAlpha = 0.62;
  context.fillRect(0, 0, left, OVERVIEW_HEIGHT);
  context.fillRect(right, 0, width - right, OVERVIEW_HEIGHT);
  context.globalAlpha = 1;
  context.strokeStyle = paints.accent;
  context.lineWidth = 1.5;
  context.strokeRect(left + 0.75, 0.75, Math.max(right - left - 1.5, 2), OVERVIEW_HEIGHT - 1.5);
}

// What is under the pointer.

import type { CounterPoint } from "../../server/protocol";
import type { TrackPicture } from "../store";

export interface SpanHit {
  span: number;
  name: string;
  kind: number;
  start: number;
  dur: number;
  row: number;
  merged: number;
  busy: number;
}

/** The rectangle of a row at a time, or within `slack` of it: the shortest that fits. */
export function spanAt(
  picture: TrackPicture,
  row: number,
  time: number,
  slack: number,
): SpanHit | null {
  const { slices, first, len } = picture;
  if (slices === null) return null;
  let best = -1;
  for (let at = first; at < first + len; at++) {
    if (slices.row[at] !== row) continue;
    const start = slices.start[at]!;
    const dur = slices.dur[at]!;
    if (time < start - slack || time > start + dur + slack) continue;
    if (best < 0 || dur <= slices.dur[best]!) best = at;
  }
  if (best < 0) return null;
  return {
    span: slices.span[best]!,
    name: slices.names.get(slices.name[best]!) ?? "",
    kind: slices.kind[best]!,
    start: slices.start[best]!,
    dur: slices.dur[best]!,
    row,
    merged: slices.merged[best]!,
    busy: slices.busy[best]!,
  };
}

/** The point with a counter's value at a time: the last that is not after it. */
export function pointAt(points: readonly CounterPoint[], time: number): CounterPoint | null {
  let [low, high] = [0, points.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (points[middle]![0] <= time) low = middle + 1;
    else high = middle;
  }
  return points[low - 1] ?? null;
}

/** The mark nearest to a time, if one is within `slack` of it. */
export function markAt(
  picture: TrackPicture,
  time: number,
  slack: number,
): { time: number; count: number; name: string } | null {
  let best: { time: number; count: number; name: string } | null = null;
  for (const [at, count, name] of picture.marks) {
    const away = Math.abs(at - time);
    if (away > slack || (best !== null && away >= Math.abs(best.time - time))) continue;
    best = { time: at, count, name: picture.markNames[name] ?? "" };
  }
  return best;
}

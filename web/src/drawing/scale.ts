// The part of time that is on the screen: how it moves, and where its ticks stand.

/** Nanoseconds, `from` before `to`. */
export interface Range {
  from: number;
  to: number;
}

/** Nobody needs to see less; the times are whole nanoseconds. */
const LENGTH_MIN_NS = 20;
/** How far one may scroll beyond the ends, as a share of what is on the screen. */
const MARGIN_SHARE = 0.05;

export function lengthOf(range: Range): number {
  return range.to - range.from;
}

/** Pixels from the left edge for a time. */
export function xOf(time: number, view: Range, width: number): number {
  return ((time - view.from) / lengthOf(view)) * width;
}

/** The time at a pixel. */
export function timeAt(x: number, view: Range, width: number): number {
  return view.from + (x / width) * lengthOf(view);
}

/** The whole of the bounds, with a little room at both ends. */
export function wholeOf(bounds: Range): Range {
  const room = Math.max(lengthOf(bounds), LENGTH_MIN_NS) * 0.01;
  return { from: bounds.from - room, to: Math.max(bounds.to, bounds.from + LENGTH_MIN_NS) + room };
}

/** Makes the view `factor` times as long, and keeps the time `at` where it is. */
export function zoomAt(view: Range, factor: number, at: number, bounds: Range): Range {
  const longest = lengthOf(wholeOf(bounds));
  const length = Math.min(Math.max(lengthOf(view) * factor, LENGTH_MIN_NS), longest);
  const share = (at - view.from) / lengthOf(view);
  const from = at - share * length;
  return insideOf({ from, to: from + length }, bounds);
}

export function panBy(view: Range, time: number, bounds: Range): Range {
  return insideOf({ from: view.from + time, to: view.to + time }, bounds);
}

/** Moves (and if it must be, shortens) the view until it shows mostly what there is. */
export function insideOf(view: Range, bounds: Range): Range {
  const whole = wholeOf(bounds);
  const length = Math.min(Math.max(lengthOf(view), LENGTH_MIN_NS), lengthOf(whole));
  const margin = length * MARGIN_SHARE;
  const first = Math.min(whole.from, bounds.from - margin);
  const last = Math.max(whole.to, bounds.to + margin) - length;
  const from = Math.min(Math.max(view.from, first), Math.max(first, last));
  return { from, to: from + length };
}

/** A view of the range with room on both sides, so that one sees what is around. */
export function around(range: Range, bounds: Range, room = 0.5): Range {
  const length = Math.max(lengthOf(range), LENGTH_MIN_NS / 2);
  return insideOf({ from: range.from - length * room, to: range.to + length * room }, bounds);
}

/** Moves the view, without zooming, just so that the range is in it. */
export function revealed(view: Range, range: Range, bounds: Range): Range {
  if (range.from >= view.from && range.to <= view.to) return view;
  if (lengthOf(range) > lengthOf(view)) return around(range, bounds);
  const middle = (range.from + range.to) / 2;
  return panBy(view, middle - (view.from + view.to) / 2, bounds);
}

/** What is left of a range when it is cut at the limits; null when that is nothing. */
export function overlapOf(range: Range, limits: Range): Range | null {
  const from = Math.max(range.from, limits.from);
  const to = Math.min(range.to, limits.to);
  return from < to ? { from, to } : null;
}

export interface Ticks {
  step: number;
  times: number[];
}

/** Ticks at round times (1, 2 or 5 of a power of ten), no closer than `spacing` pixels. */
export function ticksOf(view: Range, width: number, spacing = 110): Ticks {
  const least = (lengthOf(view) * spacing) / Math.max(width, 1);
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
  const step = Math.max(1, power * ([1, 2, 5, 10].find((factor) => power * factor >= least) ?? 10));
  const times = [];
  for (let at = Math.ceil(view.from / step); at * step <= view.to; at++) times.push(at * step);
  return { step, times };
}

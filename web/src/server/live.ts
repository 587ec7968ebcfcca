// Traces that still grow: asks each second how far they are, and follows their end until
// the user views another range.

import type { TraceInfo } from "./protocol";
import { insideOf, lengthOf } from "../drawing/scale";
import { askTraces } from "./server";
import { Source } from "../state/source";
import type { State } from "../state/state";

const EVERY_MS = 1000;
/** How near to the end, as a share of the view, still is "at the end". */
const NEAR_SHARE = 0.1;

export function followLive(state: State, grown: (trace: TraceInfo) => void): void {
  const isLive = (): boolean => state.sources.value.some(({ trace }) => trace.live);
  const again = (): void => {
    if (isLive()) window.setTimeout(() => void step(), EVERY_MS);
  };
  const step = async (): Promise<void> => {
    try {
      const { traces } = await askTraces();
      takeGrown(state, traces, grown);
    } catch {
      // The banner says so; the next second tries again.
    }
    again();
  };
  again();
}

/** Takes what the server now says of the traces; `grown` hears of each that has grown or ended. */
export function takeGrown(
  state: State,
  traces: readonly TraceInfo[],
  grown: (trace: TraceInfo) => void,
): void {
  const before = state.bounds;
  const view = state.view.value;
  const changed = state.sources.value.map((source) => {
    const now = traces.find(({ id }) => id === source.trace.id);
    if (now === undefined || (now.read === source.trace.read && now.live === source.trace.live)) {
      return source;
    }
    grown(now);
    // The screen's zero stays where it was, even if an earlier span turns up.
    return new Source(now, now.from - source.origin);
  });
  if (changed.every((source, at) => source === state.sources.value[at])) return;
  state.sources.set(changed);
  const after = state.bounds;
  if (Math.abs(view.to - before.to) > lengthOf(view) * NEAR_SHARE) return;
  const sawAll = view.from <= before.from;
  const by = after.to - before.to;
  const next = sawAll ? { from: view.from, to: view.to + by } : { from: view.from + by, to: view.to + by };
  state.view.set(insideOf(next, after));
}

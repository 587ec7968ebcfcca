// What a flame graph shows, and the controls that choose it.

import { choice, element } from "../drawing/dom";
import type { FlameGroup, FlameValue } from "../server/protocol";
import type { Range } from "../drawing/scale";
import { processTitle, trackTitle, traceTitle } from "../state/source";
import type { State } from "../state/state";
import type { Side } from "./tree";

export type Shape = "icicle" | "flame" | "sandwich";

export interface FlameChoice {
  value: FlameValue;
  shape: Shape;
  track: number | null;
  group: FlameGroup | null;
  /** The trace to set this one against. */
  base: number | null;
  /** Of a comparison: whose weights are the widths. */
  side: Side;
  /** A part of the screen's time. */
  range: Range | null;
}

const VALUES: readonly (readonly [FlameValue, string])[] = [
  ["wall", "wall time"],
  ["gpu", "GPU time"],
  ["count", "calls"],
  ["bytes", "bytes"],
];

const GROUPS: readonly (readonly [FlameGroup | "", string])[] = [
  ["", "not grouped"],
  ["thread", "by thread"],
  ["rank", "by rank"],
  ["phase", "by phase"],
  ["step", "by step"],
];

const SHAPES: readonly (readonly [Shape, string])[] = [
  ["icicle", "icicle"],
  ["flame", "flame"],
  ["sandwich", "sandwich"],
];

/** The controls; `change` takes what was chosen, and which trace it is about. */
export function controlsOf(
  state: State,
  chosen: FlameChoice,
  change: (chosen: Partial<FlameChoice>, trace?: number) => void,
): HTMLElement[] {
  const { sources, trace } = state;
  const hasSeveral = sources.value.length > 1;
  const traces = sources.value.map(({ trace: it }) => [String(it.id), traceTitle(it)] as const);
  const made: HTMLElement[] = [];
  if (hasSeveral) {
    // A trace has tracks of its own.
    const ofTrace = choice("Trace", traces, (id) => change({ track: null }, Number(id)));
    made.push(selected(ofTrace, String(trace.value)));
    const others = traces.filter(([id]) => id !== String(trace.value));
    const since = choice("Compared with", [["", "alone"], ...others.map(([id, title]) => [id, `since ${title}`] as const)],
      (id) => change({ base: id === "" ? null : Number(id) }));
    made.push(selected(since, chosen.base === null ? "" : String(chosen.base)));
  }
  if (hasSeveral && chosen.base !== null) {
    const sides = choice<Side>("Widths", [["trace", "widths of this trace"], ["base", "widths of the other"]],
      (side) => change({ side }));
    made.push(selected(sides, chosen.side));
  }
  made.push(selected(choice("What to show", VALUES, (value) => change({ value })), chosen.value));
  made.push(groupsOf(chosen, change), tracksOf(state, chosen, change), partsOf(state, chosen, change));
  made.push(selected(choice("Shape", SHAPES, (shape) => change({ shape })), chosen.shape));
  return made;
}

type Change = (chosen: Partial<FlameChoice>) => void;

function selected(made: HTMLSelectElement, value: string): HTMLSelectElement {
  made.value = value;
  return made;
}

function groupsOf(chosen: FlameChoice, change: Change): HTMLElement {
  const made = choice("Group", GROUPS, (group) => change({ group: group === "" ? null : group }));
  return selected(made, chosen.group ?? "");
}

function tracksOf(state: State, chosen: FlameChoice, change: Change): HTMLElement {
  const tracks = (state.source(state.trace.value)?.trace.tracks ?? [])
    .filter(({ spans }) => spans > 0)
    .map((track) => [String(track.id), `${processTitle(track)} / ${trackTitle(track)}`] as const);
  const made = choice("Track", [["", "all tracks"], ...tracks],
    (id) => change({ track: id === "" ? null : Number(id) }));
  return selected(made, chosen.track === null ? "" : String(chosen.track));
}

function partsOf(state: State, chosen: FlameChoice, change: Change): HTMLElement {
  const made = choice("Part", [["whole", "whole trace"], ["range", "selected range"]],
    (part) => change({ range: part === "range" ? state.range.value : null }));
  made.options[1]!.disabled = state.range.value === null && chosen.range === null;
  return selected(made, chosen.range === null ? "whole" : "range");
}

/** What the colors of a comparison mean. */
export function changeLegend(): HTMLElement {
  return element("span", { class: "legend" },
    element("span", { class: "less", text: "less" }),
    element("span", { class: "more", text: "more" }));
}

// The summary of the selected range.

import { button, choice, element } from "../drawing/dom";
import { nanosText } from "../drawing/format";
import type { SectionsAnswer } from "../server/protocol";
import { lengthOf, overlapOf, type Range } from "../drawing/scale";
import { askRange, reasonText } from "../server/server";
import type { State } from "../state/state";
import { traceTitle } from "../state/source";
import { sectionElement, type Go } from "./tables";

export interface RangeActions {
  zoom(): void;
  flame(): void;
  go: Go;
  /** Another trace was chosen. */
  again(): void;
}

/** Asks the server and gives what to show, also when it fails. */
export async function rangeElement(
  state: State,
  range: Range,
  actions: RangeActions,
): Promise<HTMLElement> {
  const made = element("div", { class: "range" },
    element("h2", { text: nanosText(Math.round(lengthOf(range))) }),
    element("p", { class: "quiet", text: `from ${nanosText(Math.round(range.from))} to ${nanosText(Math.round(range.to))}` }),
    element("div", { class: "buttons" },
      button("Zoom here", actions.zoom),
      button("Flame graph of it", actions.flame)));
  const { sources, trace } = state;
  if (sources.value.length > 1) {
    const traces = sources.value.map(({ trace: it }) => [String(it.id), traceTitle(it)] as const);
    const select = choice("Trace", traces, (id) => {
      trace.set(Number(id));
      actions.again();
    });
    select.value = String(trace.value);
    made.append(select);
  }
  const source = state.source(trace.value);
  const inTrace = source && overlapOf(source.toTrace(range), source.trace);
  if (source === undefined || !inTrace) {
    made.append(element("p", { class: "quiet", text: "The trace has nothing there." }));
    return made;
  }
  try {
    const answer: SectionsAnswer = await askRange(source.trace.id, inTrace);
    made.append(...answer.sections.map((section) => sectionElement(section, actions.go)));
  } catch (error) {
    made.append(element("p", { class: "error", text: reasonText(error) }));
  }
  return made;
}

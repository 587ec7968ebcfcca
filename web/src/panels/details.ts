// Everything about the selected span: times, arguments, the stack around it, what launched
// it and what it launched. Each other span is a button that goes there.

import { button, element } from "../drawing/dom";
import { countText, nanosText } from "../drawing/format";
import { kindOf } from "../drawing/kinds";
import type { FrameName, SpanAnswer, SpanPlace } from "../server/protocol";
import type { Selection } from "../state/state";
import { sampledElement, stateElement } from "./observed";
import { trackTitle, type Source } from "../state/source";

export interface DetailActions {
  go(span: number): void;
  focus(): void;
}

const STACK_SHOWN = 60;

export function detailsElement(
  { answer }: Selection,
  source: Source | undefined,
  actions: DetailActions,
): HTMLElement {
  return element("div", { class: "details" },
    element("h2", { text: answer.name, title: answer.name }),
    element("div", { class: "buttons" },
      button("Focus", () => actions.focus(), { title: "Zoom to this span (f)" }),
      sameNameButton("‹ previous", answer.same_name.previous, actions),
      sameNameButton("next ›", answer.same_name.next, actions)),
    facts(answer, source),
    sampledElement(answer),
    stateElement(answer),
    launches(answer, actions),
    frames("Python", answer.python, actions, "python"),
    frames("Parents", answer.stack, actions, "stack"),
    links(answer, actions),
    argumentsTable(answer));
}

function sameNameButton(text: string, span: number | null, actions: DetailActions): HTMLElement {
  const made = button(text, () => span !== null && actions.go(span), { title: "The same name" });
  made.disabled = span === null;
  return made;
}

function facts(answer: SpanAnswer, source: Source | undefined): HTMLElement {
  const track = source?.track(answer.track);
  const { count, total, rank } = answer.same_name;
  const kind = kindOf(answer.kind).title;
  // Of calls that were drawn, samples know the time; a wait has none of its own.
  const isDrawn = answer.sampled !== null || answer.state !== null;
  const all: [string, string][] = [
    ["Duration", nanosText(answer.dur)],
    ...(isDrawn ? [] : [["Self time", nanosText(answer.self)] as [string, string]]),
    ["Start", nanosText(answer.start - (source?.origin ?? 0))],
    ["Kind", answer.category === "" ? kind : `${kind} (${answer.category})`],
    ["Track", track === undefined ? String(answer.track) : trackTitle(track)],
    ["Same name", count === 1
      ? "no other span"
      : `${countText(count)} spans, ${nanosText(total)} in all; this is the ${ordinal(rank)} longest`],
  ];
  return element("dl", {}, ...all.flatMap(([name, text]) => [
    element("dt", { text: name }),
    element("dd", { text }),
  ]));
}

export function ordinal(rank: number): string {
  const tens = rank % 100;
  const ending = tens >= 11 && tens <= 13 ? "th" : (["th", "st", "nd", "rd"][rank % 10] ?? "th");
  return `${countText(rank)}${ending}`;
}

function launches(answer: SpanAnswer, actions: DetailActions): HTMLElement | null {
  const { launched_by: by, launched } = answer;
  if (by === null && launched.count === 0) return null;
  const made = element("section", {}, element("h3", { text: by === null ? "Launched" : "Launched by" }));
  if (by !== null) made.append(placeButton(by, actions, "launch"));
  if (launched.count > 0) {
    const sum = `${countText(launched.count)}, ${nanosText(launched.total)} in all`;
    if (by !== null) made.append(element("h3", { text: "Launched" }));
    made.append(element("p", { class: "quiet", text: sum }));
    made.append(...launched.first.map((place) => placeButton(place, actions, "launched")));
  }
  return made;
}

function placeButton(place: SpanPlace, actions: DetailActions, role: string): HTMLElement {
  const made = button("", () => actions.go(place.span), { class: "row link", "data-role": role, title: place.name });
  made.append(
    element("span", { class: "name", text: place.name }),
    element("span", { class: "note", text: nanosText(place.dur) }));
  return made;
}

function frames(
  title: string,
  all: readonly FrameName[],
  actions: DetailActions,
  role: string,
): HTMLElement | null {
  if (all.length === 0) return null;
  // The innermost says most, so it comes first.
  const shown = [...all].reverse().slice(0, STACK_SHOWN);
  const rows = shown.map(({ span, name }) => {
    const link = button(name, () => actions.go(span), { class: "link", "data-role": role, title: name });
    return element("li", {}, link);
  });
  const more = all.length - shown.length;
  return element("section", {},
    element("h3", { text: title }),
    element("ol", { class: "frames" }, ...rows),
    more > 0 ? element("p", { class: "quiet", text: `and ${countText(more)} further out` }) : null);
}

function links(answer: SpanAnswer, actions: DetailActions): HTMLElement | null {
  if (answer.links.length === 0) return null;
  const rows = answer.links.map(({ category, to, other }) => {
    const made = placeButton(other, actions, "link");
    made.prepend(element("span", { class: "note", text: `${to ? "→" : "←"} ${category}` }));
    return made;
  });
  return element("section", {}, element("h3", { text: "Links" }), ...rows);
}

function argumentsTable(answer: SpanAnswer): HTMLElement | null {
  if (answer.args.length === 0) return null;
  const rows = answer.args.map(([name, value]) =>
    element("tr", {}, element("th", { text: name, scope: "row" }), element("td", { text: value })));
  return element("section", {},
    element("h3", { text: "Arguments" }),
    element("table", { class: "arguments" }, element("tbody", {}, ...rows)));
}

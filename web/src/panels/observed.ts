// What samples say of a call that was drawn from them, and what the scheduler said of a wait.

import { element } from "../drawing/dom";
import { countText, nanosText } from "../drawing/format";
import type { SampledAnswer, SpanAnswer, StackFrame } from "../server/protocol";

const FRAMES_SHOWN = 60;

/** Samples with this call on their stack. */
export function sampledElement({ sampled }: SpanAnswer): HTMLElement | null {
  if (sampled === null) return null;
  const rows: [string, string][] = [];
  if (sampled.cpu !== null) rows.push(["CPU time", nanosText(sampled.cpu)]);
  rows.push(...sampled.events.map(eventRow));
  if (sampled.events.length === 0) rows.push(["Samples", "none: drawn from the stack of a wait"]);
  if (sampled.mapping !== null) rows.push(["Mapping", sampled.mapping]);
  return element("section", { "data-role": "sampled" },
    element("h3", { text: "Samples" }),
    pairs(rows),
    linesElement(sampled));
}

function eventRow({ name, unit, samples, weight, cpu }: SampledAnswer["events"][number]): [string, string] {
  const count = `${countText(samples)} sample${samples === 1 ? "" : "s"}`;
  // What clocks count is CPU time, which stands above.
  return [name ?? "samples", cpu ? count : `${count}, ${countText(weight)} ${unit ?? ""}`.trim()];
}

function linesElement({ lines }: SampledAnswer): HTMLElement | null {
  if (lines.length === 0) return null;
  const rows = lines.map(({ file, line, samples, cpu }) => {
    const place = placeText(file, line);
    return element("tr", {},
      element("td", { text: place, title: place, "data-role": "line" }),
      element("td", { text: cpu === null ? "" : nanosText(cpu) }),
      element("td", { text: countText(samples) }));
  });
  const head = ["line", "CPU time", "samples"].map((text) => element("th", { text, scope: "col" }));
  return element("table", { class: "arguments" },
    element("thead", {}, element("tr", {}, ...head)),
    element("tbody", {}, ...rows));
}

/** Why a thread waited, and who ended that. */
export function stateElement({ state }: SpanAnswer): HTMLElement | null {
  if (state === null) return null;
  const rows: [string, string][] = [
    ["State", state.idle ? `${state.state}, idle` : state.state],
    ["Wait reason", state.reason ?? "not known"],
  ];
  if (state.lock !== null) rows.push(["Lock", state.lock]);
  if (state.cpu !== null) rows.push(["CPU", String(state.cpu)]);
  if (state.waker !== null) rows.push(["Waker", state.waker.name]);
  return element("section", { "data-role": "state" },
    element("h3", { text: "Thread state" }),
    pairs(rows),
    stackElement("Stack", state.stack, "state-stack"),
    stackElement("Stack of the waker", state.waker_stack, "waker-stack"));
}

function stackElement(title: string, stack: readonly StackFrame[], role: string): HTMLElement | null {
  if (stack.length === 0) return null;
  const rows = stack.slice(0, FRAMES_SHOWN).map(({ name, file, line, mapping }) => {
    const place = file === null && line === null ? (mapping ?? "") : placeText(file, line);
    const row = element("li", { title: `${name} ${place}`.trim() }, element("span", { text: name }));
    if (place !== "") row.append(element("span", { class: "note", text: ` ${lastPart(place)}` }));
    return row;
  });
  const more = stack.length - rows.length;
  return element("div", { "data-role": role },
    element("h3", { text: title }),
    element("ol", { class: "frames" }, ...rows),
    more > 0 ? element("p", { class: "quiet", text: `and ${countText(more)} further out` }) : null);
}

export function placeText(file: string | null, line: number | null): string {
  const name = file ?? "[unknown file]";
  return line === null ? name : `${name}:${line}`;
}

function lastPart(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}

function pairs(rows: readonly (readonly [string, string])[]): HTMLElement {
  return element("dl", {}, ...rows.flatMap(([name, text]) => [
    element("dt", { text: name }),
    element("dd", { text }),
  ]));
}

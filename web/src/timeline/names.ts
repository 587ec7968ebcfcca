// The column of names left of the tracks: buttons that fold groups and tracks.

import { button, element, replaceChildren } from "../drawing/dom";
import { amountText, countText, nanosText } from "../drawing/format";
import { lengthOf } from "../drawing/scale";
import { boundsOf, trackNote, trackTitle, traceTitle, type Alignment, type Source } from "../state/source";
import type { Signal } from "../state/signal";
import type { Layout, Line, TrackLine } from "./layout";

export class NamesColumn {
  readonly element = element("div", { class: "names" });
  readonly #toggle: (key: string) => void;

  constructor(toggle: (key: string) => void) {
    this.#toggle = toggle;
  }

  show(layout: Layout): void {
    // Rebuilding loses the keyboard's place; give it back to the same line.
    const focused = (document.activeElement as HTMLElement | null)?.dataset["line"];
    replaceChildren(this.element, ...layout.lines.map((line) => this.#line(line)));
    if (focused === undefined) return;
    this.element.querySelector<HTMLElement>(`[data-line="${CSS.escape(focused)}"]`)?.focus();
  }

  #line(line: Line): HTMLElement {
    const made = line.type === "group" ? this.#group(line) : this.#track(line);
    made.style.top = `${line.top}px`;
    made.style.height = `${line.height}px`;
    return made;
  }

  #group(line: Line & { type: "group" }): HTMLElement {
    const note = `${countText(line.tracks)} ${line.tracks === 1 ? "track" : "tracks"}`;
    const fold = this.#fold(line, line.title, "group-name");
    fold.append(element("span", { class: "note", text: note }));
    return fold;
  }

  #track(line: TrackLine): HTMLElement {
    const { track } = line;
    const title = trackTitle(track);
    const canFold = track.kind !== "counter" && track.rows > 1;
    const made = canFold
      ? this.#fold(line, title, "track-name")
      : element("div", { class: "track-name", title }, element("span", { class: "name", text: title }));
    const note = track.kind === "counter" ? extremes(line) : trackNote(track);
    if (line.height >= 40) made.append(element("span", { class: "note", text: note }));
    return made;
  }

  #fold(line: Line, title: string, className: string): HTMLButtonElement {
    const made = button("", () => this.#toggle(line.key), {
      class: className,
      title,
      "aria-expanded": line.isCollapsed ? "false" : "true",
      "data-line": line.key,
    });
    made.append(element("span", { class: "name", text: title }));
    return made;
  }
}

function extremes({ track }: TrackLine): string {
  if (track.least === null || track.most === null) return "";
  return `${amountText(track.least, track.unit)} to ${amountText(track.most, track.unit)}`;
}

/** What is open, for the corner between the ruler and the names. */
export function cornerLines(sources: readonly Source[], alignment: Signal<Alignment>): HTMLElement[] {
  const spans = sources.reduce((sum, { trace }) => sum + trace.spans, 0);
  const facts = `${countText(spans)} spans · ${nanosText(lengthOf(boundsOf(sources)))}`;
  const isLive = sources.some(({ trace }) => trace.live);
  const first = sources[0]?.trace;
  const title = first && sources.length === 1 ? traceTitle(first) : `${sources.length} traces`;
  const producer = first?.producer ?? "";
  return [
    element("strong", { text: title, title }),
    sources.length > 1 && sources.every(({ trace }) => trace.began !== null)
      ? alignmentButton(alignment)
      : isLive
        ? element("span", { class: "live", text: "● still recording", title: "This page follows it" })
        : element("span", { class: "quiet", text: producer, title: producer }),
    element("span", { class: "quiet", text: facts, title: facts }),
  ];
}

function alignmentButton(alignment: Signal<Alignment>): HTMLElement {
  const isClock = alignment.value === "clock";
  const text = isClock ? "on one clock" : "each from its begin";
  const title = isClock ? "Let each trace begin at 0" : "Put the traces on one clock, as they were recorded";
  return button(text, () => alignment.set(isClock ? "starts" : "clock"), { class: "link", title, "data-role": "align" });
}

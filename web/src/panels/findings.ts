// The report of a trace: findings first, then its tables, and what of the file was odd.

import { choice, element, replaceChildren } from "../drawing/dom";
import { countText, nanosText } from "../drawing/format";
import type { Place, TraceInfo } from "../server/protocol";
import { askReport, reasonText } from "../server/server";
import type { State } from "../state/state";
import { traceTitle } from "../state/source";
import { sectionElement } from "./tables";

export class FindingsPanel {
  readonly element = element("section", { class: "panel findings", "aria-label": "Findings" });
  readonly #state: State;
  readonly #go: (trace: number, place: Place) => void;
  #shown = "";

  constructor(state: State, go: (trace: number, place: Place) => void) {
    this.#state = state;
    this.#go = go;
  }

  async show(): Promise<void> {
    const source = this.#state.source(this.#state.trace.value);
    if (source === undefined) return;
    const { trace } = source;
    const key = `${trace.id}/${trace.to}`;
    if (key === this.#shown) return;
    this.#shown = key;
    const head = this.#head(trace);
    replaceChildren(this.element, head, element("p", { class: "quiet", text: "Looking at the trace …" }));
    try {
      const { sections, hints = [] } = await askReport(trace.id);
      if (this.#shown !== key) return;
      const go = (place: Place): void => this.#go(trace.id, place);
      replaceChildren(this.element, head,
        ...sections.map((section) => sectionElement(section, go)),
        ...hints.map((text) => element("p", { class: "quiet", text })),
        notices(trace));
    } catch (error) {
      this.#shown = "";
      replaceChildren(this.element, head, element("p", { class: "error", text: reasonText(error) }));
    }
  }

  #head(trace: TraceInfo): HTMLElement {
    const { sources } = this.#state;
    const facts = [trace.producer, `${countText(trace.spans)} spans`, nanosText(trace.to - trace.from)];
    const head = element("header", { class: "panel-head" },
      element("h1", { text: traceTitle(trace) }),
      element("p", { class: "quiet", text: facts.filter((fact) => fact).join(" · ") }));
    if (sources.value.length < 2) return head;
    const traces = sources.value.map((it) => [String(it.trace.id), traceTitle(it.trace)] as const);
    const select = choice("Trace", traces, (id) => {
      this.#state.trace.set(Number(id));
      void this.show();
    });
    select.value = String(trace.id);
    head.append(select);
    return head;
  }
}

function notices({ notices }: TraceInfo): HTMLElement | null {
  if (notices.length === 0) return null;
  const rows = notices.map(({ text, count }) =>
    element("li", { text: count > 1 ? `${text} (${countText(count)} times)` : text }));
  return element("section", { class: "section" },
    element("h2", { text: "What was odd in the file" }),
    element("ul", {}, ...rows));
}

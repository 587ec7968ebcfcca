// Search: the box in the head of the page, the list of what was found, and the steps from
// one found span to the next.

import { button, element } from "../drawing/dom";
import { countText, nanosText } from "../drawing/format";
import type { SearchAnswer, SpanPlace } from "../server/protocol";
import { askSearch, isAborted, reasonText } from "../server/server";
import type { SpanReference, State } from "../state/state";
import { traceTitle } from "../state/source";

const REST_MS = 150;

interface SearchResult {
  trace: number;
  answer: SearchAnswer;
}

export interface SearchActions {
  go(place: SpanReference): void;
  /** The user types: what is found stands beside the timeline. */
  begin(): void;
  show(content: HTMLElement): void;
  clear(): void;
}

export class Search {
  readonly input = element("input", {
    type: "search",
    class: "search",
    placeholder: "Search spans ( / )",
    "aria-label": "Search spans",
    "aria-keyshortcuts": "/",
  });
  readonly #state: State;
  readonly #actions: SearchActions;
  #found: SearchResult[] = [];
  #spans: (SpanPlace & { trace: number })[] = [];
  #at = -1;
  #stop = new AbortController();
  #timer = 0;

  constructor(state: State, actions: SearchActions) {
    this.#state = state;
    this.#actions = actions;
    this.input.addEventListener("input", () => this.#soon());
    this.input.addEventListener("keydown", (event) => this.#key(event));
    state.search.watch((text) => {
      if (this.input.value.trim() !== text) this.input.value = text;
      void this.#run(text);
    });
  }

  /** Goes to the next found span, or with -1 to the one before. */
  step(by: 1 | -1): void {
    const count = this.#spans.length;
    if (count === 0) return;
    this.#at = this.#at < 0 ? (by > 0 ? 0 : count - 1) : (this.#at + by + count) % count;
    const { trace, span } = this.#spans[this.#at]!;
    this.#actions.go({ trace, span });
    this.#state.announced.set(`${this.#at + 1} of ${count} found`);
  }

  #soon(): void {
    this.#actions.begin();
    window.clearTimeout(this.#timer);
    this.#timer = window.setTimeout(() => this.#state.search.set(this.input.value.trim()), REST_MS);
  }

  #key(event: KeyboardEvent): void {
    if (event.key === "Escape") {
      this.#state.search.set("");
      this.input.value = "";
      this.input.blur();
      event.stopPropagation();
    } else if (event.key === "Enter") {
      window.clearTimeout(this.#timer);
      const text = this.input.value.trim();
      if (text === this.#state.search.value) this.step(event.shiftKey ? -1 : 1);
      else this.#state.search.set(text);
    }
  }

  async #run(text: string): Promise<void> {
    this.#stop.abort();
    this.#found = [];
    this.#spans = [];
    this.#at = -1;
    if (text === "") return this.#actions.clear();
    const stop = new AbortController();
    this.#stop = stop;
    try {
      this.#found = await Promise.all(
        this.#state.sources.value.map(async ({ trace }) => ({
          trace: trace.id,
          answer: await askSearch(trace.id, text, trace, stop.signal),
        })),
      );
    } catch (error) {
      if (isAborted(error)) return;
      return this.#actions.show(element("p", { class: "error", text: reasonText(error) }));
    }
    this.#spans = this.#found.flatMap(({ trace, answer }) => answer.spans.map((span) => ({ ...span, trace })));
    this.#actions.show(this.#list(text));
  }

  #list(text: string): HTMLElement {
    const total = this.#found.reduce((sum, { answer }) => sum + answer.count, 0);
    const made = element("div", { class: "found", "data-count": total },
      element("h2", { text: total === 0 ? "Nothing found" : `${countText(total)} spans` }),
      element("p", { class: "quiet", text: total === 0 ? `No name contains “${text}”.` : `have “${text}” in their name` }));
    if (total === 0) return made;
    made.append(element("div", { class: "buttons" },
      button("‹ previous", () => this.step(-1), { title: "Previous (N)" }),
      button("next ›", () => this.step(1), { title: "Next (n)" })));
    for (const found of this.#found) {
      const source = this.#state.source(found.trace);
      if (this.#found.length > 1 && source !== undefined) {
        made.append(element("h3", { text: traceTitle(source.trace) }));
      }
      made.append(this.#names(found), this.#places(found));
    }
    return made;
  }

  #names({ trace, answer }: SearchResult): HTMLElement {
    const rows = answer.names.map(({ name, count, total, first }) => this.#row(
      name,
      `${countText(count)} × · ${nanosText(total)}`,
      { trace, span: first },
    ));
    return element("section", {}, element("h3", { text: "Names, the costliest first" }), ...rows);
  }

  #places({ trace, answer }: SearchResult): HTMLElement {
    const source = this.#state.source(trace);
    const rows = answer.spans.map(({ name, start, dur, span }) => this.#row(
      name,
      `${nanosText(start - (source?.origin ?? 0))} · ${nanosText(dur)}`,
      { trace, span },
    ));
    const title = answer.spans.length < answer.count ? `The first ${countText(answer.spans.length)} spans` : "Spans";
    return element("section", {}, element("h3", { text: title }), ...rows);
  }

  #row(name: string, note: string, place: SpanReference): HTMLElement {
    const go = (): void => {
      this.#at = this.#spans.findIndex(({ trace, span }) => trace === place.trace && span === place.span);
      this.#actions.go(place);
    };
    const made = button("", go, { class: "row link", "data-role": "found", title: name });
    made.append(element("span", { class: "name", text: name }), element("span", { class: "note", text: note }));
    return made;
  }
}

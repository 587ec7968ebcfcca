// Two traces: their timelines one above the other on one clock, the second shifted as the
// user likes, and the table of what changed.

import { button, choice, element, replaceChildren } from "../drawing/dom";
import { nanosText } from "../drawing/format";
import type { Place, Section } from "../server/protocol";
import { around, lengthOf, type Range } from "../drawing/scale";
import { askCompare, askSpan, reasonText } from "../server/server";
import { Source, boundsOf, traceTitle } from "../state/source";
import type { State } from "../state/state";
import { Timeline } from "../timeline/timeline";
import { sectionElement } from "./tables";

export interface CompareActions {
  pick(trace: number, span: number): void;
  /** Shows the flame graph of what changed. */
  flame(base: number, other: number): void;
}

export class ComparePanel {
  readonly element = element("section", { class: "panel compare", "aria-label": "Compare" });
  readonly #state: State;
  readonly #actions: CompareActions;
  readonly #controls = element("div", { class: "controls" });
  readonly #tables = element("div", { class: "compare-tables" });
  readonly #timelines: [Timeline, Timeline];
  #chosen: [number, number] = [0, 1];
  #shift = 0;
  #sources: [Source, Source] | null = null;
  #shown = "";

  constructor(state: State, actions: CompareActions) {
    this.#state = state;
    this.#actions = actions;
    const { pick } = actions;
    const bounds = (): Range => boundsOf(this.#sources ?? []);
    const one = (at: 0 | 1): Timeline =>
      new Timeline(state, { sources: () => this.#shownSources(at), bounds, pick });
    this.#timelines = [one(0), one(1)];
    const pair = element("div", { class: "pair" }, ...this.#timelines.map((it) => it.element));
    this.element.append(this.#controls, pair, this.#tables);
  }

  get timelines(): readonly Timeline[] {
    return this.#timelines;
  }

  show(): void {
    this.#arrange();
    void this.#ask();
  }

  #shownSources(at: 0 | 1): readonly Source[] {
    return this.#sources === null ? [] : [this.#sources[at]];
  }

  #arrange(): void {
    const [base, other] = this.#chosen.map((id) => this.#state.source(id)?.trace);
    if (base === undefined || other === undefined) return;
    this.#sources = [new Source(base), new Source(other, this.#shift)];
    for (const timeline of this.#timelines) timeline.refresh();
    this.#fillControls();
  }

  #fillControls(): void {
    const traces = this.#state.sources.value.map(({ trace }) => [String(trace.id), traceTitle(trace)] as const);
    const select = (label: string, at: 0 | 1): HTMLElement => {
      const made = choice(label, traces, (id) => {
        this.#chosen[at] = Number(id);
        this.#shift = 0;
        this.show();
      });
      made.value = String(this.#chosen[at]);
      return element("label", {}, `${label} `, made);
    };
    const nudge = (share: number): void => {
      this.#shift += Math.round(share * lengthOf(this.#state.view.value));
      this.#arrange();
    };
    const alignment = this.#shift === 0 ? "aligned at their start" : `shifted by ${nanosText(this.#shift)}`;
    replaceChildren(
      this.#controls,
      select("Base", 0),
      select("Other", 1),
      button("⟵", () => nudge(-0.02), { "aria-label": "Shift the other earlier" }),
      button("⟶", () => nudge(0.02), { "aria-label": "Shift the other later" }),
      button("Align starts", () => {
        this.#shift = 0;
        this.#arrange();
      }),
      this.#alignButton(),
      button("Flame graph of the change", () => this.#actions.flame(...this.#chosen)),
      element("span", { class: "quiet", text: alignment, "data-role": "shift" }),
    );
  }

  /** With a span of the other trace selected, that may be laid where the view begins. */
  #alignButton(): HTMLElement {
    const made = button("Selected to the left edge", () => {
      const chosen = this.#state.selected.value;
      const other = this.#sources?.[1];
      if (chosen === null || other === undefined || chosen.trace !== other.trace.id) return;
      this.#shift = Math.round(this.#state.view.value.from + other.trace.from - chosen.answer.start);
      this.#arrange();
    }, { title: "Shift the other trace so that its selected span begins at the left edge" });
    return made;
  }

  async #ask(): Promise<void> {
    const [base, other] = this.#chosen;
    const key = `${base}/${other}`;
    if (key === this.#shown) return;
    this.#shown = key;
    replaceChildren(this.#tables, element("p", { class: "quiet", text: "Comparing …" }));
    try {
      const { sections } = await askCompare(base, other);
      if (this.#shown !== key) return;
      replaceChildren(this.#tables, ...sections.map((section) => this.#section(section)));
    } catch (error) {
      this.#shown = "";
      replaceChildren(this.#tables, element("p", { class: "error", text: reasonText(error) }));
    }
  }

  #section(section: Section): HTMLElement {
    const { places = [], other_places: others = [] } = section;
    // What only one of them has is a link too.
    const either = places.map((place, at) => place ?? others[at] ?? null);
    return sectionElement({ ...section, places: either }, (place) => {
      const at = either.indexOf(place);
      this.#go(places[at] ?? null, others[at] ?? null);
    });
  }

  /** Scrolls one of the timelines to a place: to the row of its span, which the server knows. */
  async #reveal(side: 0 | 1, { track, span }: Place): Promise<void> {
    const trace = this.#sources![side].trace.id;
    if (track === null) return;
    try {
      const row = span === undefined ? 0 : (await askSpan(trace, span)).row;
      this.#timelines[side].reveal(trace, track, row);
    } catch (error) {
      this.#state.problem.set(reasonText(error));
    }
  }

  /** Goes to a place of the base, and shifts the other so that its own place is below. */
  #go(place: Place | null, otherPlace: Place | null): void {
    if (this.#sources === null) return;
    if (place !== null && otherPlace !== null) {
      const { from } = this.#sources[0].toScreen(place);
      this.#shift = Math.round(from + this.#sources[1].trace.from - otherPlace.from);
      this.#arrange();
    }
    const ways = [place, otherPlace].map((it, side) => ({ place: it, side: side as 0 | 1 }));
    const shown = ways.flatMap(({ place: it, side }) => (it === null ? [] : [this.#sources![side].toScreen(it)]));
    const longest = shown.reduce((one, it) => (lengthOf(it) > lengthOf(one) ? it : one));
    this.#state.view.set(around(longest, boundsOf(this.#sources)));
    for (const { place: it, side } of ways) if (it !== null) void this.#reveal(side, it);
    const chosen = ways.find(({ place: it }) => it?.span !== undefined);
    if (chosen === undefined) return;
    this.#actions.pick(this.#sources[chosen.side].trace.id, chosen.place!.span!);
  }
}

// Going somewhere: to a span or a place of a trace, from wherever it is named.

import type { Place } from "../server/protocol";
import { around, revealed } from "../drawing/scale";
import { RefusalError, askSpan, askSpanAt, reasonText } from "../server/server";
import type { SpanReference, State } from "./state";
import type { Timeline } from "../timeline/timeline";

/** A span narrower than this share of the view is zoomed to, else nobody would see it. */
const TINY_SHARE = 0.002;

export class Navigator {
  readonly #state: State;
  readonly #timelines: () => readonly Timeline[];
  #asked = 0;

  constructor(state: State, timelines: () => readonly Timeline[]) {
    this.#state = state;
    this.#timelines = timelines;
  }

  /** Selects a span where it is; a span that was asked for before no longer comes. */
  async select({ trace, span }: SpanReference): Promise<boolean> {
    const asked = ++this.#asked;
    try {
      const answer = await askSpan(trace, span);
      if (asked !== this.#asked) return false;
      this.#state.selected.set({ trace, answer });
      return true;
    } catch (error) {
      this.#state.problem.set(reasonText(error));
      return false;
    }
  }

  /** Finds the selected span again in a trace that has grown. */
  async selectAgain(trace: number): Promise<void> {
    const chosen = this.#state.selected.value;
    if (chosen === null || chosen.trace !== trace) return;
    const asked = ++this.#asked;
    try {
      const answer = await askSpanAt(trace, chosen.answer);
      if (asked === this.#asked) this.#state.selected.set({ trace, answer });
    } catch (error) {
      if (asked === this.#asked && error instanceof RefusalError) this.#state.selected.set(null);
    }
  }

  clear(): void {
    this.#asked++;
    this.#state.selected.set(null);
  }

  /** Selects a span and brings it onto the screen. */
  async goToSpan(reference: SpanReference): Promise<void> {
    if (!(await this.select(reference))) return;
    const { panel, selected, view, bounds } = this.#state;
    if (panel.value !== "compare") panel.set("timeline");
    const source = this.#state.source(reference.trace);
    if (selected.value === null || source === undefined) return;
    const { start, dur } = selected.value.answer;
    const range = source.toScreen({ from: start, to: start + dur });
    const shown = revealed(view.value, range, bounds);
    const isTiny = (range.to - range.from) / (shown.to - shown.from) < TINY_SHARE;
    view.set(isTiny ? around(range, bounds, 12) : shown);
    this.#revealSelected();
  }

  goToPlace(trace: number, place: Place): void {
    const { panel, view, range, bounds } = this.#state;
    const source = this.#state.source(trace);
    if (source === undefined) return;
    panel.set("timeline");
    this.#state.trace.set(trace);
    const there = source.toScreen(place);
    view.set(around(there, bounds, 0.15));
    range.set(there);
    const { track } = place;
    if (track !== null) for (const timeline of this.#timelines()) timeline.reveal(trace, track, 0);
  }

  /** The selected span, or else the selected range, fills the screen. */
  focus(): void {
    const { selected, range, view, bounds } = this.#state;
    if (selected.value === null) {
      if (range.value !== null) view.set(around(range.value, bounds, 0.02));
      return;
    }
    const { start, dur } = selected.value.answer;
    const source = this.#state.source(selected.value.trace);
    if (source === undefined) return;
    view.set(around(source.toScreen({ from: start, to: start + dur }), bounds));
    this.#revealSelected();
  }

  #revealSelected(): void {
    const selected = this.#state.selected.value;
    if (selected === null) return;
    const { track, row } = selected.answer;
    for (const timeline of this.#timelines()) timeline.reveal(selected.trace, track, row);
  }
}

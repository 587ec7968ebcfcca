// The page put together: panels, what leads from one to another, and keys.

import { copyLink, followAddress } from "../state/address";
import { bannerElement } from "./banner";
import { element, replaceChildren } from "../drawing/dom";
import { FlamePanel } from "../flame/panel";
import { nanosText } from "../drawing/format";
import { headElement } from "./head";
import { attachKeys, type Direction } from "./keyboard";
import { followLive } from "../server/live";
import { Navigator } from "../state/navigate";
import { ComparePanel } from "../panels/compare";
import { detailsElement } from "../panels/details";
import { FindingsPanel } from "../panels/findings";
import { Help } from "../panels/help";
import { rangeElement } from "../panels/range";
import { Search } from "../panels/search";
import { Side, type Slot } from "../panels/side";
import { SqlPanel } from "../panels/sql";
import type { TraceInfo } from "../server/protocol";
import { around, wholeOf, type Range } from "../drawing/scale";
import { useRead } from "../server/server";
import { aligned, sharesClock, trackTitle } from "../state/source";
import { PANELS, State, type Panel } from "../state/state";
import { toggleTheme } from "./theme";
import { Timeline } from "../timeline/timeline";

const RANGE_REST_MS = 200;
const ZOOM_PER_S = 7;
const PAN_PER_S = 1.3;
const SCROLL_PER_S = 900;

export class App {
  readonly element = element("div", { class: "app" });
  readonly #state: State;
  readonly #navigator: Navigator;
  readonly #timeline: Timeline;
  readonly #flame: FlamePanel;
  readonly #compare: ComparePanel;
  readonly #findings: FindingsPanel;
  readonly #sql: SqlPanel;
  readonly #search: Search;
  readonly #help = new Help();
  readonly #side = new Side((slot) => this.#close(slot));
  #rangeTimer = 0;

  constructor(state: State, traces: readonly TraceInfo[]) {
    this.#state = state;
    const timelines = (): Timeline[] => [this.#timeline, ...this.#compare.timelines];
    const navigator = new Navigator(state, timelines);
    this.#navigator = navigator;
    const pick = (trace: number, span: number): void => void navigator.select({ trace, span });
    this.#timeline = new Timeline(state, {
      sources: () => state.sources.value,
      bounds: () => state.bounds,
      pick,
    });
    this.#flame = new FlamePanel(state);
    this.#compare = new ComparePanel(state, {
      pick,
      flame: (base, other) => {
        this.#flame.compare(base, other);
        state.panel.set("flame");
      },
    });
    this.#findings = new FindingsPanel(state, (trace, place) => navigator.goToPlace(trace, place));
    this.#sql = new SqlPanel(state, {
      span: (span) => void navigator.goToSpan(span),
      place: (trace, place) => navigator.goToPlace(trace, place),
    });
    this.#search = new Search(state, {
      go: (place) => void navigator.goToSpan(place),
      begin: () => {
        if (!this.#hasTimeline()) state.panel.set("timeline");
      },
      show: (content) => this.#side.show("search", content),
      clear: () => this.#side.clear("search"),
    });
    this.#assemble();
    this.#watch();
    state.alignment.set(sharesClock(traces) ? "clock" : "starts");
    state.sources.set(aligned(traces, state.alignment.value));
    state.view.set(wholeOf(state.bounds));
    followAddress(state, (span) => void navigator.select(span));
    followLive(state, (trace) => {
      useRead(trace);
      for (const timeline of timelines()) timeline.forget(trace.id);
      void navigator.selectAgain(trace.id);
    });
  }

  #assemble(): void {
    const state = this.#state;
    const live = element("p", { class: "announced", role: "status", "aria-live": "polite", id: "announced" });
    state.announced.watch((text) => (live.textContent = text));
    const head = headElement(state, this.#search.input, {
      copyLink: () => void copyLink(state),
      toggleTheme: () => toggleTheme(state),
      help: () => this.#help.toggle(),
    });
    const panels: [Panel, HTMLElement][] = [
      ["timeline", this.#timeline.element],
      ["flame", this.#flame.element],
      ["compare", this.#compare.element],
      ["findings", this.#findings.element],
      ["sql", this.#sql.element],
    ];
    const main = element("main", { class: "main" });
    for (const [panel, content] of panels) {
      content.id = `panel-${panel}`;
      main.append(content);
    }
    const show = (): void => {
      for (const [panel, content] of panels) content.hidden = panel !== state.panel.value;
    };
    state.panel.watch(show);
    show();
    const middle = element("div", { class: "middle" }, main, this.#side.element);
    replaceChildren(this.element, head, bannerElement(state), middle, live, this.#help.element);
  }

  #watch(): void {
    const state = this.#state;
    state.sources.watch(() => this.#timeline.refresh());
    state.alignment.watch((alignment) => {
      state.sources.set(aligned(state.sources.value.map(({ trace }) => trace), alignment));
      state.view.set(wholeOf(state.bounds));
    });
    state.panel.watch(() => this.#showPanel(null));
    state.selected.watch(() => this.#showSelected());
    state.range.watch(() => this.#showRangeSoon());
    attachKeys({
      canMove: () => this.#hasTimeline() && !this.#help.element.open,
      move: (direction, seconds) => this.#move(direction, seconds),
      press: (key) => this.#press(key),
    });
  }

  #hasTimeline(): boolean {
    return ["timeline", "compare"].includes(this.#state.panel.value);
  }

  #showPanel(flameRange: Range | null): void {
    this.#side.want(this.#hasTimeline());
    switch (this.#state.panel.value) {
      case "flame":
        return this.#flame.show(flameRange);
      case "compare":
        return this.#compare.show();
      case "findings":
        return void this.#findings.show();
      case "sql":
        return this.#sql.focus();
      case "timeline":
        return this.#timeline.refresh();
    }
  }

  #showSelected(): void {
    const selected = this.#state.selected.value;
    if (selected === null) return this.#side.clear("details");
    const { answer, trace } = selected;
    const source = this.#state.source(trace);
    const track = source?.track(answer.track);
    const where = track === undefined ? "" : `, on ${trackTitle(track)}`;
    const at = nanosText(answer.start - (source?.origin ?? 0));
    this.#state.announced.set(`${answer.name}, ${nanosText(answer.dur)}, at ${at}${where}`);
    this.#side.show("details", detailsElement(selected, source, {
      go: (span) => void this.#navigator.goToSpan({ trace, span }),
      focus: () => this.#navigator.focus(),
    }));
  }

  #showRangeSoon(): void {
    window.clearTimeout(this.#rangeTimer);
    const range = this.#state.range.value;
    if (range === null) return this.#side.clear("range");
    this.#rangeTimer = window.setTimeout(() => void this.#showRange(range), RANGE_REST_MS);
  }

  async #showRange(range: Range): Promise<void> {
    const content = await rangeElement(this.#state, range, {
      zoom: () => this.#state.view.set(around(range, this.#state.bounds, 0.02)),
      flame: () => {
        this.#state.panel.set("flame");
        this.#showPanel(range);
      },
      go: (place) => this.#navigator.goToPlace(this.#state.trace.value, place),
      again: () => void this.#showRange(range),
    });
    if (this.#state.range.value === range) this.#side.show("range", content);
  }

  #close(slot: Slot): void {
    if (slot === "details") this.#navigator.clear();
    else if (slot === "range") this.#state.range.set(null);
    else this.#state.search.set("");
  }

  #move(direction: Direction, seconds: number): void {
    const isCompare = this.#state.panel.value === "compare";
    const timeline = isCompare ? this.#compare.timelines[0]! : this.#timeline;
    switch (direction) {
      case "in":
        return timeline.zoomBy(ZOOM_PER_S ** -seconds);
      case "out":
        return timeline.zoomBy(ZOOM_PER_S ** seconds);
      case "left":
        return timeline.panBy(-PAN_PER_S * seconds);
      case "right":
        return timeline.panBy(PAN_PER_S * seconds);
      case "up":
        return timeline.scrollBy(-SCROLL_PER_S * seconds);
      case "down":
        return timeline.scrollBy(SCROLL_PER_S * seconds);
    }
  }

  /** Whether the key means something. */
  #press(key: string): boolean {
    if (this.#help.element.open && key !== "?") return false;
    const { selected, view, panel, sources } = this.#state;
    const goToSame = (which: "previous" | "next"): void => {
      const chosen = selected.value;
      const span = chosen?.answer.same_name[which];
      if (chosen !== null && span != null) void this.#navigator.goToSpan({ trace: chosen.trace, span });
    };
    const actions: Record<string, () => void> = {
      f: () => this.#navigator.focus(),
      "0": () => view.set(wholeOf(this.#state.bounds)),
      "/": () => this.#search.input.focus(),
      n: () => this.#search.step(1),
      N: () => this.#search.step(-1),
      "?": () => this.#help.toggle(),
      "[": () => goToSame("previous"),
      "]": () => goToSame("next"),
      Escape: () => this.#escape(),
    };
    const shown = /^[1-5]$/.test(key) ? PANELS[Number(key) - 1] : undefined;
    if (shown !== undefined && (shown !== "compare" || sources.value.length > 1)) panel.set(shown);
    actions[key]?.();
    return shown !== undefined || key in actions;
  }

  #escape(): void {
    const { selected, range, search } = this.#state;
    if (selected.value !== null) this.#navigator.clear();
    else if (range.value !== null) range.set(null);
    else search.set("");
  }
}

// The timeline: overview, ruler, names and tracks of one or several traces on one clock.
// It paints from the last answers at once and asks for better ones when the view rests.

import { Repaint, Surface } from "../drawing/canvas";
import { PAINTS } from "../drawing/color";
import { element, replaceChildren } from "../drawing/dom";
import { insideOf, panBy, timeAt, zoomAt, type Range } from "../drawing/scale";
import type { State } from "../state/state";
import type { Source } from "../state/source";
import { chunkOf } from "./chunk";
import { layoutOf, linesBetween, trackLineOf, ROW_HEIGHT, rowsTop } from "./layout";
import type { Layout, TrackLine } from "./layout";
import { Labels } from "./painting/labels";
import { NamesColumn, cornerLines } from "./names";
import { attachOverview, attachRuler, attachTracks, attachWheel } from "./pointing/pointer";
import { OVERVIEW_HEIGHT, Overview, RULER_HEIGHT, paintRuler } from "./painting/ruler";
import { hitAt, showHit, type Hit } from "./pointing/pick";
import { PixelRows } from "./painting/pixels";
import { paintScene, selectedBox } from "./painting/scene";
import { PictureStore, type TrackPicture } from "./store";
import { Tooltip } from "./pointing/tooltip";

/** How long the view rests before the server is asked. */
const REST_MS = 40;

export interface TimelineOptions {
  /** Which of the state's traces this one shows, and how they are shifted. */
  sources: () => readonly Source[];
  /** The range that can be shown; more than the sources where two timelines move together. */
  bounds: () => Range;
  pick: (trace: number, span: number) => void;
}

export class Timeline {
  readonly element: HTMLElement;
  readonly #state: State;
  readonly #sources: () => readonly Source[];
  readonly #bounds: () => Range;
  readonly #pick: (trace: number, span: number) => void;
  readonly #overview = new Surface(element("canvas", { class: "overview", role: "img", "aria-label": "Overview of the whole trace" }));
  readonly #overviewPainted = new Overview();
  readonly #ruler = new Surface(element("canvas", { class: "ruler", role: "img", "aria-label": "Ruler; drag to select a range" }));
  readonly #tracks = new Surface(element("canvas", { class: "tracks", role: "img", "aria-label": "Tracks" }));
  readonly #corner = element("div", { class: "corner" });
  readonly #tall = element("div", { class: "tall" });
  readonly #body = element("div", { class: "timeline-body", tabindex: 0, role: "group", "aria-label": "Tracks; arrow keys move, w and s zoom" });
  readonly #names = new NamesColumn((key) => this.#toggle(key));
  readonly #tooltip = new Tooltip();
  readonly #stores = new Map<number, PictureStore>();
  readonly #collapsed = new Set<string>();
  readonly #rows = new PixelRows();
  readonly #labels = new Labels();
  readonly #repaint = new Repaint(() => this.#paint());
  #layout: Layout = { lines: [], height: 0 };
  #hovered: Hit | null = null;
  #timer = 0;

  constructor(state: State, options: TimelineOptions) {
    this.#state = state;
    this.#sources = options.sources;
    this.#bounds = options.bounds;
    this.#pick = options.pick;
    const rulers = element("div", { class: "rulers" }, this.#overview.canvas, this.#ruler.canvas);
    const head = element("div", { class: "timeline-head" }, this.#corner, rulers);
    this.#tall.append(this.#names.element, this.#tracks.canvas);
    this.#body.append(this.#tall);
    this.element = element("section", { class: "timeline", "aria-label": "Timeline" }, head, this.#body, this.#tooltip.element);
    this.#attach();
  }

  /** Where the pointer is, or the middle: keys zoom there. */
  #pointerX: number | null = null;

  zoomBy(factor: number): void {
    this.#zoom(factor, this.#pointerX ?? this.#tracks.width / 2);
  }

  panBy(share: number): void {
    const { view } = this.#state;
    view.set(panBy(view.value, share * (view.value.to - view.value.from), this.#bounds()));
  }

  scrollBy(pixels: number): void {
    this.#body.scrollTop += pixels;
  }

  /** Lays out anew: other traces, or one that has grown. */
  refresh(): void {
    this.#layout = layoutOf(this.#sources(), this.#collapsed);
    this.#names.show(this.#layout);
    replaceChildren(this.#corner, ...cornerLines(this.#sources(), this.#state.alignment));
    this.#resize();
  }

  /** Forgets the answers about a trace that has grown: its spans have other numbers now. */
  forget(trace: number): void {
    this.#stores.get(trace)?.forget();
  }

  /** Scrolls until the row of a track is on the screen, and unfolds what hides it. */
  reveal(trace: number, track: number, row: number): void {
    let line = trackLineOf(this.#layout, trace, track);
    if (line === undefined || row >= line.rows) {
      this.#unfold(trace, track);
      line = trackLineOf(this.#layout, trace, track);
    }
    if (line === undefined) return;
    const top = rowsTop(line) + row * ROW_HEIGHT;
    const { scrollTop, clientHeight } = this.#body;
    if (top < scrollTop + ROW_HEIGHT || top > scrollTop + clientHeight - 2 * ROW_HEIGHT) {
      this.#body.scrollTop = top - clientHeight / 2;
    }
  }

  #unfold(trace: number, track: number): void {
    this.#collapsed.delete(`${trace}/${track}`);
    for (const line of this.#layout.lines) {
      const isOurs = line.type === "group" && line.source.trace.id === trace;
      if (isOurs && line.isCollapsed) this.#collapsed.delete(line.key);
    }
    this.refresh();
  }

  #toggle(key: string): void {
    if (!this.#collapsed.delete(key)) this.#collapsed.add(key);
    this.refresh();
  }

  #attach(): void {
    const { view, selected, range, search, theme } = this.#state;
    const repaint = (): void => this.#repaint.ask();
    view.watch(repaint);
    selected.watch(repaint);
    range.watch(repaint);
    search.watch(repaint);
    theme.watch(repaint);
    const bounds = this.#bounds;
    const actions = {
      pick: (x: number, y: number) => this.#pickAt(x, y),
      hover: (x: number, y: number, event: PointerEvent) => this.#hover(x, y, event),
      leave: () => this.#leave(),
      pan: (pixels: number) => this.panBy(pixels / Math.max(this.#tracks.width, 1)),
      scroll: (pixels: number) => this.scrollBy(pixels),
      zoom: (factor: number, x: number) => this.#zoom(factor, x),
      timeAt: (x: number) => timeAt(x, view.value, this.#tracks.width),
      select: (chosen: Range | null) => range.set(chosen),
      jump: (share: number) => {
        const length = view.value.to - view.value.from;
        const from = bounds().from + share * (bounds().to - bounds().from) - length / 2;
        view.set(insideOf({ from, to: from + length }, bounds()));
      },
    };
    attachTracks(this.#tracks.canvas, actions);
    attachRuler(this.#ruler.canvas, actions);
    attachOverview(this.#overview.canvas, actions);
    attachWheel(this.element, this.#tracks.canvas, actions);
    this.#body.addEventListener("scroll", () => this.#repaint.ask());
    new ResizeObserver(() => this.#resize()).observe(this.#body);
  }

  #zoom(factor: number, x: number): void {
    const { view } = this.#state;
    const at = timeAt(x, view.value, this.#tracks.width);
    view.set(zoomAt(view.value, factor, at, this.#bounds()));
  }

  #resize(): void {
    const height = this.#body.clientHeight;
    this.#tall.style.height = `${Math.max(this.#layout.height, height)}px`;
    const width = Math.max(this.#body.clientWidth - this.#names.element.offsetWidth, 50);
    this.#tracks.resize(width, height);
    this.#ruler.resize(width, RULER_HEIGHT);
    this.#overview.resize(width, OVERVIEW_HEIGHT);
    this.#repaint.ask();
  }

  #store(source: Source): PictureStore {
    const { id } = source.trace;
    let store = this.#stores.get(id);
    if (store === undefined) {
      const failed = (error: unknown): void => this.#state.problem.set(String(error));
      store = new PictureStore(id, () => this.#repaint.ask(), failed);
      this.#stores.set(id, store);
    }
    return store;
  }

  /** The pictures of a track for what is on the screen now. */
  #pictures(line: TrackLine): TrackPicture[] {
    const { source, track } = line;
    return this.#store(source).pictures(track.id, this.#chunk(source));
  }

  #chunk(source: Source): ReturnType<typeof chunkOf> {
    const width = Math.round(this.#tracks.width);
    return chunkOf(source.toTrace(this.#state.view.value), width, source.trace);
  }

  #paint(): void {
    if (!this.element.isConnected || this.element.offsetParent === null) return;
    const { view, range } = this.#state;
    const paints = PAINTS[this.#state.theme.value];
    const { width } = this.#tracks;
    paintRuler(this.#ruler.context, view.value, width, range.value, paints);
    const tracks = this.#sources().flatMap((source) =>
      source.trace.tracks.flatMap((track) => {
        const picture = this.#store(source).overviewOf(track.id);
        return picture === undefined || picture.len === 0 ? [] : [{ source, picture }];
      }),
    );
    this.#overviewPainted.paint(this.#overview, tracks, this.#bounds(), view.value, paints);
    const painted = paintScene({
      surface: this.#tracks,
      state: this.#state,
      layout: this.#layout,
      scrollTop: this.#body.scrollTop,
      pictures: (line) => this.#pictures(line),
      hovered: this.#hovered,
      paints,
      rows: this.#rows,
      labels: this.#labels,
    });
    this.#askSoon();
    this.#setTestAttributes(painted);
  }

  /** What a test cannot see on a canvas stands in attributes. */
  #setTestAttributes(painted: number): void {
    const { view, selected } = this.#state;
    const { dataset } = this.element;
    dataset["from"] = String(Math.round(view.value.from));
    dataset["to"] = String(Math.round(view.value.to));
    dataset["rectangles"] = String(painted);
    const isWaiting = [...this.#stores.values()].some((store) => store.isWaiting);
    dataset["waiting"] = String(isWaiting || this.#timer !== 0);
    dataset["selected"] = selected.value === null ? "" : String(selected.value.answer.span);
    const box = selectedBox(this.#state, this.#layout, this.#tracks.width);
    dataset["box"] = "";
    if (box === null) return;
    // Where it is on the page is known only after a layout, which is not for free.
    const at = this.#tracks.canvas.getBoundingClientRect();
    dataset["box"] = [at.left + box.x, at.top + box.y - this.#body.scrollTop, box.w, ROW_HEIGHT].map(Math.round).join(" ");
  }

  #askSoon(): void {
    window.clearTimeout(this.#timer);
    this.#timer = window.setTimeout(() => {
      this.#timer = 0;
      this.#ask();
    }, REST_MS);
  }

  #ask(): void {
    const { scrollTop, clientHeight } = this.#body;
    const near = linesBetween(this.#layout.lines, scrollTop - clientHeight / 2, scrollTop + clientHeight * 1.5);
    for (const source of this.#sources()) {
      const store = this.#store(source);
      store.wantOverview(source.trace, source.trace.tracks.filter(({ kind }) => kind !== "counter"));
      const tracks = near.flatMap((line) => (line.type === "track" && line.source === source ? [line.track] : []));
      store.want(this.#chunk(source), tracks);
    }
    this.element.dataset["waiting"] = String([...this.#stores.values()].some((store) => store.isWaiting));
  }

  #hitAt(x: number, y: number): Hit | null {
    return hitAt(x, y + this.#body.scrollTop, this.#layout, this.#state.view.value, this.#tracks.width, (line) => this.#pictures(line));
  }

  #pickAt(x: number, y: number): void {
    const hit = this.#hitAt(x, y);
    this.#body.focus({ preventScroll: true });
    if (hit?.type === "span") this.#pick(hit.line.source.trace.id, hit.span.span);
    else this.#state.selected.set(null);
  }

  #hover(x: number, y: number, event: PointerEvent): void {
    this.#pointerX = x;
    this.#hovered = this.#hitAt(x, y);
    if (this.#hovered === null) this.#tooltip.hide();
    else showHit(this.#hovered, this.#tooltip, event);
    this.#tracks.canvas.style.cursor = this.#hovered?.type === "span" ? "pointer" : "";
    this.#repaint.ask();
  }

  #leave(): void {
    this.#pointerX = null;
    this.#hovered = null;
    this.#tooltip.hide();
    this.#repaint.ask();
  }
}

// The flame graph: of a whole trace or the selected range, of all tracks or one, as flames,
// icicles, or a sandwich of the callers and callees of one name.

import { Repaint, Surface } from "../canvas";
import { PAINTS } from "../colour";
import { button, choice, element, replaceChildren } from "../dom";
import { amountText, countText, shareText } from "../format";
import type { FlameAnswer, FlameValue } from "../protocol";
import { overlapOf, type Range } from "../scale";
import { askFlame, isAborted, reasonText } from "../server";
import type { State } from "../state";
import { traceTitle, trackTitle, processTitle } from "../source";
import { Tooltip } from "../timeline/tooltip";
import { nameTable } from "./names";
import { FRAME_HEIGHT, foundShare, frameAt, framesOf, paintFlame, type FlamePicture } from "./paint";
import { sandwichOf, treeOf, type FlameTree } from "./tree";

type Shape = "icicle" | "flame" | "sandwich";

const VALUE_TITLES: readonly (readonly [FlameValue, string])[] = [
  ["wall", "wall time"],
  ["gpu", "GPU time"],
  ["count", "calls"],
  ["bytes", "bytes"],
];

export class FlamePanel {
  readonly element = element("section", { class: "panel flame", "aria-label": "Flame graph" });
  readonly #state: State;
  readonly #surface = new Surface(element("canvas", { role: "img", "aria-label": "Flame graph" }));
  readonly #scroll = element("div", { class: "flame-scroll" }, this.#surface.canvas);
  readonly #told = element("p", { class: "flame-told", role: "status" });
  readonly #table = element("div", { class: "flame-table" });
  readonly #tooltip = new Tooltip();
  readonly #repaint = new Repaint(() => this.#paint());
  readonly #controls = element("div", { class: "controls" });
  readonly #search = element("input", { type: "search", placeholder: "Find frames", "aria-label": "Find frames" });
  #value: FlameValue = "wall";
  #shape: Shape = "icicle";
  #track: number | null = null;
  #range: Range | null = null;
  #answer: FlameAnswer | null = null;
  #tree: FlameTree | null = null;
  #focus = 0;
  #sandwiched: number | null = null;
  #pictures: FlamePicture[] = [];
  #hovered: { picture: FlamePicture; node: number } | null = null;
  #stop = new AbortController();
  #asked = "";

  constructor(state: State) {
    this.#state = state;
    const body = element("div", { class: "flame-body" }, this.#scroll, this.#table);
    this.element.append(this.#controls, this.#told, body, this.#tooltip.element);
    this.#search.addEventListener("input", () => this.#repaint.ask());
    this.#attach();
  }

  /** Shows what the state says; `range` limits it to a part of the screen's time. */
  show(range: Range | null): void {
    this.#range = range;
    this.#fillControls();
    void this.#ask();
  }

  #attach(): void {
    const { canvas } = this.#surface;
    const at = (event: MouseEvent): { picture: FlamePicture; node: number } | null => {
      for (const picture of this.#pictures) {
        const frame = frameAt(picture, event.offsetX, event.offsetY);
        if (frame !== undefined) return { picture, node: frame.node };
      }
      return null;
    };
    canvas.addEventListener("click", (event) => {
      const hit = at(event);
      if (hit !== null) this.#clicked(hit.picture, hit.node, event.altKey);
    });
    canvas.addEventListener("mousemove", (event) => {
      this.#hovered = at(event);
      this.#tell(event);
      this.#repaint.ask();
    });
    canvas.addEventListener("mouseleave", () => {
      this.#hovered = null;
      this.#tooltip.hide();
      this.#repaint.ask();
    });
    this.#state.theme.watch(() => this.#repaint.ask());
    new ResizeObserver(() => this.#repaint.ask()).observe(this.#scroll);
  }

  #clicked({ tree }: FlamePicture, node: number, isAlternative: boolean): void {
    if (isAlternative || this.#shape === "sandwich") this.#sandwich(tree.name[node]!);
    else this.#focus = node;
    this.#repaint.ask();
  }

  #sandwich(name: number): void {
    this.#shape = "sandwich";
    this.#sandwiched = name;
    this.#fillControls();
    this.#repaint.ask();
  }

  #reset(): void {
    this.#focus = 0;
    this.#search.value = "";
    if (this.#shape === "sandwich") this.#shape = "icicle";
    this.#sandwiched = null;
    this.#fillControls();
    this.#repaint.ask();
  }

  #fillControls(): void {
    const { sources, trace, range } = this.#state;
    const source = this.#state.source(trace.value);
    const traces = choice(
      "Trace",
      sources.value.map(({ trace: it }) => [String(it.id), traceTitle(it)] as const),
      (id) => this.#change(() => {
        trace.set(Number(id));
        this.#track = null;
      }),
    );
    traces.value = String(trace.value);
    const values = choice("What to show", VALUE_TITLES, (value) => this.#change(() => (this.#value = value)));
    values.value = this.#value;
    const tracks = choice(
      "Track",
      [["", "all tracks"], ...(source?.trace.tracks ?? [])
        .filter(({ spans }) => spans > 0)
        .map((track) => [String(track.id), `${processTitle(track)} / ${trackTitle(track)}`] as const)],
      (id) => this.#change(() => (this.#track = id === "" ? null : Number(id))),
    );
    tracks.value = this.#track === null ? "" : String(this.#track);
    const scopes = choice("Part", [["whole", "whole trace"], ["range", "selected range"]], (scope) =>
      this.#change(() => (this.#range = scope === "range" ? range.value : null)));
    scopes.value = this.#range === null ? "whole" : "range";
    scopes.options[1]!.disabled = range.value === null && this.#range === null;
    const shapes = choice<Shape>("Shape", [["icicle", "icicle"], ["flame", "flame"], ["sandwich", "sandwich"]], (shape) => {
      this.#shape = shape;
      if (shape === "sandwich") this.#sandwiched ??= this.#tree?.name[this.#focus || 1] ?? null;
      this.#repaint.ask();
    });
    shapes.value = this.#shape;
    replaceChildren(
      this.#controls,
      sources.value.length > 1 ? traces : null,
      values, tracks, scopes, shapes, this.#search,
      button("Reset", () => this.#reset()),
    );
  }

  #change(what: () => void): void {
    what();
    this.#fillControls();
    void this.#ask();
  }

  async #ask(): Promise<void> {
    const source = this.#state.source(this.#state.trace.value);
    if (source === undefined) return;
    const inTrace = this.#range === null ? null : overlapOf(source.toTrace(this.#range), source.trace);
    const question = { trace: source.trace.id, value: this.#value, range: inTrace, track: this.#track };
    const key = JSON.stringify([question, source.trace.to]);
    if (key === this.#asked) return this.#repaint.ask();
    this.#asked = key;
    this.#stop.abort();
    this.#stop = new AbortController();
    this.#told.textContent = "Summing up …";
    try {
      this.#answer = await askFlame(question, this.#stop.signal);
      this.#tree = treeOf(this.#answer);
      this.#focus = 0;
      this.#sandwiched = null;
      if (this.#shape === "sandwich") this.#shape = "icicle";
      this.#fillControls();
      const unit = this.#answer.unit;
      replaceChildren(this.#table, nameTable(this.#tree, unit, (name) => this.#sandwich(name)));
      this.#repaint.ask();
    } catch (error) {
      if (isAborted(error)) return;
      this.#asked = "";
      this.#tree = null;
      this.#told.textContent = reasonText(error);
    }
  }

  #tell(event: MouseEvent): void {
    if (this.#hovered === null || this.#answer === null) return this.#tooltip.hide();
    const { picture, node } = this.#hovered;
    const { tree } = picture;
    const { unit } = this.#answer;
    const whole = this.#answer.total || 1;
    const line = (what: string, amount: number): string =>
      `${what} ${amountText(amount, unit)} (${shareText(amount / whole)})`;
    const lines = [line("total", tree.weight[node]!), line("self", tree.self[node]!)];
    this.#tooltip.show(tree.names[tree.name[node]!] ?? "", lines, event.clientX, event.clientY);
  }

  #foundNames(tree: FlameTree): Set<number> | null {
    const wanted = this.#search.value.trim().toLowerCase();
    if (wanted === "") return null;
    const matches = tree.names.flatMap((name, at) => (name.toLowerCase().includes(wanted) ? [at] : []));
    return new Set(matches);
  }

  #paint(): void {
    if (this.element.offsetParent === null || this.#tree === null) return;
    const width = this.#scroll.clientWidth;
    this.#pictures = this.#arranged(this.#tree, width);
    const rows = this.#pictures.reduce((sum, { tree }) => sum + tree.deepest + 1, 0);
    this.#surface.resize(width, Math.max(rows * FRAME_HEIGHT + 8, this.#scroll.clientHeight - 4));
    const { context, height } = this.#surface;
    const paints = PAINTS[this.#state.theme.value];
    context.fillStyle = paints.background;
    context.fillRect(0, 0, width, height);
    const found = this.#foundNames(this.#tree);
    for (const picture of this.#pictures) {
      const hovered = this.#hovered?.picture.tree === picture.tree ? this.#hovered.node : null;
      paintFlame(context, picture, paints, found, hovered);
    }
    this.#tellTotals(found);
    this.element.dataset["frames"] = String(this.#pictures.reduce((sum, it) => sum + it.frames.length, 0));
    this.element.dataset["shape"] = this.#shape;
  }

  #arranged(tree: FlameTree, width: number): FlamePicture[] {
    if (this.#shape === "sandwich" && this.#sandwiched !== null) {
      const { callers, callees } = sandwichOf(tree, this.#sandwiched);
      const top = callers.deepest * FRAME_HEIGHT;
      return [
        { tree: callees, frames: framesOf(callees, 0, width), top, isUp: false },
        { tree: callers, frames: framesOf(callers, 0, width), top, isUp: true },
      ];
    }
    const isUp = this.#shape === "flame";
    const tall = Math.max((tree.deepest + 1) * FRAME_HEIGHT + 8, this.#scroll.clientHeight - 4);
    const top = isUp ? tall - FRAME_HEIGHT : 0;
    return [{ tree, frames: framesOf(tree, this.#focus, width), top, isUp }];
  }

  #tellTotals(found: Set<number> | null): void {
    const answer = this.#answer;
    const tree = this.#tree;
    if (answer === null || tree === null) return;
    const parts = [amountText(answer.total, answer.unit)];
    if (answer.total === 0) parts.push("nothing to show: choose another value, track or part");
    if (this.#focus !== 0) parts.push(`zoomed to ${tree.names[tree.name[this.#focus]!]}`);
    if (this.#shape === "sandwich" && this.#sandwiched !== null) {
      parts.push(`callers above and callees below of ${tree.names[this.#sandwiched]}`);
    }
    if (found !== null) parts.push(`found: ${shareText(foundShare(tree, found))}`);
    if (answer.dropped > 0) parts.push(`${countText(answer.dropped)} frames too narrow to see`);
    this.#told.textContent = parts.join(" · ");
  }
}

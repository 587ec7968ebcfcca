// The flame graph: of a whole trace or the selected range, of all tracks or one, alone or since
// another trace, as flames, icicles, or a sandwich of the callers and callees of one name.

import { Repaint, Surface } from "../drawing/canvas";
import { PAINTS } from "../drawing/color";
import { button, element, replaceChildren } from "../drawing/dom";
import { amountText, countText, shareText } from "../drawing/format";
import type { FlameAnswer } from "../server/protocol";
import { overlapOf, type Range } from "../drawing/scale";
import { askFlame, isAborted, reasonText } from "../server/server";
import type { State } from "../state/state";
import { Tooltip } from "../timeline/pointing/tooltip";
import { changeLegend, controlsOf, type FlameChoice } from "./controls";
import { nameTable } from "./names";
import { FRAME_HEIGHT, foundShare, frameAt, framesOf, paintFlame, type FlamePicture } from "./paint";
import { paired } from "./pair";
import { columnsOf, sandwichOf, treeOf, type FlameTree } from "./tree";

/** What the mouse points at. */
interface Hit {
  picture: FlamePicture;
  node: number;
}

export class FlamePanel {
  readonly element = element("section", { class: "panel flame", "aria-label": "Flame graph" });
  readonly #state: State;
  readonly #surface = new Surface(element("canvas", { role: "img", "aria-label": "Flame graph" }));
  readonly #scroll = element("div", { class: "flame-scroll" }, this.#surface.canvas);
  readonly #status = element("p", { class: "flame-status", role: "status" });
  readonly #table = element("div", { class: "flame-table" });
  readonly #tooltip = new Tooltip();
  readonly #repaint = new Repaint(() => this.#paint());
  readonly #controls = element("div", { class: "controls" });
  readonly #search = element("input", { type: "search", placeholder: "Find frames", "aria-label": "Find frames" });
  #chosen: FlameChoice = {
    value: "wall", shape: "icicle", track: null, group: null, base: null, side: "trace", range: null,
  };
  #answer: FlameAnswer | null = null;
  #tree: FlameTree | null = null;
  #focus = 0;
  #sandwiched: number | null = null;
  #pictures: FlamePicture[] = [];
  #hovered: Hit | null = null;
  #stop = new AbortController();
  #asked = "";

  constructor(state: State) {
    this.#state = state;
    const body = element("div", { class: "flame-body" }, this.#scroll, this.#table);
    this.element.append(this.#controls, this.#status, body, this.#tooltip.element);
    this.#search.addEventListener("input", () => this.#repaint.ask());
    this.#attach();
  }

  /** Shows what the state says; `range` limits it to a part of the screen's time. */
  show(range: Range | null): void {
    this.#chosen.range = range;
    this.#fillControls();
    void this.#ask();
  }

  /** From now on shows what changed in a trace since another one. */
  compare(base: number, trace: number): void {
    this.#state.trace.set(trace);
    Object.assign(this.#chosen, { base, track: null, group: null });
  }

  #attach(): void {
    const { canvas } = this.#surface;
    const at = (event: MouseEvent): Hit | null => {
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
      this.#describe(event);
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
    if (isAlternative || this.#chosen.shape === "sandwich") this.#sandwich(tree.name[node]!);
    else this.#focus = node;
    this.#repaint.ask();
  }

  #sandwich(name: number): void {
    this.#chosen.shape = "sandwich";
    this.#sandwiched = name;
    this.#fillControls();
    this.#repaint.ask();
  }

  #reset(): void {
    this.#search.value = "";
    this.#unfocus();
    this.#fillControls();
    this.#repaint.ask();
  }

  /** Shows the whole again. */
  #unfocus(): void {
    this.#focus = 0;
    this.#sandwiched = null;
    if (this.#chosen.shape === "sandwich") this.#chosen.shape = "icicle";
  }

  #fillControls(): void {
    const { trace } = this.#state;
    // A trace is not set against itself.
    if (this.#chosen.base === trace.value) this.#chosen.base = null;
    replaceChildren(
      this.#controls,
      ...controlsOf(this.#state, this.#chosen, (chosen, ofTrace) => {
        if (ofTrace !== undefined) trace.set(ofTrace);
        Object.assign(this.#chosen, chosen);
        this.#changed(chosen);
      }),
      this.#search,
      button("Reset", () => this.#reset()),
      this.#chosen.base === null ? null : changeLegend(),
    );
  }

  #changed({ shape, side }: Partial<FlameChoice>): void {
    if (shape === "sandwich") this.#sandwiched ??= this.#tree?.name[this.#focus || 1] ?? null;
    if (side !== undefined) this.#take();
    this.#fillControls();
    void this.#ask();
  }

  async #ask(): Promise<void> {
    const source = this.#state.source(this.#state.trace.value);
    if (source === undefined) return;
    const { value, track, group, base, range } = this.#chosen;
    const inTrace = range === null ? null : overlapOf(source.toTrace(range), source.trace);
    const question = { trace: source.trace.id, value, range: inTrace, track, group, base };
    const key = JSON.stringify([question, source.trace.read]);
    if (key === this.#asked) return this.#repaint.ask();
    this.#asked = key;
    this.#stop.abort();
    this.#stop = new AbortController();
    this.#status.textContent = "Summing up …";
    try {
      this.#answer = paired(await askFlame(question, this.#stop.signal));
      this.#take();
      this.#fillControls();
      this.#repaint.ask();
    } catch (error) {
      if (isAborted(error)) return;
      this.#asked = "";
      this.#tree = null;
      this.#status.textContent = reasonText(error);
    }
  }

  /** Makes the tree of the answer. */
  #take(): void {
    if (this.#answer === null) return;
    this.#tree = treeOf(columnsOf(this.#answer, this.#chosen.side));
    this.#unfocus();
    const { unit } = this.#answer;
    replaceChildren(this.#table, nameTable(this.#tree, unit, (name) => this.#sandwich(name)));
  }

  #describe(event: MouseEvent): void {
    if (this.#hovered === null || this.#answer === null) return this.#tooltip.hide();
    const { picture, node } = this.#hovered;
    const { tree, side } = picture;
    const { unit } = this.#answer;
    const whole = this.#whole() || 1;
    const line = (what: string, amount: number): string =>
      `${what} ${amountText(amount, unit)} (${shareText(amount / whole)})`;
    const lines = [line("total", tree.weight[node]!), line("self", tree.self[node]!)];
    if (tree.other !== null) {
      const [own, other] = [tree.weight[node]!, tree.other[node]!];
      const [before, after] = side === "trace" ? [other, own] : [own, other];
      const share = before === 0 ? "new" : `${after >= before ? "+" : ""}${shareText(after / before - 1)}`;
      lines.push(`${amountText(before, unit)} → ${amountText(after, unit)} (${share})`);
    }
    this.#tooltip.show(tree.names[tree.name[node]!] ?? "", lines, event.clientX, event.clientY);
  }

  /** The sum of the side whose weights are the widths. */
  #whole(): number {
    const { base, total } = this.#answer!;
    return base !== undefined && this.#chosen.side === "base" ? base.total : total;
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
    this.#showTotals(found);
    const { dataset } = this.element;
    dataset["frames"] = String(this.#pictures.reduce((sum, it) => sum + it.frames.length, 0));
    dataset["shape"] = this.#chosen.shape;
    dataset["base"] = String(this.#answer?.base !== undefined);
  }

  #arranged(tree: FlameTree, width: number): FlamePicture[] {
    const { shape, side } = this.#chosen;
    if (shape === "sandwich" && this.#sandwiched !== null) {
      const { callers, callees } = sandwichOf(tree, this.#sandwiched);
      const top = callers.deepest * FRAME_HEIGHT;
      return [
        { tree: callees, frames: framesOf(callees, 0, width), top, isUp: false, side },
        { tree: callers, frames: framesOf(callers, 0, width), top, isUp: true, side },
      ];
    }
    const isUp = shape === "flame";
    const tall = Math.max((tree.deepest + 1) * FRAME_HEIGHT + 8, this.#scroll.clientHeight - 4);
    const top = isUp ? tall - FRAME_HEIGHT : 0;
    return [{ tree, frames: framesOf(tree, this.#focus, width), top, isUp, side }];
  }

  #showTotals(found: Set<number> | null): void {
    const answer = this.#answer;
    const tree = this.#tree;
    if (answer === null || tree === null) return;
    const amount = (value: number): string => amountText(value, answer.unit);
    const parts = [answer.base === undefined ? amount(answer.total) : changeText(answer, amount)];
    if (this.#whole() === 0) parts.push("nothing to show: choose another value, track or part");
    if (this.#focus !== 0) parts.push(`zoomed to ${tree.names[tree.name[this.#focus]!]}`);
    if (this.#chosen.shape === "sandwich" && this.#sandwiched !== null) {
      parts.push(`callers above and callees below of ${tree.names[this.#sandwiched]}`);
    }
    if (found !== null) parts.push(`found: ${shareText(foundShare(tree, found))}`);
    if (answer.dropped > 0) parts.push(`${countText(answer.dropped)} frames too narrow to see`);
    this.#status.textContent = parts.join(" · ");
  }
}

/** "1.2 ms → 1.5 ms a step". */
function changeText({ base, total }: FlameAnswer, amount: (value: number) => string): string {
  const isByStep = base!.steps[0] > 1 || base!.steps[1] > 1;
  return `${amount(base!.total)} → ${amount(total)}${isByStep ? " a step" : ""}`;
}

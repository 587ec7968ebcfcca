// The keys and gestures, in a dialog.

import { button, element } from "../drawing/dom";

const KEYS: readonly (readonly [keys: string, what: string])[] = [
  ["w  s", "zoom in, out at the pointer"],
  ["a  d  ←  →", "move in time"],
  ["↑  ↓", "scroll the tracks"],
  ["0", "show the whole trace"],
  ["f", "zoom to the selected span or range"],
  ["[  ]", "previous, next span of the same name"],
  ["/", "search; enter goes to the next"],
  ["n  N", "next, previous found span"],
  ["1 … 5", "panels"],
  ["Escape", "clear the selection, then the search"],
  ["?", "this help"],
];

const GESTURES: readonly (readonly [keys: string, what: string])[] = [
  ["drag", "move"],
  ["wheel", "scroll the tracks"],
  ["ctrl + wheel, pinch", "zoom at the pointer"],
  ["shift + wheel", "move in time"],
  ["click", "select a span"],
  ["drag on the ruler, shift + drag", "select a range"],
  ["click in a flame graph", "zoom there; with alt: its callers and callees"],
];

export class Help {
  readonly element = element("dialog", { class: "help", "aria-label": "Keys" });

  constructor() {
    const list = (rows: typeof KEYS): HTMLElement => element("dl", {}, ...rows.flatMap(([keys, what]) => [
      element("dt", {}, ...keys.split("  ").map((key) => element("kbd", { text: key }))),
      element("dd", { text: what }),
    ]));
    this.element.append(
      element("h2", { text: "Keys" }), list(KEYS),
      element("h2", { text: "Mouse" }), list(GESTURES),
      button("Close", () => this.element.close()));
  }

  toggle(): void {
    if (this.element.open) this.element.close();
    else this.element.showModal();
  }
}

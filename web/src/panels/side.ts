// The column at the right: the selected span, the selected range, the search's results,
// each under a tab of its own while there is something to show.

import { button, element, replaceChildren } from "../drawing/dom";

const SLOTS = [
  ["details", "Span"],
  ["range", "Range"],
  ["search", "Search"],
] as const;
export type Slot = (typeof SLOTS)[number][0];

export class Side {
  readonly element = element("aside", { class: "side", "aria-label": "Details", hidden: true });
  readonly #tabs = element("div", { class: "side-tabs", role: "tablist", "aria-label": "Details" });
  readonly #content = element("div", { class: "side-content", role: "tabpanel", tabindex: 0 });
  readonly #filled = new Map<Slot, HTMLElement>();
  readonly #close: (slot: Slot) => void;
  #shown: Slot = "details";
  #isWanted = true;

  /** `close` is called when the user closes what a slot shows. */
  constructor(close: (slot: Slot) => void) {
    this.#close = close;
    this.element.append(this.#tabs, this.#content);
  }

  show(slot: Slot, content: HTMLElement): void {
    const isSame = this.#shown === slot && this.#filled.has(slot);
    this.#filled.set(slot, content);
    this.#shown = slot;
    this.#render();
    if (!isSame) this.#content.scrollTop = 0;
  }

  clear(slot: Slot): void {
    if (!this.#filled.delete(slot)) return;
    const first = this.#filled.keys().next().value;
    if (this.#shown === slot && first !== undefined) this.#shown = first;
    this.#render();
  }

  /** Beside panels that it says nothing about it stays away. */
  want(isWanted: boolean): void {
    this.#isWanted = isWanted;
    this.#render();
  }

  #render(): void {
    this.element.hidden = this.#filled.size === 0 || !this.#isWanted;
    this.element.dataset["slot"] = this.element.hidden ? "" : this.#shown;
    const tabs = SLOTS.filter(([slot]) => this.#filled.has(slot)).map(([slot, title]) =>
      button(title, () => this.show(slot, this.#filled.get(slot)!), {
        role: "tab",
        "aria-selected": slot === this.#shown ? "true" : "false",
      }));
    const close = button("✕", () => this.#close(this.#shown), { class: "close", "aria-label": "Close" });
    replaceChildren(this.#tabs, ...tabs, close);
    replaceChildren(this.#content, this.#filled.get(this.#shown) ?? null);
  }
}

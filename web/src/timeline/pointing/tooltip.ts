// The words beside the pointer.

import { element, replaceChildren } from "../../drawing/dom";
import { amountText, countText, nanosText, shareText } from "../../drawing/format";
import { kindOf } from "../../drawing/kinds";
import type { Unit } from "../../server/protocol";
import type { SpanHit } from "./hit";

const AWAY = 14;

export class Tooltip {
  readonly element = element("div", { class: "tooltip", role: "presentation", hidden: true });

  hide(): void {
    this.element.hidden = true;
  }

  /** Shows a title with lines below it, near a place in the window. */
  show(title: string, lines: readonly string[], x: number, y: number): void {
    replaceChildren(
      this.element,
      element("strong", { text: title }),
      ...lines.map((text) => element("span", { text })),
    );
    this.element.hidden = false;
    const { offsetWidth, offsetHeight } = this.element;
    const left = x + AWAY + offsetWidth > window.innerWidth ? x - AWAY - offsetWidth : x + AWAY;
    const top = y + AWAY + offsetHeight > window.innerHeight ? y - AWAY - offsetHeight : y + AWAY;
    this.element.style.left = `${Math.max(left, 4)}px`;
    this.element.style.top = `${Math.max(top, 4)}px`;
  }
}

export function spanLines(hit: SpanHit, screenStart: number): string[] {
  const at = `at ${nanosText(Math.round(screenStart))}`;
  if (hit.merged <= 1) return [`${nanosText(hit.dur)}, ${at}`, kindOf(hit.kind).title];
  return [
    `${countText(hit.merged)} spans in ${nanosText(hit.dur)}, ${shareText(hit.busy)} busy, ${at}`,
    `the longest of them is named; zoom in to see all`,
  ];
}

export function counterLines(value: number, least: number, most: number, unit: Unit): string[] {
  const [now, low, high] = [value, least, most].map((it) => amountText(it, unit));
  return least === most ? [now!] : [now!, `${low} to ${high} in this pixel`];
}

// The names of a flame graph by their own weight, beside it.

import { button, element } from "../drawing/dom";
import { amountText } from "../drawing/format";
import type { Unit } from "../server/protocol";
import { namesByWeight, type FlameTree } from "./tree";

const ROWS_MAX = 100;

export function nameTable(
  tree: FlameTree,
  unit: Unit,
  choose: (name: number) => void,
): HTMLTableElement {
  const head = element("tr", {},
    element("th", { text: "Self", class: "number", scope: "col" }),
    element("th", { text: "Total", class: "number", scope: "col" }),
    element("th", { text: "Name", scope: "col" }));
  const rows = namesByWeight(tree).slice(0, ROWS_MAX).map(({ name, total, self }) => {
    const text = tree.names[name] ?? "";
    const link = button(text, () => choose(name), { class: "link clamped", title: `Callers and callees of ${text}` });
    return element("tr", {},
      element("td", { class: "number", text: amountText(self, unit) }),
      element("td", { class: "number", text: amountText(total, unit) }),
      element("td", { class: "wide" }, link));
  });
  return element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows));
}

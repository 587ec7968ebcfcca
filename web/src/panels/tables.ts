// Sections of an answer as headings, paragraphs and tables. A row or a paragraph that has a
// place in the timeline becomes a link to it.

import { printable } from "../drawing/printable";
import { button, element } from "../drawing/dom";
import { countText } from "../drawing/format";
import type { Cell, Column, Place, QueryValue, Section } from "../server/protocol";

export type Go = (place: Place) => void;

export function sectionElement(section: Section, go: Go): HTMLElement {
  const made = element("section", { class: "section", "data-key": section.key },
    element("h2", { text: section.title }));
  const prose = section.prose ?? [];
  if (prose.length > 0) made.append(...prose.map((_, at) => paragraph(section, at, go)));
  else if (section.rows.length === 0) {
    made.append(element("p", { class: "quiet", text: section.when_empty ?? "Nothing." }));
  } else if (section.is_record) made.append(record(section));
  else made.append(element("div", { class: "table-wrap" }, table(section, go)));
  if (section.left_out > 0) {
    made.append(element("p", { class: "quiet", text: `and ${countText(section.left_out)} more` }));
  }
  return made;
}

function paragraph(section: Section, at: number, go: Go): HTMLElement {
  const { title, evidence, advice } = section.prose![at]!;
  const place = section.places?.[at] ?? null;
  return element("article", { class: "finding" },
    element("h3", { text: title }),
    evidence === "" ? null : element("p", { text: evidence }),
    advice === "" ? null : element("p", { class: "advice", text: advice }),
    place === null ? null : button("Show in the timeline", () => go(place), { class: "link" }));
}

/** One row, its values below each other. */
function record(section: Section): HTMLElement {
  const row = section.rows[0] ?? [];
  const lines = section.columns.flatMap((column, at) => {
    const text = cellText(row[at] ?? null);
    return column.shown && text !== NOTHING
      ? [element("dt", { text: column.title }), element("dd", { text })]
      : [];
  });
  return element("dl", { class: "record" }, ...lines);
}

const NOTHING = "–";

function cellText(cell: Cell): string {
  if (cell === null) return NOTHING;
  return typeof cell === "string" ? cell : cell.text;
}

/** What hovering shows: the whole name. */
function wholeText(cell: Cell): string {
  return cell !== null && typeof cell === "object" && cell.whole !== undefined ? cell.whole : cellText(cell);
}

function table(section: Section, go: Go): HTMLTableElement {
  const columns = section.columns
    .map((column, at) => ({ column, at }))
    .filter(({ column }) => column.shown);
  const head = element("tr", {}, ...columns.map(({ column }) =>
    element("th", { text: column.title, scope: "col", class: alignment(column) })));
  const hasNotes = section.notes?.length === section.rows.length;
  const rows = section.rows.map((row, index) => {
    const place = section.places?.[index] ?? null;
    const note = hasNotes ? section.notes?.[index] : undefined;
    const cells = columns.map(({ column, at }, nth) => {
      const text = cellText(row[at] ?? null);
      const whole = wholeText(row[at] ?? null);
      const cell = element("td", { class: alignment(column) });
      const isLink = place !== null && nth === linkColumn(columns.map((it) => it.column));
      if (isLink) cell.append(button(text, () => go(place), { class: "link clamped", title: `${whole}: show in the timeline` }));
      else if (column.unit === "text") cell.append(element("span", { class: "clamped", text, title: whole }));
      else cell.textContent = printable(text);
      return cell;
    });
    return element("tr", { title: note || undefined }, ...cells);
  });
  return element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows));
}

/** The name of a row is the link: what is compared, or else its first text, or its first column. */
function linkColumn(columns: readonly Column[]): number {
  const key = columns.findIndex(({ key }) => key === "key");
  return key >= 0 ? key : Math.max(columns.findIndex(({ unit }) => unit === "text"), 0);
}

function alignment({ unit }: Column): string {
  return unit === "text" ? "wide" : unit === "status" ? `status` : "number";
}

/** A plain table of values, such as a query's. */
export function valueTable(
  columns: readonly string[],
  rows: readonly (readonly QueryValue[])[],
  link: (row: readonly QueryValue[], column: number) => (() => void) | null,
): HTMLTableElement {
  const head = element("tr", {}, ...columns.map((text) => element("th", { text, scope: "col" })));
  const body = rows.map((row) => element("tr", {}, ...row.map((value, at) => {
    const text = value === null ? NOTHING : String(value);
    const action = link(row, at);
    const cell = element("td", { class: typeof value === "number" ? "number" : "wide" });
    if (action === null) cell.textContent = printable(text);
    else cell.append(button(text, action, { class: "link", title: "Show in the timeline" }));
    return cell;
  })));
  return element("table", {}, element("thead", {}, head), element("tbody", {}, ...body));
}

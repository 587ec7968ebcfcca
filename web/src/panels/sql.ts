// A console for questions in SQL. Columns called span, or start with dur, lead back to the
// timeline.

import { button, element, replaceChildren } from "../dom";
import { countText } from "../format";
import type { Place, QueryAnswer, QueryValue } from "../protocol";
import { Refused, askQuery, reasonText } from "../server";
import { valueTable } from "./tables";

const EXAMPLES: readonly (readonly [title: string, query: string])[] = [
  ["Tables and columns", "select name, sql from sqlite_schema order by name"],
  ["Costliest names", "select name, count(*) as calls, sum(dur) as total_ns\nfrom spans group by name order by total_ns desc limit 20"],
  ["Longest spans", "select id as span, name, start, dur from spans order by dur desc limit 20"],
];

export interface SqlActions {
  span(trace: number, span: number): void;
  place(trace: number, place: Place): void;
}

export class SqlPanel {
  readonly element = element("section", { class: "panel sql", "aria-label": "SQL" });
  readonly #text = element("textarea", { rows: 6, spellcheck: "false", "aria-label": "Query" });
  readonly #result = element("div", { class: "sql-result", role: "status" });
  readonly #actions: SqlActions;

  constructor(actions: SqlActions) {
    this.#actions = actions;
    this.#text.value = EXAMPLES[1]![1];
    this.#text.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) void this.#run();
    });
    const examples = EXAMPLES.map(([title, query]) => button(title, () => {
      this.#text.value = query;
      void this.#run();
    }));
    this.element.append(
      element("div", { class: "controls" }, element("span", { class: "quiet", text: "Examples:" }), ...examples),
      this.#text,
      element("div", { class: "controls" },
        button("Run", () => void this.#run(), { class: "primary" }),
        element("span", { class: "quiet", text: "ctrl + enter" })),
      this.#result,
    );
  }

  focus(): void {
    this.#text.focus();
  }

  async #run(): Promise<void> {
    replaceChildren(this.#result, element("p", { class: "quiet", text: "Running …" }));
    try {
      this.#show(await askQuery(this.#text.value));
    } catch (error) {
      const isMissing = error instanceof Refused && [404, 405].includes(error.status);
      const text = isMissing ? "This build of spanwise answers no SQL." : reasonText(error);
      replaceChildren(this.#result, element("p", { class: "error", text }));
    }
  }

  #show(answer: QueryAnswer): void {
    const { columns, rows, more, took_ms: took } = answer;
    const told = `${countText(rows.length)} rows${more ? ", and more that are not shown" : ""}, ${countText(took)} ms`;
    const table = valueTable(columns, rows, (row, at) => this.#link(columns, row, at));
    replaceChildren(this.#result,
      element("p", { class: "quiet", text: told }),
      element("div", { class: "table-wrap" }, table));
  }

  #link(columns: readonly string[], row: readonly QueryValue[], at: number): (() => void) | null {
    const numberOf = (name: string): number | null => {
      const value = row[columns.indexOf(name)];
      return typeof value === "number" ? value : null;
    };
    const trace = numberOf("trace") ?? 0;
    if (columns[at] === "span") {
      const span = numberOf("span");
      return span === null ? null : () => this.#actions.span(trace, span);
    }
    const [start, dur] = [numberOf("start"), numberOf("dur")];
    if ((columns[at] !== "start" && columns[at] !== "dur") || start === null || dur === null) return null;
    const place = { from: start, to: start + dur, track: numberOf("track") };
    return () => this.#actions.place(trace, place);
  }
}

// A console for questions in SQL. What is a span in the answer, or a start with a length,
// leads back to the timeline.

import { button, element, replaceChildren } from "../drawing/dom";
import { countText, nanosText } from "../drawing/format";
import type { Place, QueryAnswer, QueryValue } from "../server/protocol";
import { RefusalError, askQuery, isAborted, reasonText } from "../server/server";
import type { SpanReference, State } from "../state/state";
import { valueTable } from "./tables";

const EXAMPLES: readonly (readonly [title: string, query: string])[] = [
  ["Tables", "select type, name from sqlite_schema order by type, name"],
  ["Longest spans", "select id, name, start, dur, trace from spans order by dur desc limit 20"],
  ["Self time by name", "select * from self_by_name order by self_ns desc limit 20"],
  ["GPU time by kernel", "select * from gpu_by_kernel order by gpu_ns desc limit 20"],
  ["GPU time by Python line", "select * from gpu_by_line order by gpu_ns desc limit 20"],
  ["Gaps on the GPU", "select start, dur, next, next_name from gpu_gaps order by dur desc limit 20"],
];

/** Columns that hold a span's number in the tables that come with spanwise. */
const SPAN_COLUMNS = ["span", "call", "work", "next", "parent", "launch"];

/** Rows number the spans of all traces one after the other; the page does so by trace. */
export function spanOfRow(
  row: number,
  traces: readonly { id: number; spans: number }[],
): SpanReference | null {
  let first = 0;
  for (const { id, spans } of traces) {
    if (row >= first && row < first + spans) return { trace: id, span: row - first };
    first += spans;
  }
  return null;
}

export interface SqlActions {
  span(place: SpanReference): void;
  place(trace: number, place: Place): void;
}

export class SqlPanel {
  readonly element = element("section", { class: "panel sql", "aria-label": "SQL" });
  readonly #text = element("textarea", { rows: 6, spellcheck: "false", "aria-label": "Query" });
  readonly #result = element("div", { class: "sql-result", role: "status" });
  readonly #cancel = button("Cancel", () => this.#running?.abort(), { disabled: true });
  /** Ends the query that runs: the server stops when nobody waits for it. */
  #running: AbortController | null = null;
  readonly #state: State;
  readonly #actions: SqlActions;

  constructor(state: State, actions: SqlActions) {
    this.#state = state;
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
        this.#cancel,
        element("span", { class: "quiet", text: "ctrl + enter" })),
      this.#result,
    );
  }

  focus(): void {
    this.#text.focus();
  }

  async #run(): Promise<void> {
    // One query at a time: the one before is no longer wanted.
    this.#running?.abort();
    const running = new AbortController();
    this.#running = running;
    this.#cancel.disabled = false;
    replaceChildren(this.#result, element("p", { class: "quiet", text: "Running …" }));
    try {
      const answer = await askQuery(this.#text.value, running.signal);
      if (this.#running === running) this.#show(answer);
    } catch (error) {
      if (this.#running === running) this.#showFailure(error);
    } finally {
      if (this.#running === running) {
        this.#running = null;
        this.#cancel.disabled = true;
      }
    }
  }

  #showFailure(error: unknown): void {
    if (isAborted(error)) {
      replaceChildren(this.#result, element("p", { class: "quiet", text: "Canceled." }));
      return;
    }
    const isMissing = error instanceof RefusalError && [404, 405].includes(error.status);
    const text = isMissing ? "This build of spanwise answers no SQL." : reasonText(error);
    replaceChildren(this.#result, element("p", { class: "error", text }));
  }

  #show(answer: QueryAnswer): void {
    const { columns, rows, cut, took_ns: took } = answer;
    const unshown = cut === null ? "" : `; ${cut}`;
    const summary = `${countText(rows.length)} rows in ${nanosText(took)}${unshown}`;
    const table = valueTable(columns, rows, (row, at) => this.#link(columns, row, at));
    replaceChildren(this.#result,
      element("p", { class: "quiet", text: summary }),
      element("div", { class: "table-wrap" }, table));
  }

  #link(columns: readonly string[], row: readonly QueryValue[], at: number): (() => void) | null {
    const numberOf = (name: string): number | null => {
      const value = row[columns.indexOf(name)];
      return typeof value === "number" ? value : null;
    };
    const [start, dur] = [numberOf("start"), numberOf("dur")];
    const hasPlace = start !== null && dur !== null;
    const name = columns[at] ?? "";
    if (SPAN_COLUMNS.includes(name) || (name === "id" && hasPlace)) {
      const row = numberOf(name);
      const span = row === null ? null : spanOfRow(row, this.#state.sources.value.map(({ trace }) => trace));
      return span === null ? null : () => this.#actions.span(span);
    }
    if (!hasPlace || (name !== "start" && name !== "dur")) return null;
    return () => this.#actions.place(numberOf("trace") ?? 0, { from: start, to: start + dur, track: null });
  }
}

// The page's address follows what is shown, and what is shown follows the address when the
// user changes it or comes with a link.

import { bookmarkOf, hashOf, type Bookmark } from "./hash";
import { insideOf } from "../drawing/scale";
import type { SpanReference, State } from "./state";

const REST_MS = 250;

export function followAddress(state: State, select: (span: SpanReference) => void): void {
  const restore = (): void => restoreFrom(bookmarkOf(location.hash), state, select);
  restore();
  let timer = 0;
  const soon = (): void => {
    window.clearTimeout(timer);
    timer = window.setTimeout(() => writeAddress(state), REST_MS);
  };
  state.view.watch(soon);
  state.panel.watch(soon);
  state.selected.watch(soon);
  state.range.watch(soon);
  state.search.watch(soon);
  state.trace.watch(soon);
  window.addEventListener("hashchange", restore);
}

export async function copyLink(state: State): Promise<void> {
  writeAddress(state);
  try {
    await navigator.clipboard.writeText(location.href);
    state.announced.set("Link copied");
  } catch {
    state.announced.set("The browser does not allow copying; take the address from its bar");
  }
}

function writeAddress(state: State): void {
  const { panel, trace, view, range, search } = state;
  const chosen = state.selected.value;
  const hash = hashOf({
    panel: panel.value,
    trace: trace.value,
    view: view.value,
    selected: chosen === null ? null : { trace: chosen.trace, span: chosen.answer.span },
    range: range.value,
    search: search.value,
  });
  history.replaceState(null, "", hash);
}

function restoreFrom(
  bookmark: Bookmark,
  state: State,
  select: (span: SpanReference) => void,
): void {
  if (state.source(bookmark.trace) !== undefined) state.trace.set(bookmark.trace);
  if (bookmark.view !== null) state.view.set(insideOf(bookmark.view, state.bounds));
  state.range.set(bookmark.range);
  state.search.set(bookmark.search);
  const hasTwo = state.sources.value.length > 1;
  state.panel.set(bookmark.panel === "compare" && !hasTwo ? "timeline" : bookmark.panel);
  if (bookmark.selected !== null) select(bookmark.selected);
}

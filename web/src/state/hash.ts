// What the page shows, as the part of the address after "#": a link to it, and a bookmark.

import { PANELS, type Panel, type SpanReference } from "./state";
import type { Range } from "../drawing/scale";

export interface Bookmark {
  panel: Panel;
  trace: number;
  view: Range | null;
  selected: SpanReference | null;
  range: Range | null;
  search: string;
}

/** "#panel=flame&view=10..20&span=0.17"; what is as usual is left out. */
export function hashOf(bookmark: Bookmark): string {
  const { panel, trace, view, selected, range, search } = bookmark;
  const parts: string[] = [];
  if (panel !== "timeline") parts.push(`panel=${panel}`);
  if (trace !== 0) parts.push(`trace=${trace}`);
  if (view !== null) parts.push(`view=${rangeText(view)}`);
  if (selected !== null) parts.push(`span=${selected.trace}.${selected.span}`);
  if (range !== null) parts.push(`range=${rangeText(range)}`);
  if (search !== "") parts.push(`search=${encodeURIComponent(search)}`);
  return `#${parts.join("&")}`;
}

/** What cannot be understood is as usual: an address may come from anywhere. */
export function bookmarkOf(hash: string): Bookmark {
  const parts = new URLSearchParams(hash.replace(/^#/, ""));
  const panel = PANELS.find((it) => it === parts.get("panel")) ?? "timeline";
  const trace = Number(/^\d+$/.exec(parts.get("trace") ?? "")?.[0] ?? 0);
  const span = /^(\d+)\.(\d+)$/.exec(parts.get("span") ?? "");
  return {
    panel,
    trace,
    view: rangeOf(parts.get("view")),
    selected: span === null ? null : { trace: Number(span[1]), span: Number(span[2]) },
    range: rangeOf(parts.get("range")),
    search: parts.get("search") ?? "",
  };
}

/** Times may be below zero: "-5..20". */
function rangeText({ from, to }: Range): string {
  return `${Math.round(from)}..${Math.round(to)}`;
}

function rangeOf(text: string | null): Range | null {
  const found = /^(-?\d+)\.\.(-?\d+)$/.exec(text ?? "");
  if (found === null) return null;
  const range = { from: Number(found[1]), to: Number(found[2]) };
  return range.from < range.to ? range : null;
}

// Where each track stands: groups (a process or GPU of a trace) with their tracks below
// each other, in the order of the server. Heights are CSS pixels.

import { processTitle, shortTitle, type Source } from "../state/source";
import type { TrackInfo } from "../server/protocol";

export const ROW_HEIGHT = 18;
export const TRACK_PADDING = 4;
export const MARK_HEIGHT = 12;
const GROUP_HEIGHT = 26;
const COUNTER_HEIGHT = 44;
const TRACK_HEIGHT_MIN = 26;

interface LineBase {
  /** Stable: what is collapsed is remembered by it. */
  key: string;
  top: number;
  height: number;
  isCollapsed: boolean;
}

export interface GroupLine extends LineBase {
  type: "group";
  title: string;
  source: Source;
  tracks: number;
}

export interface TrackLine extends LineBase {
  type: "track";
  source: Source;
  track: TrackInfo;
  /** Rows that are shown. */
  rows: number;
}

export type Line = GroupLine | TrackLine;

export interface Layout {
  lines: Line[];
  height: number;
}

/** Tracks with nothing in them are left out. */
export function layoutOf(sources: readonly Source[], collapsed: ReadonlySet<string>): Layout {
  const lines: Line[] = [];
  let top = 0;
  const place = (line: Line): void => {
    lines.push(line);
    top += line.height;
  };
  for (const source of sources) {
    for (const [title, tracks] of groupsOf(source, sources)) {
      const key = `${source.trace.id}/${title}`;
      const isCollapsed = collapsed.has(key);
      const count = tracks.length;
      place({ type: "group", key, title, source, tracks: count, top, height: GROUP_HEIGHT, isCollapsed });
      if (isCollapsed) continue;
      for (const track of tracks) place(trackLine(source, track, top, collapsed));
    }
  }
  return { lines, height: top };
}

function groupsOf(source: Source, all: readonly Source[]): Map<string, TrackInfo[]> {
  const groups = new Map<string, TrackInfo[]>();
  for (const track of source.trace.tracks) {
    if (isEmpty(track)) continue;
    const process = processTitle(track);
    const title = all.length > 1 ? groupTitle(process, shortTitle(source.trace, all)) : process;
    const tracks = groups.get(title);
    if (tracks === undefined) groups.set(title, [track]);
    else tracks.push(track);
  }
  // What the profiler keeps for itself, or has only marks, is seldom of interest.
  const isNoise = ({ kind, spans }: TrackInfo): boolean =>
    kind === "profiler" || (kind !== "counter" && spans === 0);
  const isMinor = (tracks: TrackInfo[]): boolean => tracks.every(isNoise);
  const minorLast = [...groups].sort(([, a], [, b]) => Number(isMinor(a)) - Number(isMinor(b)));
  return new Map(minorLast);
}

/** Ranks are short and come first; names of files are long, and alike at their begin. */
function groupTitle(process: string, trace: string): string {
  return /^rank \d+$/.test(trace) ? `${trace} · ${process}` : `${process} · ${trace}`;
}

function isEmpty(track: TrackInfo): boolean {
  return track.spans === 0 && track.marks === 0 && track.kind !== "counter";
}

function trackLine(
  source: Source,
  track: TrackInfo,
  top: number,
  collapsed: ReadonlySet<string>,
): TrackLine {
  const key = `${source.trace.id}/${track.id}`;
  const isCollapsed = collapsed.has(key);
  const rows = isCollapsed ? Math.min(track.rows, 1) : track.rows;
  return { type: "track", key, top, height: heightOf(track, rows), isCollapsed, source, track, rows };
}

function heightOf(track: TrackInfo, rows: number): number {
  if (track.kind === "counter") return COUNTER_HEIGHT;
  const height = marksHeight(track) + rows * ROW_HEIGHT + 2 * TRACK_PADDING;
  return Math.max(height, TRACK_HEIGHT_MIN);
}

/** Marks stand above the spans. */
export function marksHeight(track: TrackInfo): number {
  return track.marks > 0 && track.kind !== "counter" ? MARK_HEIGHT : 0;
}

/** Where the outermost row of a track begins. */
export function rowsTop(line: TrackLine): number {
  return line.top + TRACK_PADDING + marksHeight(line.track);
}

/** The line at a height, or undefined below the last. */
export function lineAt(lines: readonly Line[], y: number): Line | undefined {
  let [low, high] = [0, lines.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    const line = lines[middle]!;
    if (line.top + line.height <= y) low = middle + 1;
    else high = middle;
  }
  const line = lines[low];
  return line !== undefined && line.top <= y ? line : undefined;
}

/** The lines that are at least partly between two heights. */
export function linesBetween(lines: readonly Line[], top: number, bottom: number): Line[] {
  return lines.filter((line) => line.top < bottom && line.top + line.height > top);
}

export function trackLineOf(layout: Layout, trace: number, track: number): TrackLine | undefined {
  const isIt = (line: Line): line is TrackLine =>
    line.type === "track" && line.source.trace.id === trace && line.track.id === track;
  return layout.lines.find(isIt);
}

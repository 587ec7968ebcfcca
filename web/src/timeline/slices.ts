// Paints the spans of one track: what runs 60 times a second. Rectangles come row by row, in order
// of time and without overlap, so what is on the screen is found by halving; neighbours that would
// look the same are painted as one.

import { spanColour, type Paints, type Theme } from "../colour";
import type { SliceTable } from "../decode";
import { Letters } from "../label";
import { ROW_HEIGHT } from "./layout";
import type { Projection } from "./paint";

const LABEL_WIDTH_MIN = 28;
const LABEL_PADDING = 4;
export const LABEL_FONT = "11px system-ui, sans-serif";
const DIMMED = 0.3;
/** Wider ones have a gap behind them, and maybe a name. */
const NARROW_MAX = 3;
/** So many shades tell how busy a pixel is. */
const SHADES = 12;

const letters = new Letters(LABEL_FONT);

/** Rectangles of a track, and where its rows are. */
export interface RowsPainted {
  slices: SliceTable;
  first: number;
  len: number;
  /** Height of the outermost row's top; rows outside of the two limits are not painted. */
  top: number;
  rows: number;
  limits: { top: number; bottom: number };
  /** Pixels that narrow rectangles are painted apart by: more than one while there is no time. */
  grain: number;
}

/** Gives how many rectangles it painted. */
export function paintRows(
  context: CanvasRenderingContext2D,
  { slices, first, len, top, rows, limits, grain }: RowsPainted,
  projection: Projection,
  paints: Paints,
  search: string,
): number {
  const colours = coloursOf(slices, paints.theme);
  const found = search === "" ? null : namesWith(slices, search);
  const brush = new Brush(context, paints, Math.max(NARROW_MAX, grain));
  const firstRow = Math.max(0, Math.floor((limits.top - top) / ROW_HEIGHT));
  const lastRow = Math.min(rows, Math.ceil((limits.bottom - top) / ROW_HEIGHT));
  let at = firstOfRow(slices, first, first + len, firstRow);
  for (let row = firstRow; row < lastRow; row++) {
    const end = firstOfRow(slices, at, first + len, row + 1);
    paintRow(brush, slices, at, end, top + row * ROW_HEIGHT, projection, colours, found, grain);
    at = end;
  }
  context.globalAlpha = 1;
  return brush.painted;
}

function paintRow(
  brush: Brush,
  slices: SliceTable,
  first: number,
  end: number,
  y: number,
  { from, pixelsPerNano, width }: Projection,
  colours: Colours,
  found: ReadonlySet<number> | null,
  grain: number,
): void {
  const { start, dur, busy, merged, name } = slices;
  let reached = -Infinity;
  for (let at = firstVisible(slices, first, end, from); at < end; at++) {
    const left = (start[at]! - from) * pixelsPerNano;
    if (left > width) break;
    const wide = dur[at]! * pixelsPerNano;
    const x = left < -1 ? -1 : left;
    const right = Math.min(left + wide, width + 1);
    let w = right - x > 1 ? right - x : 1;
    // Of those narrower than a pixel, one a pixel will do.
    if (wide < grain && found === null) {
      if (x < reached && x >= reached - grain) continue;
      reached = x + grain;
      if (w < grain) w = grain;
    }
    const share = merged[at]! > 1 ? 0.35 + 0.65 * Math.min(busy[at]!, 1) : 1;
    const isFound = found === null || found.has(name[at]!);
    const shade = Math.ceil((isFound ? share : share * DIMMED) * SHADES) / SHADES;
    brush.fill(x, y, w, colours[at] ?? colourAt(slices, at, colours), shade);
    if (found !== null && isFound) brush.underline(x, y, w);
    if (w >= LABEL_WIDTH_MIN) brush.label(slices.names.get(name[at]!) ?? "", x, y, w);
  }
  brush.flush();
}

/** Paints rectangles, and waits with narrow ones for neighbours that look the same. */
class Brush {
  /** Each by itself, also where several were painted as one. */
  painted = 0;
  readonly #context: CanvasRenderingContext2D;
  readonly #paints: Paints;
  readonly #narrowMax: number;
  #colour = "";
  #shade = 0;
  #x = 0;
  #y = 0;
  #right = -1;
  #waitingColour: string | null = null;
  #waitingShade = 0;

  constructor(context: CanvasRenderingContext2D, paints: Paints, narrowMax: number) {
    this.#context = context;
    this.#paints = paints;
    this.#narrowMax = narrowMax;
  }

  fill(x: number, y: number, w: number, colour: string, shade: number): void {
    this.painted++;
    if (w > this.#narrowMax) {
      this.flush();
      this.#use(colour, shade);
      // A gap of half a pixel keeps neighbours apart where there is room for it.
      this.#context.fillRect(x, y, w - 0.5, ROW_HEIGHT - 1);
      return;
    }
    const isSame = this.#waitingColour === colour && this.#waitingShade === shade;
    if (!isSame || x > this.#right + 0.5) {
      this.flush();
      [this.#waitingColour, this.#waitingShade, this.#x, this.#y] = [colour, shade, x, y];
    }
    this.#right = x + w;
  }

  /** Paints what waits. */
  flush(): void {
    if (this.#waitingColour === null) return;
    this.#use(this.#waitingColour, this.#waitingShade);
    this.#context.fillRect(this.#x, this.#y, this.#right - this.#x, ROW_HEIGHT - 1);
    this.#waitingColour = null;
  }

  underline(x: number, y: number, w: number): void {
    this.flush();
    this.#use(this.#paints.hit, 1);
    this.#context.fillRect(x, y + ROW_HEIGHT - 4, w, 3);
  }

  label(text: string, x: number, y: number, w: number): void {
    const left = Math.max(x, 0) + LABEL_PADDING;
    const label = letters.fitted(this.#context, text, x + w - left - LABEL_PADDING);
    if (label === "") return;
    this.#use(this.#paints.onSpan, this.#shade);
    this.#context.fillText(label, left, y + ROW_HEIGHT / 2);
  }

  /** Telling the canvas a colour costs more than painting with it. */
  #use(colour: string, shade: number): void {
    if (colour !== this.#colour) this.#context.fillStyle = colour;
    if (shade !== this.#shade) this.#context.globalAlpha = shade;
    this.#colour = colour;
    this.#shade = shade;
  }
}

/** The colour of each rectangle, once it was painted. */
type Colours = (string | undefined)[] & { theme?: Theme };

const colours = new WeakMap<SliceTable, Colours>();

function coloursOf(slices: SliceTable, theme: Theme): Colours {
  let known = colours.get(slices);
  if (known === undefined || known.theme !== theme) {
    known = new Array<string | undefined>(slices.count);
    known.theme = theme;
    colours.set(slices, known);
  }
  return known;
}

function colourAt(slices: SliceTable, at: number, known: Colours): string {
  const text = slices.names.get(slices.name[at]!) ?? "";
  const colour = spanColour(slices.kind[at]!, text, known.theme ?? "light");
  known[at] = colour;
  return colour;
}

/** The first rectangle of a row or a later one. */
export function firstOfRow(slices: SliceTable, first: number, end: number, row: number): number {
  let [low, high] = [first, end];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (slices.row[middle]! < row) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The first rectangle of those of one row that does not end before the time. */
export function firstVisible(slices: SliceTable, first: number, end: number, time: number): number {
  let [low, high] = [first, end];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (slices.start[middle]! + slices.dur[middle]! < time) low = middle + 1;
    else high = middle;
  }
  return low;
}

const foundNames = new WeakMap<SliceTable, { search: string; names: Set<number> }>();

/** The names of a table that contain the text; letter case is ignored. */
function namesWith(slices: SliceTable, search: string): Set<number> {
  const known = foundNames.get(slices);
  if (known !== undefined && known.search === search) return known.names;
  const wanted = search.toLowerCase();
  const names = new Set<number>();
  for (const [key, name] of slices.names) if (name.toLowerCase().includes(wanted)) names.add(key);
  foundNames.set(slices, { search, names });
  return names;
}

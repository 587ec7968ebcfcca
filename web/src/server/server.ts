// Questions to the server. Each kind of question has one function here; whether the server
// can be reached is a signal of its own, which the banner shows.

import { decodeSlices, type SliceTable } from "./decode";
import type {
  CountersAnswer,
  FlameAnswer,
  FlameGroup,
  FlameValue,
  MarksAnswer,
  QueryAnswer,
  SearchAnswer,
  SectionsAnswer,
  SpanAnswer,
  SpanPlace,
  TraceInfo,
  TracesAnswer,
} from "./protocol";
import type { Range } from "../drawing/scale";
import { Signal } from "../state/signal";

/** The server answered, and said no. */
export class RefusalError extends Error {
  readonly status: number;

  constructor(status: number, reason: string) {
    super(reason);
    this.status = status;
  }
}

/** What to paint: a range of a trace's own time, `pixels` pixels wide, for some tracks. */
export interface PaintQuestion {
  trace: number;
  range: Range;
  pixels: number;
  tracks: number[];
}

type Parameters = Record<string, string | number | undefined>;

/** Which read of each trace that grows the page has seen. */
const reads = new Map<number, number>();

/** From now on questions are about this read of the trace. */
export function useRead({ id, read }: TraceInfo): void {
  reads.set(id, read);
}

/** False after a question that got no answer at all. */
export const isReachable = new Signal(true);

export function askTraces(): Promise<TracesAnswer> {
  return askJson("api/traces", {});
}

export async function askSlices(what: PaintQuestion, signal: AbortSignal): Promise<SliceTable> {
  const response = await ask("api/slices", paintParameters(what), { signal });
  return decodeSlices(await response.arrayBuffer());
}

export function askCounters(what: PaintQuestion, signal: AbortSignal): Promise<CountersAnswer> {
  return askJson("api/counters", paintParameters(what), { signal });
}

export function askMarks(what: PaintQuestion, signal: AbortSignal): Promise<MarksAnswer> {
  return askJson("api/marks", paintParameters(what), { signal });
}

export function askSpan(trace: number, span: number): Promise<SpanAnswer> {
  return askJson("api/span", { trace, span });
}

/** The same span after its trace has grown, which may have given it another number. */
export function askSpanAt(trace: number, { track, row, start }: SpanPlace): Promise<SpanAnswer> {
  return askJson("api/span", { trace, track, row, start });
}

export function askSearch(
  trace: number,
  text: string,
  range: Range,
  signal: AbortSignal,
): Promise<SearchAnswer> {
  return askJson("api/search", { trace, text, ...wholeNanos(range) }, { signal });
}

export function askRange(trace: number, range: Range): Promise<SectionsAnswer> {
  return askJson("api/range", { trace, ...wholeNanos(range) });
}

export function askReport(trace: number): Promise<SectionsAnswer> {
  return askJson("api/report", { trace });
}

export function askCompare(base: number, other: number): Promise<SectionsAnswer> {
  return askJson("api/compare", { base, other });
}

export interface FlameQuestion {
  trace: number;
  value: FlameValue;
  range: Range | null;
  track: number | null;
  group: FlameGroup | null;
  /** The trace to set it against. */
  base: number | null;
}

export function askFlame(what: FlameQuestion, signal: AbortSignal): Promise<FlameAnswer> {
  const range = what.range === null ? {} : wholeNanos(what.range);
  const { trace, value } = what;
  const [track, group, base] = [what.track, what.group, what.base].map((it) => it ?? undefined);
  return askJson("api/flame", { trace, value, ...range, track, group, base }, { signal });
}

export function askQuery(text: string, signal: AbortSignal): Promise<QueryAnswer> {
  return askJson("api/query", {}, { method: "POST", body: text, signal });
}

/** The server knows whole nanoseconds only; a range never gets shorter by that. */
export function wholeNanos(range: Range): Range {
  return { from: Math.floor(range.from), to: Math.ceil(range.to) };
}

function paintParameters(what: PaintQuestion): Parameters {
  const { trace, pixels, tracks } = what;
  return { trace, ...wholeNanos(what.range), pixels, tracks: tracks.join(",") };
}

async function askJson<T>(path: string, parameters: Parameters, init?: RequestInit): Promise<T> {
  const response = await ask(path, parameters, init);
  return (await response.json()) as T;
}

async function ask(path: string, parameters: Parameters, init?: RequestInit): Promise<Response> {
  const { trace } = parameters;
  const read = typeof trace === "number" ? reads.get(trace) : undefined;
  const query = Object.entries({ ...parameters, read })
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${name}=${encodeURIComponent(String(value)).replaceAll("%2C", ",")}`);
  const address = query.length === 0 ? path : `${path}?${query.join("&")}`;
  let response: Response;
  try {
    response = await fetch(address, init);
  } catch (error) {
    if (!isAborted(error)) isReachable.set(false);
    throw error;
  }
  isReachable.set(true);
  if (response.ok) return response;
  throw new RefusalError(response.status, await reasonOf(response));
}

async function reasonOf(response: Response): Promise<string> {
  const text = await response.text();
  try {
    const { error } = JSON.parse(text) as { error?: unknown };
    if (typeof error === "string") return error;
  } catch {
    // Not JSON: what it says itself is the best there is.
  }
  return text.trim().slice(0, 300) || `the server answered ${response.status}`;
}

/** Whether a question failed only because nobody wanted the answer any more. */
export function isAborted(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}

/** What went wrong, for people. */
export function reasonText(error: unknown): string {
  if (error instanceof RefusalError) return error.message;
  if (error instanceof TypeError) return "The server does not answer.";
  return error instanceof Error ? error.message : String(error);
}

// The answers of the server, as docs/reference/formats/viewer-protocol.md describes them.
// Times are whole nanoseconds since the trace's own zero.

export interface TrackInfo {
  id: number;
  kind: "thread" | "gpu_stream" | "async" | "counter" | "profiler";
  process: string | null;
  process_name: string | null;
  thread: string | null;
  thread_name: string | null;
  spans: number;
  rows: number;
  marks: number;
  least: number | null;
  most: number | null;
  /** Of a counter's values. */
  unit: "number" | "bytes";
}

export interface Notice {
  text: string;
  count: number;
}

export interface TraceInfo {
  id: number;
  file: string;
  producer: string | null;
  rank: number | null;
  from: number;
  /** When it begins after the first of all, where that is known. */
  began: number | null;
  to: number;
  spans: number;
  live: boolean;
  /** Counts the reads of a trace that grows: numbers of spans are those of one read. */
  read: number;
  notices: Notice[];
  tracks: TrackInfo[];
}

export interface TracesAnswer {
  version: number;
  /** What the numbers in `kind` mean. */
  kinds: string[];
  traces: TraceInfo[];
}

/** `[time, least, most, last]` of one pixel. */
export type CounterPoint = [number, number, number, number];

export interface CountersAnswer {
  tracks: { id: number; points: CounterPoint[] }[];
}

/** `[time, count, index into names]`. */
export type MarkPoint = [number, number, number];

export interface MarksAnswer {
  names: string[];
  tracks: { id: number; marks: MarkPoint[] }[];
}

/** A span, as far as one needs to know it to go there. */
export interface SpanPlace {
  span: number;
  name: string;
  track: number;
  row: number;
  start: number;
  dur: number;
}

export interface FrameName {
  span: number;
  name: string;
}

export interface SpanAnswer extends SpanPlace {
  category: string;
  kind: number;
  self: number;
  args: [string, string][];
  stack: FrameName[];
  launched_by: SpanPlace | null;
  launched: { count: number; total: number; first: SpanPlace[] };
  python: FrameName[];
  links: { category: string; to: boolean; other: SpanPlace }[];
  sampled: SampledAnswer | null;
  state: StateAnswer | null;
  same_name: {
    count: number;
    total: number;
    rank: number;
    previous: number | null;
    next: number | null;
  };
}

/** Samples with a drawn call on their stack; null is "not known". */
export interface SampledAnswer {
  mapping: string | null;
  /** Nanoseconds of CPU time. */
  cpu: number | null;
  /** `cpu` where samples of the event stand for CPU time. */
  events: { name: string | null; unit: string | null; samples: number; weight: number; cpu: boolean }[];
  lines: { file: string | null; line: number | null; samples: number; cpu: number | null }[];
}

export interface StackFrame {
  name: string;
  file: string | null;
  line: number | null;
  mapping: string | null;
}

/** The thread state that a span was drawn from. */
export interface StateAnswer {
  state: "running" | "runnable" | "blocked" | "unrecorded";
  reason: string | null;
  /** It waits for something to do. */
  idle: boolean;
  cpu: number | null;
  /** Innermost first, and so is that of the waker. */
  stack: StackFrame[];
  waker: { track: number; name: string } | null;
  waker_stack: StackFrame[];
  lock: string | null;
}

export interface SearchAnswer {
  count: number;
  names: { name: string; count: number; total: number; first: number }[];
  spans: SpanPlace[];
}

export type Unit = "text" | "nanos" | "count" | "bytes" | "share" | "status" | "number";

/** A text, a number with the text that people read, or nothing. */
/** `whole` is the name that a short text stands for. */
export type Cell = string | { text: string; value?: number; whole?: string } | null;

export interface Column {
  key: string;
  title: string;
  unit: Unit;
  shown: boolean;
}

export interface Place {
  from: number;
  to: number;
  track: number | null;
  /** The span, where the place is one. */
  span?: number;
}

export interface Paragraph {
  title: string;
  evidence: string;
  advice: string;
}

export interface Section {
  key: string;
  title: string;
  left_out: number;
  when_empty: string | null;
  /** One row, to be shown as lines of title and value. */
  is_record: boolean;
  columns: Column[];
  rows: Cell[][];
  notes?: string[];
  prose?: Paragraph[];
  places?: (Place | null)[];
  /** In a comparison: where a row is in the other trace; `places` is the base then. */
  other_places?: (Place | null)[];
}

export interface SectionsAnswer {
  sections: Section[];
  /** Lines for the end. */
  hints?: string[];
}

export const FLAME_VALUES = ["wall", "gpu", "count", "bytes"] as const;
export type FlameValue = (typeof FLAME_VALUES)[number];
/** What stacks may be put under, besides nothing. */
export const FLAME_GROUPS = ["thread", "rank", "phase", "step"] as const;
export type FlameGroup = (typeof FLAME_GROUPS)[number];

export interface FlameAnswer {
  value: FlameValue;
  unit: Unit;
  total: number;
  dropped: number;
  names: string[];
  parent: number[];
  name: number[];
  /** An index into `kinds` for each node. */
  kind: number[];
  weight: number[];
  self: number[];
  /** Against another trace: what that one spent in each node. */
  base?: FlameBase;
}

/** The other side of a flame graph of what changed; all weights are then those of one step. */
export interface FlameBase {
  total: number;
  weight: number[];
  self: number[];
  /** How many steps the weights were divided by, of the base and of the trace; 1 and 1 where
   * they were not. */
  steps: [number, number];
}

export type QueryValue = string | number | boolean | null;

export interface QueryAnswer {
  columns: string[];
  rows: QueryValue[][];
  more: boolean;
  /** What is not there, and what to do about it. */
  cut: string | null;
  /** How long the server thought about it. */
  took_ns: number;
}

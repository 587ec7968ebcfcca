// A trace on the screen's clock. Each trace has a zero of its own; on the screen all begin
// at 0, and one of them may be shifted, to lay two runs over each other.

import type { TraceInfo, TrackInfo } from "../server/protocol";
import { countText } from "../drawing/format";
import type { Range } from "../drawing/scale";

export class Source {
  readonly trace: TraceInfo;
  /** The trace's time at the screen's 0. */
  readonly origin: number;
  readonly #tracks: Map<number, TrackInfo>;

  constructor(trace: TraceInfo, shift = 0) {
    this.trace = trace;
    this.origin = trace.from - shift;
    this.#tracks = new Map(trace.tracks.map((track) => [track.id, track]));
  }

  get bounds(): Range {
    return this.toScreen(this.trace);
  }

  toScreen(range: Range): Range {
    return { from: range.from - this.origin, to: range.to - this.origin };
  }

  toTrace(range: Range): Range {
    return { from: range.from + this.origin, to: range.to + this.origin };
  }

  track(id: number): TrackInfo | undefined {
    return this.#tracks.get(id);
  }
}

/** Everything that the sources cover. */
export function boundsOf(sources: readonly Source[]): Range {
  const all = sources.map((source) => source.bounds);
  if (all.length === 0) return { from: 0, to: 1 };
  return {
    from: Math.min(...all.map(({ from }) => from)),
    to: Math.max(...all.map(({ to }) => to), 1),
  };
}

/** How several traces stand to each other. */
export type Alignment = "starts" | "clock";

/** Whether they were recorded at the same time, at least in part: ranks of a run, not two runs. */
export function sharesClock(traces: readonly TraceInfo[]): boolean {
  if (traces.length < 2 || traces.some(({ began }) => began === null)) return false;
  const latest = Math.max(...traces.map(({ began }) => began!));
  const earliestEnd = Math.min(...traces.map(({ began, from, to }) => began! + to - from));
  return latest < earliestEnd;
}

/** The traces on the screen's clock. */
export function aligned(traces: readonly TraceInfo[], alignment: Alignment): Source[] {
  return traces.map((trace) => new Source(trace, alignment === "clock" ? (trace.began ?? 0) : 0));
}

/** "rank 0", or the file's name. */
export function traceTitle(trace: TraceInfo): string {
  const file = trace.file.split(/[\\/]/).at(-1) ?? trace.file;
  return trace.rank === null ? file : `rank ${trace.rank} · ${file}`;
}

/** "rank 0" if that distinguishes the traces, else the file's name. */
export function shortTitle(trace: TraceInfo, all: readonly Source[]): string {
  const same = all.filter((other) => other.trace.rank === trace.rank);
  return trace.rank !== null && same.length === 1 ? `rank ${trace.rank}` : traceTitle(trace);
}

/** "python 1234", "GPU 0". */
export function processTitle(track: TrackInfo): string {
  const { process, process_name: name } = track;
  // The process of a stream is its GPU, under the name of the program that used it.
  if (track.kind === "gpu_stream" && process !== null && process !== "") return `GPU ${process}`;
  if (name === null || name === "") {
    return process === null || process === "" ? "No process" : `Process ${process}`;
  }
  return process === null || process === "" || name.includes(process) ? name : `${name} ${process}`;
}

const KIND_TITLES: Record<TrackInfo["kind"], string> = {
  thread: "Thread",
  gpu_stream: "Stream",
  async: "Async",
  counter: "Counter",
  profiler: "Profiler",
};

/** "main 77", "Stream 7". */
export function trackTitle(track: TrackInfo): string {
  const { thread, thread_name: name } = track;
  if (name === null || name === "") {
    const kind = KIND_TITLES[track.kind];
    // What a counter is called says what it counts.
    if (track.kind === "counter" && thread !== null && thread !== "") return thread;
    return thread === null || thread === "" ? kind : `${kind} ${thread}`;
  }
  return thread === null || thread === "" || name.includes(thread) ? name : `${name} ${thread}`;
}

export function trackNote(track: TrackInfo): string {
  const parts = [];
  if (track.spans > 0) parts.push(`${countText(track.spans)} spans`);
  if (track.marks > 0) parts.push(`${countText(track.marks)} marks`);
  return parts.join(", ");
}

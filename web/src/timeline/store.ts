// Answers of the server for one trace, kept by chunk and track. Painting takes what is
// there: the wanted chunk if it has come, else the last that was painted, and below that
// the overview of the whole trace, so the screen is never empty while a question is open.

import type { SliceTable } from "../server/decode";
import { printable } from "../drawing/printable";
import type { CounterPoint, MarkPoint, TrackInfo } from "../server/protocol";
import { askCounters, askMarks, askSlices, isAborted, type PaintQuestion } from "../server/server";
import { chunkOf, type Chunk } from "./chunk";
import type { Range } from "../drawing/scale";

/** What one track has to show in one chunk. */
export interface TrackPicture {
  chunk: Chunk;
  slices: SliceTable | null;
  first: number;
  len: number;
  points: CounterPoint[];
  marks: MarkPoint[];
  markNames: string[];
}

const CHUNKS_KEPT = 24;
const OVERVIEW_PIXELS = 1024;

export class PictureStore {
  readonly #trace: number;
  readonly #changed: () => void;
  readonly #failed: (error: unknown) => void;
  readonly #chunks = new Map<string, Map<number, TrackPicture>>();
  readonly #last = new Map<number, TrackPicture>();
  #overview = new Map<number, TrackPicture>();
  #overviewOf = "";
  #open: { key: string; tracks: Set<number>; stop: AbortController } | null = null;

  constructor(trace: number, changed: () => void, failed: (error: unknown) => void) {
    this.#trace = trace;
    this.#changed = changed;
    this.#failed = failed;
  }

  get isWaiting(): boolean {
    return this.#open !== null;
  }

  /** The pictures to paint for a track, the one below first. */
  pictures(track: number, chunk: Chunk): TrackPicture[] {
    const wanted = this.#chunks.get(chunk.key)?.get(track);
    if (wanted !== undefined) {
      this.#last.set(track, wanted);
      return [wanted];
    }
    return [this.#overview.get(track), this.#last.get(track)].filter((it) => it !== undefined);
  }

  overviewOf(track: number): TrackPicture | undefined {
    return this.#overview.get(track);
  }

  /** Asks for the tracks of the chunk that are not there yet; what was asked before and is no
   * longer wanted is stopped. */
  want(chunk: Chunk, tracks: readonly TrackInfo[]): void {
    const there = this.#chunks.get(chunk.key);
    const missing = tracks.filter(({ id }) => there === undefined || !there.has(id));
    if (this.#open !== null) {
      const { key, tracks: asked, stop } = this.#open;
      if (key === chunk.key && missing.every(({ id }) => asked.has(id))) return;
      stop.abort();
      this.#open = null;
    }
    if (missing.length === 0) return;
    const stop = new AbortController();
    const open = { key: chunk.key, tracks: new Set(missing.map(({ id }) => id)), stop };
    this.#open = open;
    this.#fetch(chunk, missing, stop.signal)
      .then((pictures) => this.#keep(chunk, pictures))
      .catch((error: unknown) => {
        if (!isAborted(error)) this.#failed(error);
      })
      .finally(() => {
        if (this.#open === open) this.#open = null;
        this.#changed();
      });
  }

  /** Asks for the whole trace once, and again when it has grown. */
  wantOverview(bounds: Range, tracks: readonly TrackInfo[]): void {
    const key = `${bounds.from}-${bounds.to}`;
    if (key === this.#overviewOf) return;
    this.#overviewOf = key;
    const chunk = { ...chunkOf(bounds, OVERVIEW_PIXELS, bounds), pixels: OVERVIEW_PIXELS };
    this.#fetch(chunk, tracks, new AbortController().signal)
      .then((pictures) => {
        this.#overview = pictures;
        this.#changed();
      })
      .catch((error: unknown) => {
        this.#overviewOf = "";
        this.#failed(error);
      });
  }

  /** Forgets what a trace that has grown may have changed; what is on the screen stays there
   * until there is better. */
  forget(): void {
    this.#open?.stop.abort();
    this.#open = null;
    this.#chunks.clear();
    this.#overviewOf = "";
  }

  #keep(chunk: Chunk, pictures: Map<number, TrackPicture>): void {
    const kept = this.#chunks.get(chunk.key) ?? new Map<number, TrackPicture>();
    for (const [track, picture] of pictures) kept.set(track, picture);
    // Maps keep the order of insertion: the first is the one longest unused.
    this.#chunks.delete(chunk.key);
    this.#chunks.set(chunk.key, kept);
    const oldest = this.#chunks.keys().next().value;
    if (this.#chunks.size > CHUNKS_KEPT && oldest !== undefined) this.#chunks.delete(oldest);
  }

  async #fetch(
    chunk: Chunk,
    tracks: readonly TrackInfo[],
    signal: AbortSignal,
  ): Promise<Map<number, TrackPicture>> {
    const empty = { chunk, slices: null, first: 0, len: 0, points: [], marks: [], markNames: [] };
    const pictures = new Map<number, TrackPicture>(tracks.map(({ id }) => [id, { ...empty }]));
    const about = (chosen: readonly TrackInfo[]): PaintQuestion => ({
      trace: this.#trace,
      range: chunk.range,
      pixels: chunk.pixels,
      tracks: chosen.map(({ id }) => id),
    });
    const withSpans = tracks.filter(({ kind, spans }) => kind !== "counter" && spans > 0);
    const counters = tracks.filter(({ kind }) => kind === "counter");
    const withMarks = tracks.filter(({ kind, marks }) => kind !== "counter" && marks > 0);
    await Promise.all([
      withSpans.length > 0 && askSlices(about(withSpans), signal).then((slices) => {
        for (const { id, first, len } of slices.tracks) {
          Object.assign(pictures.get(id) ?? {}, { slices, first, len });
        }
      }),
      counters.length > 0 && askCounters(about(counters), signal).then((answer) => {
        for (const { id, points } of answer.tracks) Object.assign(pictures.get(id) ?? {}, { points });
      }),
      withMarks.length > 0 && askMarks(about(withMarks), signal).then((answer) => {
        const markNames = answer.names.map(printable);
        for (const { id, marks } of answer.tracks) {
          Object.assign(pictures.get(id) ?? {}, { marks, markNames });
        }
      }),
    ]);
    return pictures;
  }
}

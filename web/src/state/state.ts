// What the page shows, as signals: every part reads and changes these and knows nothing of
// the others.

import type { Theme } from "../drawing/color";
import type { SpanAnswer } from "../server/protocol";
import type { Range } from "../drawing/scale";
import { Signal } from "./signal";
import { boundsOf, type Alignment, type Source } from "./source";

export const PANELS = ["timeline", "flame", "compare", "findings", "sql"] as const;
export type Panel = (typeof PANELS)[number];

export interface Selection {
  trace: number;
  answer: SpanAnswer;
}

/** The request to show a span, fulfilled when the server has described it. */
export interface SpanReference {
  trace: number;
  span: number;
}

export class State {
  readonly sources = new Signal<readonly Source[]>([]);
  /** Whether several traces stand on one clock or all begin at 0. */
  readonly alignment = new Signal<Alignment>("starts");
  readonly panel = new Signal<Panel>("timeline");
  /** What is on the screen; all times of signals are the screen's. */
  readonly view = new Signal<Range>({ from: 0, to: 1 });
  readonly selected = new Signal<Selection | null>(null);
  readonly range = new Signal<Range | null>(null);
  readonly search = new Signal("");
  readonly theme = new Signal<Theme>("light");
  /** What the live region says. */
  readonly announced = new Signal("");
  /** What went wrong last; empty when nothing did. */
  readonly problem = new Signal("");
  /** Which trace the flame graph, the findings and the summary of a range are about. */
  readonly trace = new Signal(0);

  get bounds(): Range {
    return boundsOf(this.sources.value);
  }

  source(trace: number): Source | undefined {
    return this.sources.value.find((source) => source.trace.id === trace);
  }
}

// What is at a place of the tracks' canvas, and the words for it.

import { countText, nanosText } from "../../drawing/format";
import { lengthOf, timeAt, type Range } from "../../drawing/scale";
import { trackTitle } from "../../state/source";
import { markAt, pointAt, spanAt, type SpanHit } from "./hit";
import { ROW_HEIGHT, lineAt, rowsTop, type Layout, type TrackLine } from "../layout";
import type { TrackPicture } from "../store";
import { counterLines, spanLines, type Tooltip } from "./tooltip";

const SLACK_PIXELS = 2;
const MARK_SLACK_PIXELS = 5;

export type Hit =
  | { type: "span"; line: TrackLine; span: SpanHit }
  | { type: "mark"; line: TrackLine; time: number; count: number; name: string }
  | { type: "counter"; line: TrackLine; least: number; most: number; value: number };

export function hitAt(
  x: number,
  y: number,
  layout: Layout,
  view: Range,
  width: number,
  picturesOf: (line: TrackLine) => readonly TrackPicture[],
): Hit | null {
  const line = lineAt(layout.lines, y);
  if (line === undefined || line.type === "group") return null;
  const time = timeAt(x, view, width) + line.source.origin;
  const nanosPerPixel = lengthOf(view) / width;
  // The best picture is the last.
  for (const picture of [...picturesOf(line)].reverse()) {
    const hit = hitIn(picture, line, y, time, nanosPerPixel);
    if (hit !== null) return hit;
  }
  return null;
}

function hitIn(
  picture: TrackPicture,
  line: TrackLine,
  y: number,
  time: number,
  nanosPerPixel: number,
): Hit | null {
  if (line.track.kind === "counter") {
    const point = pointAt(picture.points, time);
    if (point === null) return null;
    return { type: "counter", line, least: point[1], most: point[2], value: point[3] };
  }
  const row = Math.floor((y - rowsTop(line)) / ROW_HEIGHT);
  if (row < 0) {
    const mark = markAt(picture, time, MARK_SLACK_PIXELS * nanosPerPixel);
    return mark === null ? null : { type: "mark", line, ...mark };
  }
  if (row >= line.rows) return null;
  const span = spanAt(picture, row, time, SLACK_PIXELS * nanosPerPixel);
  return span === null ? null : { type: "span", line, span };
}

export function showHit(hit: Hit, tooltip: Tooltip, event: PointerEvent): void {
  const { clientX, clientY } = event;
  const { origin } = hit.line.source;
  switch (hit.type) {
    case "span":
      tooltip.show(hit.span.name, spanLines(hit.span, hit.span.start - origin), clientX, clientY);
      break;
    case "mark": {
      const at = `at ${nanosText(Math.round(hit.time - origin))}`;
      const lines = hit.count > 1 ? [`one of ${countText(hit.count)} marks here`, at] : [at];
      tooltip.show(hit.name, lines, clientX, clientY);
      break;
    }
    case "counter": {
      const lines = counterLines(hit.value, hit.least, hit.most, hit.line.track.unit);
      tooltip.show(trackTitle(hit.line.track), lines, clientX, clientY);
      break;
    }
  }
}

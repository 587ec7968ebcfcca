// The names on spans of one frame: collected while the rows are filled, painted once those are on
// the canvas. The lists are used again in the next frame.

import type { Paints } from "../../drawing/color";
import { Letters } from "../../drawing/label";
import { LabelImages } from "./label_images";
import { ROW_HEIGHT } from "../layout";

const PADDING = 4;
const FONT = "11px system-ui, sans-serif";
const letters = new Letters(FONT);
const images = new LabelImages(FONT, ROW_HEIGHT);

export class Labels {
  /** Height of the row that is being filled. */
  y = 0;
  /** Pixels in which a better picture will stand above the one that is being filled. */
  hidden: { from: number; to: number } | null = null;
  readonly #texts: string[] = [];
  readonly #lefts: number[] = [];
  readonly #rooms: number[] = [];
  readonly #tops: number[] = [];
  readonly #alphas: number[] = [];
  #count = 0;

  begin(): void {
    this.#count = 0;
  }

  /** A name for a rectangle between two pixels, as opaque (up to 255) as it. */
  add(text: string, left: number, right: number, width: number, alpha: number): void {
    let from = Math.max(left, 0);
    let to = Math.min(right, width);
    if (this.hidden !== null) {
      if (from < this.hidden.from) to = Math.min(to, this.hidden.from);
      else from = Math.max(from, this.hidden.to);
    }
    const room = to - from - 2 * PADDING;
    if (room <= 0) return;
    const at = this.#count++;
    this.#texts[at] = text;
    this.#lefts[at] = from + PADDING;
    this.#rooms[at] = room;
    this.#tops[at] = this.y + ROW_HEIGHT / 2;
    this.#alphas[at] = alpha;
  }

  paint(context: CanvasRenderingContext2D, paints: Paints, ratio: number): void {
    context.font = letters.font;
    context.textBaseline = "middle";
    context.fillStyle = paints.onSpan;
    images.begin(paints.onSpan, ratio);
    let alpha = 255;
    for (let at = 0; at < this.#count; at++) {
      const text = this.#texts[at]!;
      const count = letters.fitting(context, text, this.#rooms[at]!);
      if (count === 0) continue;
      // Setting it costs more than comparing.
      if (this.#alphas[at] !== alpha) {
        alpha = this.#alphas[at]!;
        context.globalAlpha = alpha / 255;
      }
      paintOne(context, text, count, this.#lefts[at]!, this.#tops[at]!, ratio);
    }
    context.globalAlpha = 1;
  }
}

function paintOne(context: CanvasRenderingContext2D, text: string, count: number, x: number, y: number, ratio: number): void {
  const image = images.of(text, letters.widthOf(context, text, text.length));
  if (image === null) {
    context.fillText(count === text.length ? text : `${text.slice(0, count)}…`, x, y);
    return;
  }
  // Between two pixels of the screen an image would be blurred.
  const [left, top] = [Math.round(x * ratio) / ratio, Math.round((y - ROW_HEIGHT / 2) * ratio) / ratio];
  const wide = count === text.length ? image.width : Math.round(letters.widthOf(context, text, count) * ratio);
  context.drawImage(image, 0, 0, wide, image.height, left, top, wide / ratio, image.height / ratio);
  if (count === text.length) return;
  const dots = images.of("…", letters.widthOf(context, "…", 1));
  if (dots === null) context.fillText("…", left + wide / ratio, y);
  else context.drawImage(dots, left + wide / ratio, top, dots.width / ratio, dots.height / ratio);
}

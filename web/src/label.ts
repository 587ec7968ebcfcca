// Names on rectangles: cut to the room there is, without asking the canvas for widths in every
// frame. Widths of letters are known once asked for; a name is as wide as its letters.

/** The widths of letters in one font. */
export class Letters {
  readonly font: string;
  readonly #widths = new Map<string, number>();
  /** For each name how far each of its letters reaches. */
  readonly #names = new Map<string, Float32Array>();

  constructor(font: string) {
    this.font = font;
  }

  /** The text, cut with "…" where there is no room; nothing where hardly a letter would fit. */
  fitted(context: Measuring, text: string, room: number): string {
    const reach = this.#reachOf(context, text);
    if ((reach.at(-1) ?? 0) <= room) return text;
    const letters = lettersWithin(reach, room - this.#widthOf(context, "…"));
    return letters < LETTERS_MIN ? "" : `${text.slice(0, letters)}…`;
  }

  #reachOf(context: Measuring, text: string): Float32Array {
    let reach = this.#names.get(text);
    if (reach === undefined) {
      if (this.#names.size > NAMES_KEPT) this.#names.clear();
      reach = new Float32Array(text.length);
      let right = 0;
      for (let at = 0; at < text.length; at++) {
        right += this.#widthOf(context, text[at]!);
        reach[at] = right;
      }
      this.#names.set(text, reach);
    }
    return reach;
  }

  #widthOf(context: Measuring, letter: string): number {
    let width = this.#widths.get(letter);
    if (width === undefined) {
      width = context.measureText(letter).width;
      this.#widths.set(letter, width);
    }
    return width;
  }
}

/** What is needed of a canvas. */
export type Measuring = Pick<CanvasRenderingContext2D, "measureText">;

const NAMES_KEPT = 5000;
const LETTERS_MIN = 2;

/** How many of the letters end within the room. */
function lettersWithin(reach: Float32Array, room: number): number {
  let [low, high] = [0, reach.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (reach[middle]! <= room) low = middle + 1;
    else high = middle;
  }
  return low;
}

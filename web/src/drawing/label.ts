// Names on rectangles: cut to the room there is, without asking the canvas for widths in every
// frame. Widths of letters are known once asked for; a name is as wide as its letters.

/** The widths of letters in one font. */
export class Letters {
  readonly font: string;
  readonly #widths = new Map<string, number>();
  /** The same of common letters, by code; below 0 where it is not known yet. */
  readonly #common = new Float32Array(COMMON_MAX).fill(-1);
  /** For each name how far each of its letters reaches. */
  readonly #names = new Map<string, Float32Array>();

  constructor(font: string) {
    this.font = font;
  }

  /** The text, cut with "…" where there is no room; nothing where hardly a letter would fit. */
  fitted(context: Measuring, text: string, room: number): string {
    const letters = this.fitting(context, text, room);
    if (letters === text.length) return text;
    return letters === 0 ? "" : `${text.slice(0, letters)}…`;
  }

  /** How many letters of the text there is room for, with "…" behind them if they are not all. */
  fitting(context: Measuring, text: string, room: number): number {
    const reach = this.#reachOf(context, text);
    if ((reach[reach.length - 1] ?? 0) <= room) return text.length;
    const letters = lettersWithin(reach, room - this.#widthOf(context, "…"));
    return letters < LETTERS_MIN ? 0 : letters;
  }

  /** How wide the first `letters` letters of the text are. */
  widthOf(context: Measuring, text: string, letters: number): number {
    return letters === 0 ? 0 : this.#reachOf(context, text)[letters - 1]!;
  }

  #reachOf(context: Measuring, text: string): Float32Array {
    let reach = this.#names.get(text);
    if (reach === undefined) {
      if (this.#names.size > NAMES_KEPT) this.#names.clear();
      reach = new Float32Array(text.length);
      let right = 0;
      for (let at = 0; at < text.length; at++) {
        const code = text.charCodeAt(at);
        const known = code < COMMON_MAX ? this.#common[code]! : -1;
        right += known >= 0 ? known : this.#widthOf(context, text[at]!);
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
      if (letter.charCodeAt(0) < COMMON_MAX) this.#common[letter.charCodeAt(0)] = width;
    }
    return width;
  }
}

/** What is needed of a canvas. */
export type Measuring = Pick<CanvasRenderingContext2D, "measureText">;

const NAMES_KEPT = 5000;
const COMMON_MAX = 128;
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

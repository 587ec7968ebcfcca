// Names as images: painting one is several times as fast as setting its letters again in every
// frame. Making one is slow, so a frame makes a few, and the next frames the others.

const MAKING_MAX_MS = 1.5;
/** Of all images together, four bytes each. */
const PIXELS_MAX = 4_000_000;

export class LabelImages {
  readonly #font: string;
  readonly #height: number;
  readonly #images = new Map<string, ImageBitmap>();
  #pixels = 0;
  #color = "";
  #ratio = 1;
  #until = 0;

  /** The height is that of a line, in CSS pixels. */
  constructor(font: string, height: number) {
    this.#font = font;
    this.#height = height;
  }

  /** Before the first name of a frame: the appearance of names. */
  begin(color: string, ratio: number): void {
    if (color !== this.#color || ratio !== this.#ratio || this.#pixels > PIXELS_MAX) this.#clear();
    this.#color = color;
    this.#ratio = ratio;
    this.#until = performance.now() + MAKING_MAX_MS;
  }

  /** The name as an image, if there is one or time to make it; `width` is at least its own. */
  of(text: string, width: number): ImageBitmap | null {
    const known = this.#images.get(text);
    if (known !== undefined) return known;
    // Browsers of some years ago have no such canvas; there the letters are set each time.
    if (typeof OffscreenCanvas === "undefined" || performance.now() > this.#until) return null;
    const image = this.#make(text, width);
    if (image !== null) this.#images.set(text, image);
    return image;
  }

  #make(text: string, width: number): ImageBitmap | null {
    const [w, h] = [Math.ceil(width * this.#ratio) + 1, Math.round(this.#height * this.#ratio)];
    const canvas = new OffscreenCanvas(w, h);
    const context = canvas.getContext("2d");
    if (context === null) return null;
    context.scale(this.#ratio, this.#ratio);
    context.font = this.#font;
    context.textBaseline = "middle";
    context.fillStyle = this.#color;
    context.fillText(text, 0, this.#height / 2);
    this.#pixels += w * h;
    return canvas.transferToImageBitmap();
  }

  #clear(): void {
    for (const image of this.#images.values()) image.close();
    this.#images.clear();
    this.#pixels = 0;
  }
}

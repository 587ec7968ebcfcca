// Rows of spans as an image: each row is one line of pixels, which the canvas scales to the
// row's height. Drawing thousands of rectangles in every frame took most of its time,
// in the script and in the painting after it; numbers in an array cost next to nothing.

export class PixelRows {
  readonly #canvas = document.createElement("canvas");
  readonly #context: CanvasRenderingContext2D;
  #image: ImageData | null = null;
  /** One number a pixel, line by line; see pixelOf. */
  pixels = new Uint32Array(0);
  width = 0;

  constructor() {
    // What is written in every frame by the processor is best kept where it can reach it.
    const context = this.#canvas.getContext("2d", { willReadFrequently: true });
    if (context === null) throw new Error("this browser gives no canvas to paint on");
    this.#context = context;
  }

  /** Empties the image, and makes it as large as is wanted. */
  begin(width: number, lines: number): void {
    this.width = Math.max(width, 1);
    if (this.#image === null || this.#image.width !== this.width || this.#image.height < lines) {
      this.#canvas.width = this.width;
      this.#canvas.height = Math.max(lines, 1);
      this.#image = this.#context.createImageData(this.width, this.#canvas.height);
      this.pixels = new Uint32Array(this.#image.data.buffer);
    } else this.pixels.fill(0, 0, this.width * lines);
  }

  /** The lines are complete. */
  end(lines: number): void {
    if (this.#image !== null && lines > 0) {
      this.#context.putImageData(this.#image, 0, 0, 0, 0, this.width, lines);
    }
  }

  /** Scales a line over a row of the canvas. */
  draw(target: CanvasRenderingContext2D, line: number, y: number, width: number, height: number): void {
    target.drawImage(this.#canvas, 0, line, this.width, 1, 0, y, width, height);
  }
}

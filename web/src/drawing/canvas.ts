// A canvas that is as sharp as the screen, and knows its size in CSS pixels.

export class Surface {
  readonly canvas: HTMLCanvasElement;
  readonly context: CanvasRenderingContext2D;
  width = 0;
  height = 0;

  constructor(canvas: HTMLCanvasElement) {
    this.canvas = canvas;
    // Every picture fills its canvas, so nothing has to be blended with the page behind it.
    const context = canvas.getContext("2d", { alpha: false });
    if (context === null) throw new Error("this browser gives no canvas to paint on");
    this.context = context;
  }

  /** Takes a size; the context then counts in CSS pixels. */
  resize(width: number, height: number): void {
    const ratio = window.devicePixelRatio || 1;
    const [w, h] = [Math.max(1, Math.round(width * ratio)), Math.max(1, Math.round(height * ratio))];
    if (this.canvas.width !== w || this.canvas.height !== h) {
      this.canvas.width = w;
      this.canvas.height = h;
      this.canvas.style.width = `${width}px`;
      this.canvas.style.height = `${height}px`;
    }
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.width = width;
    this.height = height;
  }
}

/** Calls `paint` once before the next frame, however often it is asked for. */
export class Repaint {
  readonly #paint: () => void;
  #isDue = false;

  constructor(paint: () => void) {
    this.#paint = paint;
  }

  ask(): void {
    if (this.#isDue) return;
    this.#isDue = true;
    requestAnimationFrame(() => {
      this.#isDue = false;
      this.#paint();
    });
  }
}

// How finely to paint while the view moves: as finely as there is time for in a frame. Once it
// rests, everything is painted pixel by pixel.

/** Longer than this a frame should not take, with room for what else a frame needs. */
const LONG_MS = 3;
const SHORT_MS = 1.2;
const COARSEST = 8;

export class Grain {
  #moving = 1;
  #isFine = true;
  #wantsFine = false;

  /** The pixels for the next picture. */
  get next(): number {
    return this.#wantsFine ? 1 : this.#moving;
  }

  /** Learns how long the picture took. */
  painted(tookMs: number): void {
    this.#isFine = this.next === 1;
    if (!this.#wantsFine && tookMs > LONG_MS) this.#moving = Math.min(this.#moving * 2, COARSEST);
    else if (!this.#wantsFine && tookMs < SHORT_MS) this.#moving = Math.max(this.#moving / 1.2, 1);
    this.#wantsFine = false;
  }

  /** The view rests: whether to paint again, finely. */
  rest(): boolean {
    if (this.#isFine) return false;
    this.#wantsFine = true;
    return true;
  }
}

// Keys of the page. Moving keys act at once and go on smoothly while they are held.

import { isTyping } from "../drawing/dom";

export type Direction = "in" | "out" | "left" | "right" | "up" | "down";

export interface KeyActions {
  /** Whether there is a timeline to move now; else the keys are the browser's. */
  canMove(): boolean;
  /** Called for each frame in which the key is held, with the seconds since the last. */
  move(direction: Direction, seconds: number): void;
  /** Whether the key means something. */
  press(key: string): boolean;
}

const MOVES: Record<string, Direction> = {
  w: "in",
  s: "out",
  a: "left",
  d: "right",
  ArrowLeft: "left",
  ArrowRight: "right",
  ArrowUp: "up",
  ArrowDown: "down",
};

/** What one short press is worth. */
const FIRST_STEP_S = 0.12;
const FRAME_MAX_S = 0.1;

export function attachKeys(actions: KeyActions): void {
  const held = new Set<string>();
  let last = 0;
  const frame = (now: number): void => {
    if (held.size === 0) return;
    const seconds = Math.min((now - last) / 1000, FRAME_MAX_S);
    last = now;
    for (const key of held) actions.move(MOVES[key]!, seconds);
    requestAnimationFrame(frame);
  };
  window.addEventListener("keydown", (event) => {
    if (isTyping(event) || event.ctrlKey || event.metaKey || event.altKey) return;
    const move = MOVES[event.key];
    if (move === undefined) {
      if (actions.press(event.key)) event.preventDefault();
      return;
    }
    // Within a list of tabs the arrows belong to the tabs.
    if (event.target instanceof Element && event.target.closest('[role="tablist"]')) return;
    if (!actions.canMove()) return;
    event.preventDefault();
    if (event.repeat || held.has(event.key)) return;
    actions.move(move, FIRST_STEP_S);
    if (held.size === 0) {
      last = performance.now();
      requestAnimationFrame(frame);
    }
    held.add(event.key);
  });
  window.addEventListener("keyup", (event) => held.delete(event.key));
  window.addEventListener("blur", () => held.clear());
}

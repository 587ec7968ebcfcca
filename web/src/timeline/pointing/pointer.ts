// Mouse, pen, finger and wheel on the timeline. The rules: drag moves, shift-drag and the
// ruler select a range, a click picks, ctrl-wheel zooms where the pointer is, shift-wheel
// or a sideways wheel moves in time, a plain wheel scrolls the tracks.

import type { Range } from "../../drawing/scale";

const DRAG_MIN = 4;
const WHEEL_ZOOM = 0.0022;

export interface PointerActions {
  /** CSS pixels on the canvas. */
  pick(x: number, y: number): void;
  hover(x: number, y: number, event: PointerEvent): void;
  leave(): void;
  pan(pixels: number): void;
  scroll(pixels: number): void;
  zoom(factor: number, x: number): void;
  timeAt(x: number): number;
  select(range: Range | null): void;
  /** The view's middle goes to this share of the whole. */
  jump(share: number): void;
}

export function attachTracks(canvas: HTMLCanvasElement, actions: PointerActions): void {
  dragging(canvas, {
    start: (event) => (event.shiftKey ? rangeDrag(canvas, event, actions) : panDrag(event, actions)),
    click: (event) => actions.pick(event.offsetX, event.offsetY),
  });
  canvas.addEventListener("pointermove", (event) => {
    if (event.buttons === 0) actions.hover(event.offsetX, event.offsetY, event);
    else actions.leave();
  });
  canvas.addEventListener("pointerleave", () => actions.leave());
}

export function attachRuler(canvas: HTMLCanvasElement, actions: PointerActions): void {
  dragging(canvas, {
    start: (event) => rangeDrag(canvas, event, actions),
    click: () => actions.select(null),
  });
}

export function attachOverview(canvas: HTMLCanvasElement, actions: PointerActions): void {
  const jump = (event: PointerEvent): void => {
    const box = canvas.getBoundingClientRect();
    actions.jump((event.clientX - box.left) / Math.max(box.width, 1));
  };
  dragging(canvas, { start: () => jump, click: jump });
}

export function attachWheel(area: HTMLElement, canvas: HTMLElement, actions: PointerActions): void {
  area.addEventListener(
    "wheel",
    (event) => {
      const scale = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 16 : 1;
      const x = event.clientX - canvas.getBoundingClientRect().left;
      if (event.ctrlKey || event.metaKey) {
        event.preventDefault();
        actions.zoom(Math.exp(event.deltaY * scale * WHEEL_ZOOM), Math.max(x, 0));
      } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        event.preventDefault();
        const by = Math.abs(event.deltaX) > Math.abs(event.deltaY) ? event.deltaX : event.deltaY;
        actions.pan(by * scale);
      }
      // Else the browser scrolls, as it does everywhere.
    },
    { passive: false },
  );
}

type Follow = (event: PointerEvent) => void;

interface Drag {
  start: (event: PointerEvent) => Follow;
  click: (event: PointerEvent) => void;
}

/** Distinguishes clicks from drags, and follows a drag wherever it goes. */
function dragging(target: HTMLElement, drag: Drag): void {
  target.addEventListener("pointerdown", (down) => {
    if (down.button !== 0) return;
    let follow: Follow | null = null;
    target.setPointerCapture(down.pointerId);
    const move = (event: PointerEvent): void => {
      const away = Math.hypot(event.clientX - down.clientX, event.clientY - down.clientY);
      if (follow === null && away >= DRAG_MIN) follow = drag.start(down);
      follow?.(event);
    };
    const up = (event: PointerEvent): void => {
      target.removeEventListener("pointermove", move);
      target.removeEventListener("pointerup", up);
      target.removeEventListener("pointercancel", up);
      if (follow === null && event.type === "pointerup") drag.click(event);
    };
    target.addEventListener("pointermove", move);
    target.addEventListener("pointerup", up);
    target.addEventListener("pointercancel", up);
  });
}

function panDrag(down: PointerEvent, actions: PointerActions): Follow {
  let [x, y] = [down.clientX, down.clientY];
  return (event) => {
    actions.pan(x - event.clientX);
    actions.scroll(y - event.clientY);
    [x, y] = [event.clientX, event.clientY];
  };
}

function rangeDrag(canvas: HTMLElement, down: PointerEvent, actions: PointerActions): Follow {
  const left = canvas.getBoundingClientRect().left;
  const anchor = actions.timeAt(down.clientX - left);
  return (event) => {
    const other = actions.timeAt(event.clientX - left);
    if (other === anchor) return;
    actions.select({ from: Math.min(anchor, other), to: Math.max(anchor, other) });
  };
}

// Where the frames of a flame graph stand when one of them fills the width, and painting
// them.

import { changeColor, changeShare, spanColor, type Paints } from "../drawing/color";
import { Letters } from "../drawing/label";
import type { FlameTree, Side } from "./tree";

export const FRAME_HEIGHT = 19;
const WIDTH_MIN = 0.4;
const LABEL_MIN = 26;
const letters = new Letters("11.5px system-ui, sans-serif");

export interface Frame {
  node: number;
  x: number;
  w: number;
  depth: number;
  /** It is above the focused one, and wider than the screen. */
  isAround: boolean;
}

/** Frames that can be seen when `focus` is as wide as the screen. */
export function framesOf(tree: FlameTree, focus: number, width: number): Frame[] {
  const whole = tree.weight[focus] ?? 0;
  if (whole <= 0) return [];
  const start = tree.left[focus]!;
  const frames: Frame[] = [];
  for (let node = 0; node < tree.parent.length; node++) {
    const left = tree.left[node]!;
    const right = left + tree.weight[node]!;
    const isAround = tree.depth[node]! < tree.depth[focus]!;
    if (right <= start || left >= start + whole) continue;
    const x = Math.max(((left - start) / whole) * width, 0);
    const w = Math.min(((right - start) / whole) * width, width) - x;
    if (w >= WIDTH_MIN) frames.push({ node, x, w, depth: tree.depth[node]!, isAround });
  }
  return frames;
}

export interface FlamePicture {
  tree: FlameTree;
  frames: readonly Frame[];
  /** Height of the top of depth 0. */
  top: number;
  /** Depth grows upwards. */
  isUp: boolean;
  /** Of a comparison: whose weights are the widths. */
  side: Side;
}

/** How a node changed from the base to the trace, as a share of the larger of both. */
export function changeOf(tree: FlameTree, node: number, side: Side): number {
  const [own, other] = [tree.weight[node]!, tree.other?.[node] ?? 0];
  return side === "trace" ? changeShare(other, own) : changeShare(own, other);
}

function fillOf({ tree, side }: FlamePicture, node: number, name: string, paints: Paints): string {
  if (tree.other !== null) return changeColor(changeOf(tree, node, side), paints.theme);
  return node === 0 ? paints.line : spanColor(tree.kind[node]!, name, paints.theme);
}

export function frameTop(picture: FlamePicture, frame: Frame): number {
  return picture.top + (picture.isUp ? -frame.depth : frame.depth) * FRAME_HEIGHT;
}

export function frameAt(picture: FlamePicture, x: number, y: number): Frame | undefined {
  return picture.frames.find((frame) => {
    const top = frameTop(picture, frame);
    return x >= frame.x && x <= frame.x + frame.w && y >= top && y < top + FRAME_HEIGHT;
  });
}

export function paintFlame(
  context: CanvasRenderingContext2D,
  picture: FlamePicture,
  paints: Paints,
  found: ReadonlySet<number> | null,
  hovered: number | null,
): void {
  const { tree } = picture;
  context.font = letters.font;
  context.textBaseline = "middle";
  for (const frame of picture.frames) {
    const { node, x, w } = frame;
    const y = frameTop(picture, frame);
    const name = tree.names[tree.name[node]!] ?? "";
    const isFound = found === null || found.has(tree.name[node]!);
    context.globalAlpha = (frame.isAround ? 0.5 : 1) * (isFound ? 1 : 0.3);
    context.fillStyle = fillOf(picture, node, name, paints);
    context.fillRect(x, y, Math.max(w - 0.5, 0.4), FRAME_HEIGHT - 1);
    if (found !== null && isFound) {
      context.fillStyle = paints.hit;
      context.fillRect(x, y + FRAME_HEIGHT - 4, Math.max(w - 0.5, 0.4), 3);
    }
    context.globalAlpha = 1;
    if (node === hovered) {
      context.strokeStyle = paints.text;
      context.lineWidth = 1;
      context.strokeRect(x + 0.5, y + 0.5, Math.max(w - 1.5, 1), FRAME_HEIGHT - 2);
    }
    if (w < LABEL_MIN) continue;
    context.fillStyle = node === 0 || tree.other !== null ? paints.text : paints.onSpan;
    context.fillText(letters.fitted(context, name, w - 8), x + 4, y + FRAME_HEIGHT / 2);
  }
}

/** How much of the whole the found frames cover, where they are nested counted once. */
export function foundShare(tree: FlameTree, found: ReadonlySet<number>): number {
  let covered = 0;
  let reached = 0;
  for (let node = 0; node < tree.parent.length; node++) {
    if (!found.has(tree.name[node]!) || tree.left[node]! < reached) continue;
    covered += tree.weight[node]!;
    reached = tree.left[node]! + tree.weight[node]!;
  }
  const whole = tree.weight[0] ?? 0;
  return whole === 0 ? 0 : covered / whole;
}

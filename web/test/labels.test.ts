import assert from "node:assert/strict";
import { test } from "node:test";
import { PAINTS } from "../src/drawing/color";
import { Labels } from "../src/timeline/painting/labels";

/** The labels that are painted, "text at x", where every letter is ten wide. */
function painted(add: (labels: Labels) => void): string[] {
  const made: string[] = [];
  const measureText = (): TextMetrics => ({ width: 10 }) as TextMetrics;
  const fillText = (text: string, x: number): void => void made.push(`${text} at ${x}`);
  const labels = new Labels();
  labels.begin();
  add(labels);
  labels.paint({ measureText, fillText } as unknown as CanvasRenderingContext2D, PAINTS.light, 1);
  return made;
}

test("names stand inside of what is seen of their rectangle", () => {
  assert.deepEqual(painted((labels) => labels.add("abcde", 100, 200, 1000, 255)), ["abcde at 104"]);
  assert.deepEqual(painted((labels) => labels.add("abcde", -50, 200, 1000, 255)), ["abcde at 4"]);
  assert.deepEqual(painted((labels) => labels.add("abcde", 950, 2000, 1000, 255)), ["abc… at 954"]);
  assert.deepEqual(painted((labels) => labels.add("abcde", 100, 110, 1000, 255)), []);
});

test("names of a coarse picture keep out of where a better one stands", () => {
  const between = (labels: Labels): void => {
    labels.hidden = { from: 100, to: 300 };
    labels.add("before", 0, 400, 1000, 255);
    labels.add("within", 120, 280, 1000, 255);
    labels.add("behind", 200, 500, 1000, 255);
  };
  assert.deepEqual(painted(between), ["before at 4", "behind at 304"]);
});

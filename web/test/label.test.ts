import assert from "node:assert/strict";
import { test } from "node:test";
import { Letters } from "../src/drawing/label";

/** Letters that are ten wide, the dots five. */
function measuring(): { asked: string[]; measureText(text: string): TextMetrics } {
  const asked: string[] = [];
  const measureText = (text: string): TextMetrics => {
    asked.push(text);
    return { width: text === "…" ? 5 : 10 } as TextMetrics;
  };
  return { asked, measureText };
}

test("names are cut where the room ends", () => {
  const letters = new Letters("11px x");
  const context = measuring();
  const lines: [number, string][] = [[50, "abcde"], [49, "abcd…"], [45, "abcd…"], [44, "abc…"], [25, "ab…"], [24, ""], [0, ""]];
  for (const [room, expected] of lines) assert.equal(letters.fitted(context, "abcde", room), expected, `${room}`);
  assert.equal(letters.fitted(context, "", 10), "");
});

test("a letter is measured once", () => {
  const letters = new Letters("11px x");
  const context = measuring();
  for (let room = 0; room < 100; room++) letters.fitted(context, "aabba", room);
  assert.deepEqual(context.asked.sort(), ["a", "b", "…"]);
});

import assert from "node:assert/strict";
import { test } from "node:test";
import { decodeSlices } from "../src/server/decode";
import { printable } from "../src/drawing/printable";

test("what cannot be seen is shown as its code, all else stays", () => {
  const lines: [string, string][] = [
    ["aten::mm <T> é 名", "aten::mm <T> é 名"],
    ["safe\u202egnp.exe", "safe\\u{202e}gnp.exe"],
    ["a\u0000b\u001b[31m", "a\\u{0}b\\u{1b}[31m"],
    ["zero\u200bwidth\ufeff", "zero\\u{200b}width\\u{feff}"],
    ["two\nlines\tand a tab", "two\nlines\tand a tab"],
    ["\u2066x\u2069\u061c\u0085", "\\u{2066}x\\u{2069}\\u{61c}\\u{85}"],
  ];
  for (const [text, expected] of lines) {
    assert.equal(printable(text), expected);
    assert.equal(printable(expected), expected, "twice is once");
  }
});

test("names of rectangles come printable", () => {
  const header = new TextEncoder().encode(JSON.stringify({ count: 0, tracks: [], names: { 3: "a\u202eb" }, labels: { 3: "\u202ea" } }));
  const length = Math.ceil((4 + header.length) / 8) * 8 - 4;
  const body = new Uint8Array(4 + length).fill(32);
  body.set(header, 4);
  new DataView(body.buffer).setUint32(0, length, true);
  assert.equal(decodeSlices(body.buffer).names.get(3), "a\\u{202e}b");
  assert.equal(decodeSlices(body.buffer).labels.get(3), "\\u{202e}a");
});

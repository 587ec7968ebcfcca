// The texts are those of crates/write/src/units.rs.
import assert from "node:assert/strict";
import { test } from "node:test";
import { amountText, bytesText, countText, nanosText, numberText, tickText } from "../src/drawing/format";

test("times take the largest unit with a whole part", () => {
  const lines: [number, string][] = [
    [0, "0 ns"],
    [999, "999 ns"],
    [1_000, "1.000 µs"],
    [1_234_567, "1.235 ms"],
    [12_345_678_901, "12.346 s"],
    [-1_500, "-1.500 µs"],
    [999_999, "999.999 µs"],
    [999_999_900, "1.000 s"],
    [8_640_000_000_000_000, "8640000.000 s"],
  ];
  for (const [ns, text] of lines) assert.equal(nanosText(ns), text);
});

test("bytes and counts", () => {
  assert.equal(bytesText(1023), "1023 B");
  assert.equal(bytesText(1536), "1.5 KiB");
  assert.equal(countText(1_234_567), "1,234,567");
  assert.equal(countText(-12), "-12");
  assert.equal(countText(123), "123");
});

test("numbers without a unit are short", () => {
  const lines: [number, string][] = [
    [0, "0"],
    [12, "12"],
    [1_234_567, "1,234,567"],
    [0.5, "0.5"],
    [12.3456, "12.35"],
    [1234.5, "1,235"],
    [0.00001, "1.00e-5"],
  ];
  for (const [value, text] of lines) assert.equal(numberText(value), text);
});

test("an amount takes the text of its unit", () => {
  assert.equal(amountText(1500, "nanos"), "1.500 µs");
  assert.equal(amountText(1536, "bytes"), "1.5 KiB");
  assert.equal(amountText(1500, "count"), "1,500");
  assert.equal(amountText(0.125, "share"), "12.5 %");
});

test("ticks have the digits that distinguish them", () => {
  const lines: [number, number, string][] = [
    [0, 10, "0"],
    [20_000_000, 20_000_000, "20 ms"],
    [1_500_000_000, 500_000_000, "1.5 s"],
    [812_345_670, 10, "812.34567 ms"],
    [5, 1, "5 ns"],
    [-2_000, 1_000, "-2 µs"],
  ];
  for (const [ns, step, text] of lines) assert.equal(tickText(ns, step), text);
});

import assert from "node:assert/strict";
import { test } from "node:test";
import { paired } from "../src/flame/pair";
import type { FlameAnswer } from "../src/server/protocol";

/** A tree as lines: depth by blanks, the name, what the base and the trace spend in it itself. */
type Line = [text: string, base: number, trace: number];

const depthOf = (text: string): number => text.length - text.trimStart().length;

function answer(lines: Line[]): FlameAnswer {
  const parent = lines.map(([text], at) => lines.slice(0, at).findLastIndex(([above]) => depthOf(above) < depthOf(text)));
  const totals = (side: 1 | 2): number[] => {
    const sums = lines.map((line) => line[side]);
    for (let at = lines.length - 1; at > 0; at--) sums[parent[at]!]! += sums[at]!;
    return sums;
  };
  const names = [...new Set(lines.map(([text]) => text.trim()))];
  const [base, trace] = [totals(1), totals(2)];
  return {
    value: "wall", unit: "nanos", total: trace[0]!, dropped: 0, names, parent,
    name: lines.map(([text]) => names.indexOf(text.trim())),
    kind: lines.map(() => 0), weight: trace, self: lines.map((line) => line[2]),
    base: { total: base[0]!, weight: base, self: lines.map((line) => line[1]), steps: [1, 1] },
  };
}

function check(lines: Line[], expected: Line[]): void {
  const before = answer(lines);
  const { names, parent, name, weight, self, base } = paired(before);
  const depth: number[] = [];
  const seen = parent.map((above, at): Line => {
    depth.push(above < 0 ? 0 : depth[above]! + 1);
    const inside = (side: number[]): number => side.reduce((sum, it, child) => (parent[child] === at ? sum + it : sum), 0);
    assert.equal(weight[at], self[at]! + inside(weight), "a node is itself and what it calls");
    assert.equal(base!.weight[at], base!.self[at]! + inside(base!.weight));
    return [" ".repeat(depth[at]!) + names[name[at]!], base!.self[at]!, self[at]!];
  });
  assert.deepEqual(seen, expected);
  assert.equal(weight[0], before.weight[0]);
  assert.equal(base!.weight[0], before.base!.weight[0]);
}

test("what is the same on both sides stays", () => {
  const lines: Line[] = [["all", 0, 0], [" a", 1, 2], ["  b", 3, 3], [" c", 0, 5], [" d", 5, 0]];
  check(lines, lines);
});

test("a frame with another name is found by what it calls", () => {
  check(
    [["all", 0, 0], [" eager", 0, 1], ["  f", 0, 2], ["   g", 0, 3], [" fast", 1, 0], ["  f", 4, 0], ["   h", 5, 0]],
    [["all", 0, 0], [" fast → eager", 1, 1], ["  f", 4, 2], ["   g", 0, 3], ["   h", 5, 0]],
  );
});

test("a frame that was put in between, or taken away, does not hide what is below it", () => {
  check(
    [["all", 0, 0], [" wrapper", 0, 1], ["  f", 0, 2], ["  g", 0, 3], [" f", 4, 0], [" g", 5, 0]],
    [["all", 0, 0], [" wrapper", 0, 1], ["  f", 4, 2], ["  g", 5, 3]],
  );
  check(
    [["all", 0, 0], [" f", 0, 2], [" g", 0, 3], [" wrapper", 1, 0], ["  f", 4, 0], ["  g", 5, 0]],
    [["all", 1, 0], [" f", 4, 2], [" g", 5, 3]],
  );
});

test("frames that call other things are not the same", () => {
  const lines: Line[] = [["all", 0, 0], [" a", 0, 1], ["  x", 0, 9], [" b", 1, 0], ["  y", 9, 0]];
  check(lines, lines);
});

test("several changes below each other are found", () => {
  check(
    [["all", 0, 0], [" b", 0, 0], ["  m2", 0, 1], ["   k", 0, 2], ["  z", 0, 9], [" a", 0, 0], ["  m1", 1, 0], ["   k", 7, 0], ["  z", 9, 0]],
    [["all", 0, 0], [" a → b", 0, 0], ["  m1 → m2", 1, 1], ["   k", 7, 2], ["  z", 9, 9]],
  );
});

test("without a base nothing is paired", () => {
  const { base: _, ...alone } = answer([["all", 0, 0], [" a", 0, 1]]);
  assert.equal(paired(alone), alone);
});

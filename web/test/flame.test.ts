import assert from "node:assert/strict";
import { test } from "node:test";
import { foundShare, framesOf } from "../src/flame/paint";
import { changeOf } from "../src/flame/paint";
import { columnsOf, namesByWeight, sandwichOf, treeOf, type FlameTree } from "../src/flame/tree";
import type { FlameAnswer } from "../src/server/protocol";

// all(10) ─ a(7) ─ b(4) ─ a(2)
//         │      └ c(2)
//         └ b(3) ─ c(1)
const NAMES = ["all", "a", "b", "c"];
const TREE = treeOf({
  names: NAMES,
  parent: [-1, 0, 1, 2, 1, 0, 5],
  name: [0, 1, 2, 1, 3, 2, 3],
  weight: [10, 7, 4, 2, 2, 3, 1],
  self: [0, 1, 2, 2, 2, 2, 1],
  kind: [0, 1, 2, 1, 3, 2, 3],
  other: null,
});

/** "a 7 > b 4": the nodes as paths, for people to compare. */
function paths(tree: FlameTree): string[] {
  const made: string[] = [];
  for (const [node, parent] of tree.parent.entries()) {
    const own = `${tree.names[tree.name[node]!]} ${tree.weight[node]}`;
    made.push(parent < 0 ? own : `${made[parent]} > ${own}`);
  }
  return made;
}

test("children stand side by side within their parent", () => {
  assert.deepEqual(TREE.left, [0, 0, 0, 0, 4, 7, 7]);
  assert.deepEqual(TREE.depth, [0, 1, 2, 3, 2, 1, 2]);
  assert.equal(TREE.deepest, 3);
});

test("a tree that is not in preorder is refused", () => {
  const columns = { names: ["x"], parent: [-1, 2, 0], name: [0, 0, 0], weight: [1, 1, 1], self: [0, 0, 0], kind: [0, 0, 0], other: null };
  assert.throws(() => treeOf(columns), /before its parent/);
});

test("callers of a name, from it outwards", () => {
  const { callers } = sandwichOf(TREE, 2);
  assert.deepEqual(paths(callers), ["b 7", "b 7 > a 4"]);
  assert.equal(callers.self[0], 3);
});

test("callees of a name are merged", () => {
  const { callees } = sandwichOf(TREE, 2);
  assert.deepEqual(paths(callees), ["b 7", "b 7 > a 2", "b 7 > c 1"]);
  assert.equal(callees.self[0], 4);
});

test("recursion counts once", () => {
  const { callers, callees } = sandwichOf(TREE, 1);
  assert.deepEqual(paths(callers), ["a 7"]);
  assert.deepEqual(paths(callees), ["a 7", "a 7 > b 4", "a 7 > b 4 > a 2", "a 7 > c 2"]);
  assert.deepEqual(namesByWeight(TREE).map(({ name, total, self }) => [NAMES[name], total, self]), [
    ["b", 7, 4],
    ["a", 7, 3],
    ["c", 3, 3],
  ]);
});

test("the focused frame fills the width, and what is around it stays", () => {
  const frames = framesOf(TREE, 2, 100).map(({ node, x, w, isAround }) => [node, x, w, isAround]);
  assert.deepEqual(frames, [
    [0, 0, 100, true],
    [1, 0, 100, true],
    [2, 0, 100, false],
    [3, 0, 50, false],
  ]);
});

test("frames too narrow to see are left out", () => {
  assert.deepEqual(framesOf(TREE, 0, 3).map(({ node }) => node), [0, 1, 2, 3, 4, 5]);
});

test("found frames count once where they are nested", () => {
  assert.equal(foundShare(TREE, new Set([1])), 0.7);
  assert.equal(foundShare(TREE, new Set([1, 2])), 1);
  assert.equal(foundShare(TREE, new Set([3])), 0.3);
});

// Of the base: all(8) ─ a(2)
//                     └ b(6); the trace: all(10) ─ a(4)
//                                                └ c(6).
const CHANGE: FlameAnswer = {
  value: "wall", unit: "nanos", total: 10, dropped: 0, names: ["all", "a", "b", "c"],
  parent: [-1, 0, 0, 0], name: [0, 1, 2, 3], kind: [0, 1, 2, 3], weight: [10, 4, 0, 6], self: [0, 4, 0, 6],
  base: { total: 8, weight: [8, 2, 6, 0], self: [0, 2, 6, 0], steps: [1, 1] },
};

test("a change is the same whichever side is the wider one", () => {
  for (const side of ["trace", "base"] as const) {
    const tree = treeOf(columnsOf(CHANGE, side));
    assert.deepEqual([0, 1, 2, 3].map((node) => changeOf(tree, node, side)), [0.2, 0.5, -1, 1], side);
  }
  assert.deepEqual(treeOf(columnsOf(CHANGE, "base")).left, [0, 0, 2, 8]);
});

test("a sandwich of a comparison has both sides", () => {
  const { callers, callees } = sandwichOf(treeOf(columnsOf(CHANGE, "trace")), 1);
  assert.deepEqual([callers.weight[0], callers.other?.[0], callees.other?.[0]], [4, 2, 2]);
  assert.deepEqual(callees.kind, [1]);
});

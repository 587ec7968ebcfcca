// A flame graph's tree as arrays in preorder, and the two trees of a sandwich: who calls a
// name, and what it calls.

import type { FlameAnswer } from "../protocol";

/** Nodes in preorder, the root first; weights of children fit into their parent's. */
export interface FlameTree {
  names: readonly string[];
  parent: readonly number[];
  /** Index into `names`. */
  name: readonly number[];
  weight: readonly number[];
  self: readonly number[];
  depth: number[];
  /** Where a node begins, in weight from the root's beginning. */
  left: number[];
  deepest: number;
}

type Columns = Pick<FlameAnswer, "names" | "parent" | "name" | "weight" | "self">;

export function treeOf(columns: Columns): FlameTree {
  const { names, parent, name, weight, self } = columns;
  const depth: number[] = [];
  const left: number[] = [];
  const filled: number[] = [];
  for (const [node, above] of parent.entries()) {
    if (above >= node) throw new Error(`node ${node} stands before its parent ${above}`);
    depth.push(above < 0 ? 0 : depth[above]! + 1);
    left.push(above < 0 ? 0 : left[above]! + filled[above]!);
    filled.push(0);
    if (above >= 0) filled[above]! += weight[node]!;
  }
  const deepest = depth.reduce((most, it) => Math.max(most, it), 0);
  return { names, parent, name, weight, self, depth, left, deepest };
}

/** A node while trees are merged. */
interface Merged {
  name: number;
  weight: number;
  self: number;
  below: Map<number, Merged>;
}

/** Both trees have the name itself as their root. */
export interface Sandwich {
  callers: FlameTree;
  callees: FlameTree;
}

/** A call within a call of the same name counts once, in the outermost. */
export function sandwichOf(tree: FlameTree, name: number): Sandwich {
  const callers = mergedNode(name);
  const callees = mergedNode(name);
  const inside: (Merged | null)[] = [];
  for (const [node, above] of tree.parent.entries()) {
    const outer = above < 0 ? null : inside[above]!;
    const isOutermost = outer === null && tree.name[node] === name;
    if (isOutermost) {
      addCallers(callers, tree, node);
      callees.weight += tree.weight[node]!;
      callees.self += tree.self[node]!;
    }
    const into = isOutermost ? callees : outer && childOf(outer, tree.name[node]!);
    if (!isOutermost && into !== null) {
      into.weight += tree.weight[node]!;
      into.self += tree.self[node]!;
    }
    inside.push(into);
  }
  return { callers: flattened(callers, tree.names), callees: flattened(callees, tree.names) };
}

function addCallers(root: Merged, tree: FlameTree, node: number): void {
  const weight = tree.weight[node]!;
  root.weight += weight;
  let at = root;
  // The tree's own root stands for everything and calls nothing.
  for (let above = tree.parent[node]!; above > 0; above = tree.parent[above]!) {
    at = childOf(at, tree.name[above]!);
    at.weight += weight;
  }
  at.self += weight;
}

function mergedNode(name: number): Merged {
  return { name, weight: 0, self: 0, below: new Map() };
}

function childOf(node: Merged, name: number): Merged {
  let child = node.below.get(name);
  if (child === undefined) {
    child = mergedNode(name);
    node.below.set(name, child);
  }
  return child;
}

function flattened(root: Merged, names: readonly string[]): FlameTree {
  const columns = {
    names: [...names],
    parent: [] as number[],
    name: [] as number[],
    weight: [] as number[],
    self: [] as number[],
  };
  // A stack of our own: traces may be nested deeper than the engine's.
  const open: [node: Merged, parent: number][] = [[root, -1]];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const [node, parent] = next;
    const here = columns.parent.length;
    columns.parent.push(parent);
    columns.name.push(node.name);
    columns.weight.push(node.weight);
    columns.self.push(node.self);
    const lightestFirst = [...node.below.values()].sort(
      (a, b) => a.weight - b.weight || b.name - a.name,
    );
    for (const child of lightestFirst) open.push([child, here]);
  }
  return treeOf(columns);
}

/** The names with their sums, the heaviest first; recursion counts once. */
export function namesByWeight(tree: FlameTree): { name: number; total: number; self: number }[] {
  const sums = new Map<number, { name: number; total: number; self: number }>();
  for (const [node, name] of tree.name.entries()) {
    if (node === 0) continue;
    const sum = sums.get(name) ?? { name, total: 0, self: 0 };
    sum.self += tree.self[node]!;
    if (!isInsideItself(tree, node)) sum.total += tree.weight[node]!;
    sums.set(name, sum);
  }
  return [...sums.values()].sort((a, b) => b.self - a.self || b.total - a.total || a.name - b.name);
}

function isInsideItself(tree: FlameTree, node: number): boolean {
  for (let above = tree.parent[node]!; above >= 0; above = tree.parent[above]!) {
    if (tree.name[above] === tree.name[node]) return true;
  }
  return false;
}

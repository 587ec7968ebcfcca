// A flame graph's tree as arrays in preorder, and the two trees of a sandwich: who calls a
// name, and what it calls.

import { printable } from "../drawing/printable";
import type { FlameAnswer } from "../server/protocol";

/** Nodes in preorder, the root first; weights of children fit into their parent's. */
export interface FlameTree {
  names: readonly string[];
  parent: readonly number[];
  /** Index into `names`. */
  name: readonly number[];
  weight: readonly number[];
  self: readonly number[];
  /** What each node is, as the server says. */
  kind: readonly number[];
  /** What the other side of a comparison has in each node. */
  other: readonly number[] | null;
  depth: number[];
  /** Where a node begins, in weight from the root's beginning. */
  left: number[];
  deepest: number;
}

export type FlameColumns = Pick<FlameTree, "names" | "parent" | "name" | "weight" | "self" | "kind" | "other">;

/** Which side of a comparison is as wide as the screen. */
export type Side = "trace" | "base";

/** The columns of an answer, with the weights of one side and those of the other beside. */
export function columnsOf(answer: FlameAnswer, side: Side): FlameColumns {
  const { parent, name, kind, weight, self, base } = answer;
  const names = answer.names.map(printable);
  if (base === undefined) return { names, parent, name, kind, weight, self, other: null };
  return side === "trace"
    ? { names, parent, name, kind, weight, self, other: base.weight }
    : { names, parent, name, kind, weight: base.weight, self: base.self, other: weight };
}

export function treeOf(columns: FlameColumns): FlameTree {
  const { names, parent, name, weight, self, kind, other } = columns;
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
  return { names, parent, name, weight, self, kind, other, depth, left, deepest };
}

/** A node while trees are merged. */
interface MergedNode {
  name: number;
  weight: number;
  self: number;
  kind: number;
  other: number;
  below: Map<number, MergedNode>;
}

/** Both trees have the name itself as their root. */
export interface Sandwich {
  callers: FlameTree;
  callees: FlameTree;
}

/** A call within a call of the same name counts once, in the outermost. */
export function sandwichOf(tree: FlameTree, name: number): Sandwich {
  const kind = tree.kind[tree.name.indexOf(name)] ?? 0;
  const callers = mergedNode(name, kind);
  const callees = mergedNode(name, kind);
  const inside: (MergedNode | null)[] = [];
  for (const [node, above] of tree.parent.entries()) {
    const outer = above < 0 ? null : inside[above]!;
    const isOutermost = outer === null && tree.name[node] === name;
    if (isOutermost) {
      addCallers(callers, tree, node);
    }
    const into = isOutermost ? callees : outer && childOf(outer, tree, node);
    if (into !== null) {
      into.weight += tree.weight[node]!;
      into.self += tree.self[node]!;
      into.other += tree.other?.[node] ?? 0;
    }
    inside.push(into);
  }
  return { callers: flattened(callers, tree), callees: flattened(callees, tree) };
}

function addCallers(root: MergedNode, tree: FlameTree, node: number): void {
  const weight = tree.weight[node]!;
  const other = tree.other?.[node] ?? 0;
  root.weight += weight;
  root.other += other;
  let at = root;
  // The tree's own root stands for everything and calls nothing.
  for (let above = tree.parent[node]!; above > 0; above = tree.parent[above]!) {
    at = childOf(at, tree, above);
    at.weight += weight;
    at.other += other;
  }
  at.self += weight;
}

function mergedNode(name: number, kind: number): MergedNode {
  return { name, kind, weight: 0, self: 0, other: 0, below: new Map() };
}

/** The child that is called as a node of the tree. */
function childOf(node: MergedNode, tree: FlameTree, called: number): MergedNode {
  const name = tree.name[called]!;
  let child = node.below.get(name);
  if (child === undefined) {
    child = mergedNode(name, tree.kind[called]!);
    node.below.set(name, child);
  }
  return child;
}

function flattened(root: MergedNode, { names, other }: FlameTree): FlameTree {
  const columns = {
    names,
    parent: [] as number[],
    name: [] as number[],
    weight: [] as number[],
    self: [] as number[],
    kind: [] as number[],
    other: other === null ? null : ([] as number[]),
  };
  // A stack of our own: traces may be nested deeper than the engine's.
  const open: [node: MergedNode, parent: number][] = [[root, -1]];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const [node, parent] = next;
    const here = columns.parent.length;
    columns.parent.push(parent);
    columns.name.push(node.name);
    columns.weight.push(node.weight);
    columns.self.push(node.self);
    columns.kind.push(node.kind);
    columns.other?.push(node.other);
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

// Which stacks of two traces are the same. The server pairs them by all their names, so one
// function that was renamed, put in between or taken away would make everything below it new on
// one side and gone on the other. Here such a frame is found by what it calls: where at least half
// of that (by weight) has the same names on the other side, the two are one.

import type { FlameAnswer } from "../server/protocol";

interface Node {
  name: string;
  kind: number;
  weight: number;
  self: number;
  base: number;
  baseSelf: number;
  children: Node[];
}

/** How much of what two frames call must have the same names. */
const ALIKE_MIN = 0.5;

/** The answer with such stacks made one; what is no comparison stays as it is. */
export function paired(answer: FlameAnswer): FlameAnswer {
  if (answer.base === undefined) return answer;
  const root = nodesOf(answer);
  if (root === undefined) return answer;
  pair(root);
  return answerOf(answer, root);
}

function pair(node: Node): void {
  while (pairOnce(node)) {
    // Each time there is one node less that only one side has.
  }
  for (const child of node.children) if (child.weight > 0 && child.base > 0) pair(child);
}

/** Makes one frame of one side and what it corresponds to one; false where there is none. */
function pairOnce(node: Node): boolean {
  const fresh = node.children.filter(({ weight, base }) => base === 0 && weight > 0);
  const gone = node.children.filter(({ weight, base }) => weight === 0 && base > 0);
  if (fresh.length === 0 || gone.length === 0) return false;
  for (const now of fresh) {
    for (const before of gone) {
      if (!areAlike(now.children, before.children)) continue;
      const name = `${before.name} → ${now.name}`;
      node.children = node.children.filter((child) => child !== before);
      Object.assign(now, { name, base: before.base, baseSelf: before.baseSelf });
      addAll(now, before.children);
      return true;
    }
  }
  // Put in between: it calls what was called from here.
  for (const now of fresh) {
    if (!areAlike(now.children, gone)) continue;
    const called = new Set(now.children.map(({ name }) => name));
    const moved = gone.filter(({ name }) => called.has(name));
    node.children = node.children.filter((child) => !moved.includes(child));
    now.base = moved.reduce((sum, { base }) => sum + base, 0);
    addAll(now, moved);
    return true;
  }
  // Taken away: what it called is called from here.
  for (const before of gone) {
    if (!areAlike(before.children, fresh)) continue;
    node.children = node.children.filter((child) => child !== before);
    node.baseSelf += before.baseSelf;
    addAll(node, before.children);
    return true;
  }
  return false;
}

function areAlike(one: readonly Node[], other: readonly Node[]): boolean {
  return shareIn(one, other) >= ALIKE_MIN && shareIn(other, one) >= ALIKE_MIN;
}

/** What share of the first, by weight, has names that the second has; 0 where there is nothing. */
function shareIn(these: readonly Node[], those: readonly Node[]): number {
  const names = new Set(those.map(({ name }) => name));
  let [all, shared] = [0, 0];
  for (const { name, weight, base } of these) {
    all += weight + base;
    if (names.has(name)) shared += weight + base;
  }
  return all === 0 ? 0 : shared / all;
}

/** Adds nodes to the children of one; those of one name become one, and so below. */
function addAll(parent: Node, added: readonly Node[]): void {
  const known = new Map(parent.children.map((child) => [child.name, child]));
  for (const node of added) {
    const same = known.get(node.name);
    if (same === undefined) {
      parent.children.push(node);
      known.set(node.name, node);
      continue;
    }
    same.weight += node.weight;
    same.self += node.self;
    same.base += node.base;
    same.baseSelf += node.baseSelf;
    addAll(same, node.children);
  }
}

function nodesOf({ names, parent, name, kind, weight, self, base }: FlameAnswer): Node | undefined {
  const nodes = parent.map((_, at): Node => ({
    name: names[name[at]!] ?? "",
    kind: kind[at]!,
    weight: weight[at]!,
    self: self[at]!,
    base: base!.weight[at]!,
    baseSelf: base!.self[at]!,
    children: [],
  }));
  for (const [at, above] of parent.entries()) if (above >= 0) nodes[above]!.children.push(nodes[at]!);
  return nodes[0];
}

/** The tree in preorder. */
function answerOf(answer: FlameAnswer, root: Node): FlameAnswer {
  const base = { ...answer.base!, weight: [] as number[], self: [] as number[] };
  const made = { ...answer, names: [] as string[], parent: [] as number[], name: [] as number[], kind: [] as number[], weight: [] as number[], self: [] as number[], base };
  const numbers = new Map<string, number>();
  const waiting: [node: Node, above: number][] = [[root, -1]];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const [node, above] = next;
    let number = numbers.get(node.name);
    if (number === undefined) {
      number = made.names.push(node.name) - 1;
      numbers.set(node.name, number);
    }
    const at = made.parent.push(above) - 1;
    made.name.push(number);
    made.kind.push(node.kind);
    made.weight.push(node.weight);
    made.self.push(node.self);
    base.weight.push(node.base);
    base.self.push(node.baseSelf);
    for (const child of [...node.children].reverse()) waiting.push([child, at]);
  }
  return made;
}

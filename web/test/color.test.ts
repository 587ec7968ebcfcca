import assert from "node:assert/strict";
import { test } from "node:test";
import { changeColor, changeShare, hashOf, spanColor } from "../src/drawing/color";
import { kindOf, learnKinds } from "../src/drawing/kinds";
import { arrowsOf } from "../src/timeline/painting/arrows";
import type { SpanAnswer } from "../src/server/protocol";

const LIST = ["other", "python", "operator", "annotation", "runtime", "kernel", "sampled"];

test("a name has one color, and names of a kind differ in lightness only", () => {
  learnKinds(LIST);
  assert.equal(spanColor(2, "aten::mm", "light"), spanColor(2, "aten::mm", "light"));
  const hues = new Set(["a", "b", "c", "d"].map((name) => spanColor(2, name, "light").split(" ")[0]));
  assert.equal(hues.size, 1);
  assert.ok(new Set(Array.from({ length: 50 }, (_, at) => hashOf(`name${at}`) % 8)).size === 8);
});

test("names without a kind differ in hue", () => {
  learnKinds(LIST);
  const names = Array.from({ length: 60 }, (_, at) => `function_${at}`);
  const hues = new Set(names.map((name) => spanColor(0, name, "dark").split(" ")[0]));
  assert.equal(hues.size, 8);
  const sampled = names.map((name) => spanColor(LIST.indexOf("sampled"), name, "dark").split(" ")[0]);
  assert.equal(new Set(sampled).size, 8);
});

test("the server's list says what a number means", () => {
  learnKinds(["kernel", "made_up", "communication"]);
  assert.equal(kindOf(0).title, "GPU kernel");
  assert.equal(kindOf(1).title, "made up");
  assert.equal(kindOf(2).title, "communication");
  assert.equal(kindOf(99).title, "other");
  learnKinds(LIST);
});

test("more is red, less is blue, and the same is pale", () => {
  const hue = (share: number): string => changeColor(share, "light").split(" ")[0]!;
  assert.equal(hue(0.1), hue(1));
  assert.notEqual(hue(0.1), hue(-0.1));
  assert.match(changeColor(0, "light"), / 12% 93%\)$/);
  assert.match(changeColor(-1, "light"), / 78% 60%\)$/);
  assert.deepEqual([changeShare(0, 0), changeShare(2, 0), changeShare(0, 3), changeShare(4, 3)], [0, -1, 1, -0.25]);
});

test("arrows lead from cause to effect", () => {
  const place = (span: number): SpanAnswer["launched"]["first"][number] => ({ span, name: "", track: 0, row: 0, start: 0, dur: 1 });
  const answer = {
    ...place(1),
    launched_by: place(2),
    launched: { count: 1, total: 1, first: [place(3)] },
    links: [{ category: "x", to: true, other: place(4) }, { category: "x", to: false, other: place(5) }],
  } as unknown as SpanAnswer;
  const pairs = arrowsOf(answer).map(({ from, to }) => [from.span, to.span]);
  assert.deepEqual(pairs, [[2, 1], [1, 3], [1, 4], [5, 1]]);
});

import assert from "node:assert/strict";
import { test } from "node:test";
import { Grain } from "../src/timeline/grain";

test("slow pictures become coarser, and finer again when there is time", () => {
  const grain = new Grain();
  assert.equal(grain.next, 1);
  for (let frame = 0; frame < 20; frame++) grain.painted(12);
  assert.equal(grain.next, 8);
  for (let frame = 0; frame < 20; frame++) grain.painted(1);
  assert.equal(grain.next, 1);
});

test("what rests is painted finely, once", () => {
  const grain = new Grain();
  grain.painted(12);
  grain.painted(12);
  assert.ok(grain.next > 1);
  assert.equal(grain.rest(), true);
  assert.equal(grain.next, 1);
  grain.painted(30);
  assert.equal(grain.rest(), false, "it is fine already");
  assert.ok(grain.next > 1, "the next move is as coarse as the last");
});

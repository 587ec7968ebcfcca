import assert from "node:assert/strict";
import test from "node:test";
import { placeText } from "../src/panels/observed";

test("a place is a file with its line, as far as they are known", () => {
  assert.equal(placeText("a.c", 12), "a.c:12");
  assert.equal(placeText("a.c", null), "a.c");
  assert.equal(placeText(null, 12), "[unknown file]:12");
});

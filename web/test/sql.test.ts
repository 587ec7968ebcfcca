import assert from "node:assert/strict";
import { test } from "node:test";
import { ordinal } from "../src/panels/details";
import { spanOfRow } from "../src/panels/sql";

test("rows of all traces lead to the trace that has them", () => {
  const traces = [{ id: 0, spans: 3 }, { id: 1, spans: 0 }, { id: 2, spans: 2 }];
  assert.deepEqual(spanOfRow(0, traces), { trace: 0, span: 0 });
  assert.deepEqual(spanOfRow(2, traces), { trace: 0, span: 2 });
  assert.deepEqual(spanOfRow(3, traces), { trace: 2, span: 0 });
  assert.equal(spanOfRow(5, traces), null);
  assert.equal(spanOfRow(-1, traces), null);
});

test("places in a ranking", () => {
  const texts = [1, 2, 3, 4, 11, 12, 13, 21, 101, 112, 1003].map(ordinal);
  assert.deepEqual(texts, ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "101st", "112th", "1,003rd"]);
});

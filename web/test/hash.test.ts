import assert from "node:assert/strict";
import { test } from "node:test";
import { bookmarkOf, hashOf, type Bookmark } from "../src/state/hash";

const USUAL: Bookmark = { panel: "timeline", trace: 0, view: null, selected: null, range: null, search: "" };

test("what is shown comes back from the address", () => {
  const bookmarks: Partial<Bookmark>[] = [
    {},
    { panel: "flame", trace: 3 },
    { view: { from: -50, to: 1_000_000_000_000 }, range: { from: 5, to: 6 } },
    { selected: { trace: 2, span: 17 } },
    { search: "aten::mm & <b>#1</b> + ü%" },
  ];
  for (const part of bookmarks) {
    const bookmark = { ...USUAL, ...part };
    assert.deepEqual(bookmarkOf(hashOf(bookmark)), bookmark);
  }
});

test("an address that makes no sense is as usual", () => {
  for (const hash of ["", "#", "#panel=x&trace=-1&view=9..1&span=a.b&range=1", "#%%%&&=", "#view=1e9..2e9"]) {
    assert.deepEqual(bookmarkOf(hash), USUAL, hash);
  }
});

// Rules for the source itself: names of traces are strangers' text and never markup, files
// stay small, and each says what it is for.
import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { test } from "node:test";

const LINES_MAX = 300;
const MARKUP = /innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment|\beval\(|new Function/;

// `npm test` runs in web/.
const FILES = readdirSync("src", { recursive: true, encoding: "utf8" }).filter((file) => file.endsWith(".ts"));

test("there is source to check", () => {
  assert.ok(FILES.length > 20);
});

test("no file makes markup of text", () => {
  for (const file of FILES) assert.doesNotMatch(readFileSync(`src/${file}`, "utf8"), MARKUP, file);
});

test("files are small and begin with what they are for", () => {
  for (const file of FILES.filter((file) => !file.endsWith(".d.ts"))) {
    const text = readFileSync(`src/${file}`, "utf8");
    assert.match(text, /^\/\/ \S/, file);
    assert.ok(text.split("\n").length <= LINES_MAX + 1, `${file} is longer than ${LINES_MAX} lines`);
  }
});

test("the page itself has no script or style of its own", () => {
  const page = readFileSync("index.html", "utf8");
  assert.doesNotMatch(page, /<style|\sstyle=|<script(?![^>]*\ssrc=)|\son\w+=/);
});

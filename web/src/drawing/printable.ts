// Names in traces are strangers' text. What cannot be seen in it, or turns the letters behind it
// around, is shown as its code, as the command line does (crates/write/src/document/escape.rs). Ends of
// lines stay: the page breaks or skips them.

const HARMFUL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

export function printable(text: string): string {
  return text.replace(HARMFUL, (letter) => `\\u{${letter.charCodeAt(0).toString(16)}}`);
}

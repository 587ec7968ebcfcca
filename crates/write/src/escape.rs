//! Text from strangers, made harmless.
//!
//! Names come from trace files, and a file may hold anything: an escape sequence
//! that rewrites the screen, a carriage return that hides a line, a mark that
//! turns the direction of writing. In text they are shown, not obeyed.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io;

/// The text with control characters and direction marks spelled out.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_harmful) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\n' => safe.push_str("\\n"),
            '\r' => safe.push_str("\\r"),
            '\t' => safe.push_str("\\t"),
            c if is_harmful(c) => {
                // Writing to a string does not fail.
                let _ = write!(safe, "\\u{{{:x}}}", u32::from(c));
            }
            c => safe.push(c),
        }
    }
    Cow::Owned(safe)
}

/// Control characters (C0, DEL, C1), line separators and direction marks.
fn is_harmful(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// Text for an element or an attribute of a page or a picture. Characters that XML
/// forbids are replaced: one of them would make the whole file unreadable.
pub(crate) fn escape_markup(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\t' | '\n' | '\r' => escaped.push(' '),
            '\0'..='\u{1f}' | '\u{7f}' | '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    escaped
}

/// A JSON string. What text output spells out is escaped here too: JSON may well
/// be looked at in a terminal.
pub(crate) fn write_json_string(text: &str, out: &mut dyn io::Write) -> io::Result<()> {
    out.write_all(b"\"")?;
    let mut rest = text;
    while let Some(at) = rest.find(|c| c == '"' || c == '\\' || is_harmful(c)) {
        out.write_all(&rest.as_bytes()[..at])?;
        let mut chars = rest[at..].chars();
        match chars.next() {
            Some(c @ ('"' | '\\')) => write!(out, "\\{c}")?,
            Some('\n') => out.write_all(b"\\n")?,
            Some('\r') => out.write_all(b"\\r")?,
            Some('\t') => out.write_all(b"\\t")?,
            // All of them are in the basic plane: four digits are enough.
            Some(c) => write!(out, "\\u{:04x}", u32::from(c))?,
            None => {}
        }
        rest = chars.as_str();
    }
    out.write_all(rest.as_bytes())?;
    out.write_all(b"\"")
}

/// A field of RFC 4180: quoted where a comma, a quote or a line break asks for it.
pub(crate) fn write_csv_field(text: &str, out: &mut dyn io::Write) -> io::Result<()> {
    if !text.contains([',', '"', '\n', '\r']) {
        return out.write_all(text.as_bytes());
    }
    write!(out, "\"{}\"", text.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, shown: &str, json: &str, csv: &str) {
        let written = |write: fn(&str, &mut dyn io::Write) -> io::Result<()>| {
            let mut out = Vec::new();
            write(text, &mut out).expect("a vector takes everything");
            String::from_utf8(out).expect("text")
        };
        assert_eq!(printable(text), shown);
        assert_eq!(written(write_json_string), json);
        assert_eq!(written(write_csv_field), csv);
    }

    #[test]
    fn plain_text_stays() {
        check("aten::mm µ", "aten::mm µ", "\"aten::mm µ\"", "aten::mm µ");
    }

    #[test]
    fn terminal_escapes_are_spelled_out() {
        check("a\x1b[31mb", "a\\u{1b}[31mb", "\"a\\u001b[31mb\"", "a\x1b[31mb");
        check("\u{9b}2J", "\\u{9b}2J", "\"\\u009b2J\"", "\u{9b}2J");
    }

    #[test]
    fn direction_marks_are_spelled_out() {
        check("a\u{202e}b", "a\\u{202e}b", "\"a\\u202eb\"", "a\u{202e}b");
    }

    #[test]
    fn lines_and_quotes_are_quoted() {
        check("a\n\"b\"", "a\\n\"b\"", "\"a\\n\\\"b\\\"\"", "\"a\n\"\"b\"\"\"");
    }
}

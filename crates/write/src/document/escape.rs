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
/// be read in a terminal.
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

/// A field of RFC 4180 with text in it.
///
/// Spreadsheets take a text that begins like a formula for one, and run it; an apostrophe before it
/// makes it text for them. A text that begins with an apostrophe gets one too, so that taking one
/// away gives the text back. Numbers stay numbers. Control characters are spelled out: a file is
/// read in a terminal sooner or later. Line feeds and tabs stay, within quotes.
pub(crate) fn write_csv_field(text: &str, out: &mut dyn io::Write) -> io::Result<()> {
    let text = printable_in_csv(text);
    let mark = if begins_formula(&text) { "'" } else { "" };
    // Some spreadsheets split at semicolons or tabs, and would find a formula behind one.
    match text.contains([',', ';', '"', '\n', '\t']) {
        false => write!(out, "{mark}{text}"),
        true => write!(out, "\"{mark}{}\"", text.replace('"', "\"\"")),
    }
}

fn begins_formula(text: &str) -> bool {
    text.starts_with(['=', '+', '-', '@', '\t', '\n', '\'', '＝', '＋', '－', '＠'])
        && !is_number(text)
}

/// Digits with what belongs to a number, and nothing that could be a name or a formula.
fn is_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte))
        && text.parse::<f64>().is_ok()
}

fn printable_in_csv(text: &str) -> Cow<'_, str> {
    let is_spelled_out = |c: char| is_harmful(c) && !matches!(c, '\n' | '\t');
    if !text.contains(is_spelled_out) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match is_spelled_out(c) {
            true => safe.push_str(&printable(c.encode_utf8(&mut [0; 4]))),
            false => safe.push(c),
        }
    }
    Cow::Owned(safe)
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
        check("a\x1b[31mb", "a\\u{1b}[31mb", "\"a\\u001b[31mb\"", "a\\u{1b}[31mb");
        check("\u{9b}2J", "\\u{9b}2J", "\"\\u009b2J\"", "\\u{9b}2J");
    }

    #[test]
    fn direction_marks_are_spelled_out() {
        check("a\u{202e}b", "a\\u{202e}b", "\"a\\u202eb\"", "a\\u{202e}b");
    }

    #[test]
    fn lines_and_quotes_are_quoted() {
        check("a\n\"b\"", "a\\n\"b\"", "\"a\\n\\\"b\\\"\"", "\"a\n\"\"b\"\"\"");
    }
    #[track_caller]
    fn check_csv(text: &str, expected: &str) {
        let mut out = Vec::new();
        write_csv_field(text, &mut out).expect("a vector takes everything");
        assert_eq!(String::from_utf8(out).expect("text"), expected);
    }

    #[test]
    fn csv_begins_no_formula() {
        check_csv("=HYPERLINK(\"http://x\")", "\"'=HYPERLINK(\"\"http://x\"\")\"");
        check_csv("+cmd|' /C calc'!A0", "'+cmd|' /C calc'!A0");
        check_csv("-2+3", "'-2+3");
        check_csv("@SUM(1)", "'@SUM(1)");
        check_csv("\t=1", "\"'\t=1\"");
        check_csv("\n=1", "\"'\n=1\"");
        check_csv("\r=1", "\\r=1");
        check_csv("＝1", "'＝1");
        check_csv("-[View draw]", "'-[View draw]");
        check_csv("main;=1", "\"main;=1\"");
        check_csv("a\t=1", "\"a\t=1\"");
    }

    #[test]
    fn an_apostrophe_can_be_taken_away_again() {
        check_csv("'=1", "''=1");
        check_csv("'a", "''a");
        check_csv("it's", "it's");
    }

    #[test]
    fn numbers_stay_numbers_in_csv() {
        check_csv("-5", "-5");
        check_csv("+3.5", "+3.5");
        check_csv("-1e-9", "-1e-9");
        check_csv("-", "'-");
        check_csv("-inf", "'-inf");
        check_csv("--5", "'--5");
    }
}

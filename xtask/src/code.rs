//! Just enough of Rust's syntax for the rules: literals, comments, braces.
//!
//! No parser crate: the rules need to know what is code and where a body ends,
//! which is a page; a full syntax tree would be our heaviest dependency.

/// The same text, byte for byte as long, with comments, strings and characters
/// blanked. Line breaks stay.
pub(crate) fn blank(text: &str) -> String {
    let mut code = text.as_bytes().to_vec();
    let mut at = 0;
    while at < code.len() {
        let is_after_word = at > 0 && is_word(code[at - 1]);
        let len = skipped_len(&text.as_bytes()[at..], is_after_word);
        blank_bytes(&mut code[at..at + len]);
        at += len.max(1);
    }
    String::from_utf8(code).expect("only whole literals and comments are blanked")
}

/// The code without what is compiled for tests only; line breaks stay.
pub(crate) fn without_tests(code: &str) -> String {
    let mut kept = code.as_bytes().to_vec();
    for (at, _) in code.match_indices("#[cfg(test)]") {
        if let Some(end) = body_open(code, at + 12).and_then(|open| body_end(code, open)) {
            blank_bytes(&mut kept[at..end]);
        }
    }
    String::from_utf8(kept).expect("only whole items are blanked")
}

/// The functions with a body: name, first line and number of lines.
pub(crate) fn functions(code: &str) -> Vec<(&str, usize, usize)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        let name_len = code[at + 3..].bytes().take_while(|&byte| is_word(byte)).count();
        if name_len == 0 || (at > 0 && is_word(code.as_bytes()[at - 1])) {
            continue;
        }
        let Some(end) = body_open(code, at).and_then(|open| body_end(code, open)) else { continue };
        let lines = code[at..end].matches('\n').count() + 1;
        found.push((&code[at + 3..at + 3 + name_len], line_of(code, at), lines));
    }
    found
}

/// The number of the line, from 1, on which a byte stands.
pub(crate) fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// Where the body of the function at `at` opens; `None` for a mere declaration.
fn body_open(code: &str, at: usize) -> Option<usize> {
    let mut depth = 0;
    for (offset, byte) in code[at..].bytes().enumerate() {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth -= 1,
            b';' if depth == 0 => return None,
            b'{' if depth == 0 => return Some(at + offset),
            _ => {}
        }
    }
    None
}

/// Just after the brace that closes the one at `open`.
fn body_end(code: &str, open: usize) -> Option<usize> {
    let mut depth = 0;
    for (offset, byte) in code[open..].bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return (offset > 0).then_some(open + offset + 1);
        }
    }
    None
}

/// Length of the comment or literal that begins here; 0 for code.
fn skipped_len(rest: &[u8], is_after_word: bool) -> usize {
    match rest {
        [b'/', b'/', ..] => len_until(rest, b"\n"),
        [b'/', b'*', ..] => len_until(rest, b"*/"),
        [b'"', ..] => string_len(rest),
        [b'r', b'"' | b'#', ..] if !is_after_word => raw_string_len(rest),
        [b'b', b'r', b'"' | b'#', ..] if !is_after_word => 1 + raw_string_len(&rest[1..]),
        [b'\'', ..] => char_len(rest),
        _ => 0,
    }
}

fn len_until(rest: &[u8], end: &[u8]) -> usize {
    rest.windows(end.len()).position(|bytes| bytes == end).map_or(rest.len(), |at| at + end.len())
}

fn string_len(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != b'"' {
        at += if rest[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(rest.len())
}

fn raw_string_len(rest: &[u8]) -> usize {
    let hashes = rest[1..].iter().take_while(|&&b| b == b'#').count();
    if rest.get(1 + hashes) != Some(&b'"') {
        return 0;
    }
    let close = [&b"\""[..], &rest[1..1 + hashes]].concat();
    2 + hashes + len_until(&rest[2 + hashes..], &close)
}

/// A quote opens a character when another follows it closely, else a lifetime.
fn char_len(rest: &[u8]) -> usize {
    let is_quote = |&b: &u8| b == b'\'';
    if rest.get(1) == Some(&b'\\') {
        return rest.iter().skip(3).position(is_quote).map_or(0, |len| len + 4);
    }
    let char_bytes = 1 + rest.iter().skip(2).take_while(|&&b| b & 0xC0 == 0x80).count();
    if rest.get(1 + char_bytes).is_some_and(is_quote) { char_bytes + 2 } else { 0 }
}

fn blank_bytes(bytes: &mut [u8]) {
    bytes.iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
}

fn is_word(byte: u8) -> bool {
    byte == b'_' || byte.is_ascii_alphanumeric() || !byte.is_ascii()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_blank(text: &str, expected: &str) {
        assert_eq!(blank(text), expected);
    }

    #[test]
    fn comments_and_literals_are_blanked() {
        check_blank("a // {\nb", "a     \nb");
        check_blank("a /* } */ b", "a         b");
        check_blank(r#"("\"{", '"', '\'', '{')"#, "(     ,    ,     ,    )");
        check_blank(r##"(r#"{"}"#, br"\")"##, "(        ,      )");
        check_blank("<'a>(x: &'a str)", "<'a>(x: &'a str)");
    }

    #[test]
    fn functions_have_a_name_a_line_and_a_length() {
        let code = "trait T { fn a(x: [u8; 2]); }\nfn b(\n) {\n  if c {}\n}\ntype F = fn(u8);";
        assert_eq!(functions(code), [("b", 2, 4)]);
    }

    #[test]
    fn test_modules_are_left_out() {
        let code = "fn a() {}\n#[cfg(test)]\nmod tests {\n fn b() {}\n}\nfn c() {}";
        let names: Vec<String> =
            functions(&without_tests(code)).iter().map(|f| f.0.to_owned()).collect();
        assert_eq!(names, ["a", "c"]);
    }
}

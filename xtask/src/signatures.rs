//! The rules for names in Rust: parameters have one, and types are nouns.
//!
//! Two values that travel together are a struct with named fields; a tuple pattern in a
//! signature only hides that they are two. Closures are free to take tuples apart.

use crate::{Failure, code, tree::SourceFile};

/// Names of types that do not say what the type is: a question, a participle, or a word that
/// many modules use for something else.
const VAGUE_TYPES: [&str; 15] = [
    "What", "Asked", "Wanted", "Found", "Told", "Kept", "Opened", "Oddities", "Trouble", "Place",
    "Keeper", "Look", "Stretch", "Doing", "Mover",
];

pub(crate) fn check(file: &SourceFile) -> Vec<Failure> {
    let code = code::blank(&file.text);
    let mut failures = Vec::new();
    for (at, name) in tuple_parameters(&code) {
        let what = format!("fn {name} takes a tuple apart in its signature");
        let cure = "name the parameters, or make a struct of values that travel together";
        let place = format!("{}:{}", file.path, code::line_of(&code, at));
        failures.push(Failure::new(place, what, cure));
    }
    for (at, name) in types(&code).filter(|(_, name)| VAGUE_TYPES.contains(name)) {
        let what = format!("type {name} does not say what it is");
        let cure = "name it after the thing: a noun that no other module uses";
        let place = format!("{}:{}", file.path, code::line_of(&code, at));
        failures.push(Failure::new(place, what, cure));
    }
    failures
}

/// Functions with a parameter that is a tuple pattern: where it is, and the function's name.
fn tuple_parameters(code: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (at, name, parameters) in signatures(code) {
        for (offset, parameter) in split(parameters) {
            let pattern = parameter.trim_start().trim_start_matches('&').trim_start();
            // Strategies of proptest, `(a, b) in …`, are no types.
            let is_typed = after_parenthesis(pattern).trim_start().starts_with(':');
            if pattern.starts_with('(') && is_typed {
                found.push((at + offset, name));
            }
        }
    }
    found
}

/// The functions with a name: where their parameters start, their name, the parameters.
fn signatures(code: &str) -> impl Iterator<Item = (usize, &str, &str)> {
    code.match_indices("fn ").filter_map(|(at, _)| {
        let is_word = |c: char| c == '_' || c.is_alphanumeric();
        let is_inside_word = code[..at].ends_with(is_word);
        let rest = &code[at + 3..];
        let name = &rest[..rest.find(|c| !is_word(c))?];
        let open = at + 3 + name.len() + generics_len(&rest[name.len()..]);
        let is_function = !name.is_empty() && !is_inside_word && code[open..].starts_with('(');
        let len = balanced_len(&code[open..]);
        is_function.then(|| (open + 1, name, &code[open + 1..open + len - 1]))
    })
}

/// Length of `<…>` at the start, with what follows it up to the parenthesis.
fn generics_len(text: &str) -> usize {
    let mut depth = 0;
    for (at, pair) in text.as_bytes().windows(2).enumerate() {
        match pair {
            [b'-', b'>'] => {}
            [b'<', _] => depth += 1,
            [b'>', _] if at > 0 && text.as_bytes()[at - 1] != b'-' => depth -= 1,
            [b'(', _] if depth == 0 => return at,
            _ => {}
        }
    }
    0
}

/// Length of the parentheses at the start.
fn balanced_len(text: &str) -> usize {
    let mut depth = 0;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    text.len()
}

fn after_parenthesis(pattern: &str) -> &str {
    &pattern[balanced_len(pattern).min(pattern.len())..]
}

/// Parameters with their offsets: split at commas that are in no parentheses.
fn split(parameters: &str) -> Vec<(usize, &str)> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, byte) in parameters.bytes().enumerate() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth -= 1,
            b',' if depth == 0 => {
                parts.push((start, &parameters[start..at]));
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push((start, &parameters[start..]));
    parts
}

/// The types that are declared, with where.
fn types(code: &str) -> impl Iterator<Item = (usize, &str)> {
    let keywords = ["struct ", "enum ", "trait ", "type "];
    keywords.into_iter().flat_map(move |keyword| {
        code.match_indices(keyword).filter_map(move |(at, _)| {
            let is_word = |c: char| c == '_' || c.is_alphanumeric();
            let name = code[at + keyword.len()..].split(|c| !is_word(c)).next()?;
            (!code[..at].ends_with(is_word)).then_some((at, name))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_text(text: &str, expected: &[&str]) {
        let file = SourceFile { path: "crates/model/src/a.rs".into(), text: text.into() };
        let failures = check(&file);
        assert_eq!(failures.iter().map(|f| f.what.as_str()).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn parameters_are_not_tuple_patterns() {
        let wrong = &["fn a takes a tuple apart in its signature"];
        check_text("fn a((b, c): (u8, u8)) {}", wrong);
        check_text("fn a(\n    &self,\n    &(b, c): &(u8, u8),\n) {}", wrong);
        check_text("fn a<F: Fn(u8) -> (u8, u8)>(b: F, (c, d): G) {}", wrong);
        check_text("fn a(b: (u8, u8), c: impl Fn((u8, u8))) -> (u8, u8) { |(d, e)| d }", &[]);
        check_text("fn a(Pair { b, c }: Pair, [d, e]: [u8; 2]) {}", &[]);
        check_text("fn a((b, c) in strategy()) {}", &[]);
        check_text("type A = fn((u8, u8)); // fn a((b, c): (u8, u8)) {}", &[]);
    }

    #[test]
    fn types_have_nouns_for_names() {
        check_text("pub struct Found;", &["type Found does not say what it is"]);
        check_text("enum Kind { Found } struct Foundation; let found: Found;", &[]);
    }
}

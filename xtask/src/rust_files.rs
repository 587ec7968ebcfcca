//! The rules for a Rust file: size, opening, and what must not stand in it.

use crate::{Failure, code, tree::SourceFile};

const FILE_LINES_MAX: usize = 600;
const FUNCTION_LINES_MAX: usize = 70;
const LINE_CHARS_MAX: usize = 100;

/// Names that say nothing about what is inside.
const DRAWERS: [&str; 4] = ["util", "utils", "helpers", "common"];

/// Code that must not stay, and what to write instead.
const BANNED: [(&str, &str); 3] = [
    ("todo!", "write it, or return an error"),
    ("unimplemented!", "write it, or return an error"),
    ("dbg!", "delete it"),
];

/// Crates that read what others wrote.
const READERS: [&str; 3] = ["crates/read/src/", "crates/recording/src/", "crates/symbols/src/"];

pub(crate) fn check(file: &SourceFile) -> Vec<Failure> {
    let mut failures = Vec::new();
    let mut fail = |line: usize, what: String, cure: &str| {
        failures.push(Failure::new(format!("{}:{line}", file.path), what, cure));
    };
    let all_code = code::blank(&file.text);
    let is_test_file = file.path.ends_with("tests.rs") || file.path.contains("/tests/");
    let code = if is_test_file { String::new() } else { code::without_tests(&all_code) };

    if file.path.split(['/', '.']).any(|part| DRAWERS.contains(&part)) {
        fail(1, "a drawer for anything".into(), "name the file after the thing it holds");
    }
    if !file.text.starts_with("//!") {
        fail(1, "does not say what it is for".into(), "open with `//!`, one to five sentences");
    }
    let lines = file.text.lines().count();
    if lines > FILE_LINES_MAX {
        let cure = "split it: one thing, one file";
        fail(FILE_LINES_MAX, format!("{lines} lines, more than {FILE_LINES_MAX}"), cure);
    }
    for (index, line) in file.text.lines().enumerate() {
        if line.chars().count() > LINE_CHARS_MAX {
            fail(index + 1, format!("longer than {LINE_CHARS_MAX} columns"), "break the line");
        }
    }
    for (name, line, lines) in code::functions(&code) {
        if lines > FUNCTION_LINES_MAX {
            let what = format!("fn {name} has {lines} lines, more than {FUNCTION_LINES_MAX}");
            fail(line, what, "move a part that has a name of its own into a function");
        }
    }
    for (word, cure) in BANNED {
        for (at, _) in all_code.match_indices(word) {
            fail(code::line_of(&all_code, at), format!("`{word}` is banned"), cure);
        }
    }
    for line in unsafe_without_proof(&file.text, &all_code) {
        fail(line, "unsafe without a proof".into(), "say why it is sound in a `// SAFETY:` above");
    }
    if READERS.iter().any(|folder| file.path.starts_with(folder)) {
        for (at, _) in code.match_indices(".unwrap()") {
            let cure =
                "return a ReadError or note a Notice; `expect` with the reason if it is ours";
            fail(code::line_of(&code, at), "unwrap in a reader (I6)".into(), cure);
        }
    }
    failures
}

/// Lines with an unsafe block or impl whose statement has no `// SAFETY:` above it.
fn unsafe_without_proof(text: &str, code: &str) -> Vec<usize> {
    let lines: Vec<&str> = text.lines().collect();
    let is_unsafe = |line: &str| line.contains("unsafe {") || line.contains("unsafe impl");
    let bare = code.lines().enumerate().filter(|(at, line)| {
        is_unsafe(line) && !lines[*at].contains("SAFETY:") && !is_proved(&lines[..*at])
    });
    bare.map(|(at, _)| at + 1).collect()
}

/// Goes up through the statement and the comment above it.
fn is_proved(above: &[&str]) -> bool {
    for line in above.iter().rev().map(|line| line.trim()) {
        match line.starts_with("//") {
            true if line.contains("SAFETY:") => return true,
            true => {}
            false if line.is_empty() || line.ends_with([';', '{', '}']) => return false,
            false => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_text(path: &str, text: &str, expected: &[&str]) {
        let file = SourceFile { path: path.into(), text: text.into() };
        let failures = check(&file);
        assert_eq!(failures.iter().map(|f| f.what.as_str()).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn each_rule_says_what_is_wrong() {
        check_text("a.rs", "//! A.\nfn a() {}\n", &[]);
        check_text("a.rs", "fn a() {}\n", &["does not say what it is for"]);
        check_text("a/utils.rs", "//! A.\n", &["a drawer for anything"]);
        check_text("a.rs", "//! A.\nfn a() { dbg!(1) } // todo!\n", &["`dbg!` is banned"]);
        check_text("a.rs", &format!("//! {}\n", "a".repeat(97)), &["longer than 100 columns"]);
        let long = format!("//! A.\nfn a() {{\n{}}}\n", "b();\n".repeat(69));
        check_text("a.rs", &long, &["fn a has 71 lines, more than 70"]);
    }

    #[test]
    fn readers_do_not_unwrap_but_their_tests_may() {
        let text =
            "//! A.\nfn a() { b().unwrap() }\n#[cfg(test)]\nmod t { fn c() { d.unwrap() } }\n";
        check_text("crates/read/src/a.rs", text, &["unwrap in a reader (I6)"]);
        check_text("crates/read/tests/a.rs", text, &[]);
        check_text("crates/cli/src/a.rs", text, &[]);
    }

    #[test]
    fn unsafe_carries_its_proof() {
        let wrong = &["unsafe without a proof"];
        check_text("a.rs", "//! A.\nlet a = unsafe { b() };\n", wrong);
        check_text("a.rs", "//! A.\n// SAFETY: c.\nlet d = e;\nunsafe { b() };\n", wrong);
        check_text("a.rs", "//! A.\n// SAFETY: c\n// and d.\nlet a =\n    unsafe { b() };\n", &[]);
    }
}

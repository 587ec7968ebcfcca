//! Words that no text of the project holds, each with what to write instead.

use crate::{Failure, code, tree::SourceFile};

/// Written in two halves, so that this file passes too.
const BANNED: [(&str, &str); 5] = [
    (concat!("TO", "DO"), "do it now, or open an issue"),
    (concat!("FIX", "ME"), "fix it now, or open an issue"),
    (concat!("/wo", "rk/"), "a path relative to the root: others have other machines"),
    (concat!("/ro", "ot/"), "a path relative to the root: others have other machines"),
    (concat!("sub", "agent"), "what the text is about; the project speaks of itself alone"),
];

pub(crate) fn check(file: &SourceFile) -> Vec<Failure> {
    let mut failures = Vec::new();
    for (word, instead) in BANNED {
        for (at, _) in file.text.match_indices(word) {
            let before = file.text[..at].chars().next_back();
            // "docs/…/" is a path in the project, not one of a machine.
            if !before.is_some_and(|c| c.is_alphanumeric() || "._-".contains(c)) {
                let place = format!("{}:{}", file.path, code::line_of(&file.text, at));
                let cure = format!("write instead: {instead}");
                failures.push(Failure::new(place, format!("`{word}` is banned"), cure));
            }
        }
    }
    failures
}

#[test]
fn machine_paths_are_found_and_relative_ones_pass() {
    let check_text = |text: String| check(&SourceFile { path: "a.md".into(), text }).len();
    assert_eq!(check_text(format!("see {}main", BANNED[2].0)), 1);
    assert_eq!(check_text(format!("see docs{}main", BANNED[2].0)), 0);
}

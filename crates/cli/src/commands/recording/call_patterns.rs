//! The patterns of `--calls`: which have found a function, and what was perhaps meant by those
//! that have not.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::bail;
use spanwise_capture::WatchedFunction;

use crate::commands::recording::watched_functions::watched;

/// Names that are told at most.
const NEAR_MAX: usize = 5;

pub(in crate::commands) struct CallPatterns<'a> {
    wanted: &'a [String],
    not: &'a [String],
    /// Of each that is wanted, whether it has found something.
    has_found: RefCell<Vec<bool>>,
    files: RefCell<BTreeSet<PathBuf>>,
}

impl<'a> CallPatterns<'a> {
    pub(in crate::commands) fn new(wanted: &'a [String], not: &'a [String]) -> Self {
        let has_found = RefCell::new(vec![false; wanted.len()]);
        CallPatterns { wanted, not, has_found, files: RefCell::default() }
    }

    /// Functions of a file that fit: where they begin and are left, and their names.
    pub(in crate::commands) fn functions_in(&self, path: &Path) -> Vec<WatchedFunction> {
        self.files.borrow_mut().insert(path.to_owned());
        let found = spanwise_symbols::probes_matching(path, self.wanted, self.not);
        if !found.is_empty() {
            let fits = |one: &String| {
                self.wanted.len() == 1
                    || !spanwise_symbols::functions_matching(path, std::slice::from_ref(one), &[])
                        .is_empty()
            };
            for (has_found, one) in self.has_found.borrow_mut().iter_mut().zip(self.wanted) {
                *has_found = *has_found || fits(one);
            }
        }
        found.into_iter().map(watched).collect()
    }

    /// An error where one of them has found nothing.
    pub(in crate::commands) fn check(&self) -> anyhow::Result<()> {
        let has_found = self.has_found.borrow();
        let without = self.wanted.iter().zip(has_found.iter()).find(|(_, has_found)| !**has_found);
        let Some((pattern, _)) = without else { return Ok(()) };
        let (files, all) = (self.files.borrow(), ["*".to_owned()]);
        let functions =
            files.iter().flat_map(|file| spanwise_symbols::functions_matching(file, &all, &[]));
        let names: BTreeSet<String> = functions.map(|(_, name)| name).collect();
        let meant = near(pattern, &names);
        let advice = match meant.is_empty() {
            true => String::new(),
            false => format!("; near it: {}", meant.join(", ")),
        };
        bail!("--calls {pattern}: no function of any file that was mapped fits{advice}")
    }
}

/// Names that are like a pattern: those that hold its longest piece, then those that differ from
/// it by a few letters.
fn near<'a>(pattern: &str, names: &'a BTreeSet<String>) -> Vec<&'a str> {
    let pieces = pattern.split(['*', '?']);
    let piece = pieces.max_by_key(|piece| piece.len()).unwrap_or_default().to_lowercase();
    if piece.is_empty() {
        return Vec::new();
    }
    let differ_max = (piece.chars().count() / 3).max(1);
    let distance = |name: &str| {
        let name = name.to_lowercase();
        let bare = name.split('(').next().unwrap_or(&name);
        // Of a name with a path, the end is what one remembers.
        let last = bare.rsplit("::").next().unwrap_or(bare);
        match bare.contains(&piece) {
            true => Some(0),
            false => Some(differing(&piece, bare).min(differing(&piece, last)))
                .filter(|&count| count <= differ_max),
        }
    };
    let mut found: Vec<(usize, usize, &str)> = names
        .iter()
        .filter_map(|name| distance(name).map(|distance| (distance, name.len(), name.as_str())))
        .collect();
    found.sort_unstable();
    found.into_iter().take(NEAR_MAX).map(|(_, _, name)| name).collect()
}

/// How many letters have to be changed, added or left out to make one text of the other.
fn differing(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (above, a) in one.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], above + 1);
        for (at, &b) in other.iter().enumerate() {
            let changed = diagonal + usize::from(a != b);
            diagonal = row[at + 1];
            row[at + 1] = changed.min(row[at] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_those_that_were_perhaps_meant() {
        let names = ["parse_head", "parse_body(char*)", "Cache::find(int)", "main", "render"];
        let names: BTreeSet<String> = names.map(str::to_owned).into();
        let check = |pattern: &str, expected: &[&str]| {
            assert_eq!(near(pattern, &names), expected, "{pattern}");
        };
        check("parse_haed", &["parse_head"]);
        check("*PARSE*", &["parse_head", "parse_body(char*)"]);
        check("Cache::fined", &["Cache::find(int)"]);
        check("fnd", &["Cache::find(int)"]);
        check("nothing_like_it", &[]);
        check("*", &[]);
    }

    #[test]
    fn letters_that_differ_are_counted() {
        let check = |one, other, count| {
            assert_eq!((differing(one, other), differing(other, one)), (count, count));
        };
        check("", "", 0);
        check("abc", "abc", 0);
        check("abc", "", 3);
        check("kitten", "sitting", 3);
        check("ab", "ba", 2);
    }
}

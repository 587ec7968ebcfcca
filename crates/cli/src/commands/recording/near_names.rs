//! Names of functions near to a pattern of `--calls` that fits none.

use std::collections::BTreeSet;
use std::path::PathBuf;

use spanwise_symbols::FunctionPatterns;

/// Names that are listed at most.
const NEAR_MAX: usize = 5;

/// What to say of a pattern that no function of these files fits.
pub(in crate::commands) fn unmatched_text(pattern: &str, files: &[PathBuf]) -> String {
    let every = FunctionPatterns { wanted: &["*".to_owned()], excluded: &[] };
    let names: BTreeSet<String> = files.iter().flat_map(|file| every.names_in(file)).collect();
    let near = near(pattern, &names);
    let advice = match near.is_empty() {
        true => String::new(),
        false => format!("; near it: {}", near.join(", ")),
    };
    format!("--calls {pattern}: no function of any file that was mapped fits{advice}")
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
    fn near_names_are_those_that_were_perhaps_intended() {
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

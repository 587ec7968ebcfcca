//! Which keys of the two sides are one.
//!
//! Most are where their names are equal. A Python function is also known by the line of
//! its definition, which moves when the file is edited: definitions of one name in one
//! file are paired in the order of their lines, as in a difference of profiles. Stacks that
//! begin in another script are paired by what is inside.

use std::collections::{BTreeMap, BTreeSet};

use crate::compare::changes::sides::series::{
    Aspect, CompareBy, CompareKey, ComparePlace, CompareSeries,
};
use crate::compare::diff::{definition, paired_lines};

/// One row: its key on each side, and what to call it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::compare::changes) struct KeyPair {
    pub(in crate::compare::changes) place: ComparePlace,
    pub(in crate::compare::changes) label: String,
    pub(in crate::compare::changes) names: [Option<String>; 2],
}

impl KeyPair {
    pub(in crate::compare::changes) fn key(&self, side: usize) -> Option<CompareKey> {
        self.names[side].clone().map(|name| (self.place, name))
    }
}

pub(in crate::compare::changes) fn pairs(
    aspect: Aspect,
    sides: [&[CompareSeries]; 2],
) -> Vec<KeyPair> {
    let keys = sides.map(|side| -> BTreeSet<CompareKey> {
        let groups = side.iter().filter_map(|series| series.group(aspect));
        groups.flat_map(|group| group.keys().cloned()).collect()
    });
    let has_lines = aspect == Aspect::Rows(CompareBy::PythonLine);
    let mut rows = Vec::new();
    // By place, file and name: the lines of each side.
    let mut lines: BTreeMap<(ComparePlace, &str, &str), [BTreeSet<i64>; 2]> = BTreeMap::new();
    for key in keys[0].union(&keys[1]) {
        let (place, name) = key;
        match definition(name).filter(|_| has_lines) {
            Some((file, line, function)) => {
                let lines = lines.entry((*place, file, function)).or_default();
                for (side, keys) in keys.iter().enumerate() {
                    lines[side].extend(keys.contains(key).then_some(line));
                }
            }
            None => {
                let names = [0, 1].map(|side| keys[side].contains(key).then(|| name.clone()));
                rows.push(KeyPair { place: *place, label: name.clone(), names });
            }
        }
    }
    for ((place, file, function), [base, other]) in lines {
        let text = |line: i64| format!("{file}({line}): {function}");
        for [base, other] in paired_lines(&base, &other) {
            let label = match (base, other) {
                (Some(base), Some(other)) if base != other => {
                    format!("{file}({base}→{other}): {function}")
                }
                (base, other) => text(other.or(base).unwrap_or(0)),
            };
            rows.push(KeyPair { place, label, names: [base.map(text), other.map(text)] });
        }
    }
    if aspect == Aspect::Rows(CompareBy::Stack) {
        rows = with_other_beginnings(rows);
    }
    rows.sort();
    rows
}

/// Stands between the functions of a stack.
pub(in crate::compare::changes) const INSIDE: &str = "; ";

/// Pairs stacks that only one side has and that differ in their outermost functions alone,
/// such as the script that was run. Those functions are left out that the other side never
/// runs; where the rest is a stack of one row on each side, the two rows are one.
fn with_other_beginnings(rows: Vec<KeyPair>) -> Vec<KeyPair> {
    let functions = [0, 1].map(|side| -> BTreeSet<&str> {
        let stacks = rows.iter().filter_map(|row| row.names[side].as_deref());
        stacks.flat_map(|stack| stack.split(INSIDE)).collect()
    });
    // By place and what is inside: the rows of each side.
    let mut inner: BTreeMap<(ComparePlace, &str), [Vec<usize>; 2]> = BTreeMap::new();
    for (at, row) in rows.iter().enumerate() {
        let (side, stack) = match &row.names {
            [Some(stack), None] => (0, stack),
            [None, Some(stack)] => (1, stack),
            _ => continue,
        };
        if let Some(from) = common_from(stack, &functions[1 - side]) {
            inner.entry((row.place, &stack[from..])).or_default()[side].push(at);
        }
    }
    let pairs: Vec<(KeyPair, [usize; 2])> = inner
        .iter()
        .filter_map(|(&(place, inside), [base, other])| {
            let ([base], [other]) = (base.as_slice(), other.as_slice()) else { return None };
            let names = [rows[*base].names[0].clone(), rows[*other].names[1].clone()];
            let outside = names.each_ref().map(|name| {
                let name = name.as_deref().unwrap_or_default();
                name[..name.len() - inside.len()].trim_end_matches(INSIDE)
            });
            let label = format!("[{} → {}]{INSIDE}{inside}", outside[0], outside[1]);
            Some((KeyPair { place, label, names }, [*base, *other]))
        })
        .collect();
    let gone: BTreeSet<usize> = pairs.iter().flat_map(|(_, rows)| *rows).collect();
    let kept = rows.iter().enumerate().filter(|(at, _)| !gone.contains(at));
    let kept: Vec<KeyPair> = kept.map(|(_, row)| row.clone()).collect();
    kept.into_iter().chain(pairs.into_iter().map(|(pair, _)| pair)).collect()
}

/// Where the outermost function begins that the other side runs too.
fn common_from(stack: &str, others: &BTreeSet<&str>) -> Option<usize> {
    let mut from = 0;
    for function in stack.split(INSIDE) {
        if others.contains(function) {
            return Some(from);
        }
        from += function.len() + INSIDE.len();
    }
    None
}

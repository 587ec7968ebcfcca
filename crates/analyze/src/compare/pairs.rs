//! Which keys of the two sides are one.
//!
//! Most are where their names are equal. A Python function is also known by the line of
//! its definition, which moves when the file is edited: definitions of one name in one
//! file are paired in the order of their lines, as in a difference of profiles.

use std::collections::{BTreeMap, BTreeSet};

use super::series::{Aspect, CompareBy, CompareKey, CompareSeries, Place};
use crate::diff::{definition, paired_lines};

/// One row: its key on each side, and what to call it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct KeyPair {
    pub(super) place: Place,
    pub(super) label: String,
    pub(super) names: [Option<String>; 2],
}

impl KeyPair {
    pub(super) fn key(&self, side: usize) -> Option<CompareKey> {
        self.names[side].clone().map(|name| (self.place, name))
    }
}

pub(super) fn pairs(aspect: Aspect, sides: [&[CompareSeries]; 2]) -> Vec<KeyPair> {
    let keys = sides.map(|side| -> BTreeSet<CompareKey> {
        let groups = side.iter().filter_map(|series| series.group(aspect));
        groups.flat_map(|group| group.keys().cloned()).collect()
    });
    let has_lines = aspect == Aspect::Rows(CompareBy::PythonLine);
    let mut rows = Vec::new();
    // By place, file and name: the lines of each side.
    let mut lines: BTreeMap<(Place, &str, &str), [BTreeSet<i64>; 2]> = BTreeMap::new();
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
    rows.sort();
    rows
}

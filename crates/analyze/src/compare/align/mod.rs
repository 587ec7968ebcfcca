//! Which GPU work of two traces corresponds.
//!
//! Anchored on what both traces say about themselves: steps and their phases,
//! annotations, modules and operators ([`tree`], [`pairing`]). Inside of these, and where
//! a trace has none of them, sequences are aligned ([`sequence`]).

mod middle;
pub(crate) mod pairing;
pub(crate) mod sequence;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod tree;

use std::collections::BTreeMap;

use spanwise_model::SpanId;

use crate::Facts;
use pairing::pair;
use tree::CallTree;

/// All GPU work of two traces, by the innermost step, annotation, module or operator that
/// corresponds; each piece of work is in exactly one group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alignment {
    pub groups: Vec<AlignedGroup>,
    /// Something was too long and too different to be aligned as well as possible.
    pub is_bounded: bool,
}

/// The work of a place that stands in no place inside of it that corresponds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlignedGroup {
    /// From the outside; empty for the whole trace. Modules are named by their class.
    pub path: Vec<String>,
    pub base: Vec<SpanId>,
    pub other: Vec<SpanId>,
}

pub fn alignment(base: &Facts, other: &Facts) -> Alignment {
    let trees = [CallTree::new(base), CallTree::new(other)];
    let groups = pair(&trees[0], &trees[1]);
    let mut by_place: BTreeMap<(usize, usize), [Vec<SpanId>; 2]> = BTreeMap::new();
    for group in &groups.rows {
        let work = by_place.entry(group.place).or_default();
        for (side, work) in work.iter_mut().enumerate() {
            let rows = groups.work_of(group, side).iter();
            work.extend(rows.map(|&row| trees[side].work[row]));
        }
    }
    let groups_of = by_place.into_iter().map(|((place, _), [base, other])| {
        let around = trees[0].around(place).map(|node| node.name.clone());
        let mut path: Vec<String> = around.filter(|name| !name.is_empty()).collect();
        path.reverse();
        AlignedGroup { path, base, other }
    });
    Alignment { groups: groups_of.collect(), is_bounded: groups.is_bounded }
}

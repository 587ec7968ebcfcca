//! Groups of work taken apart into what replaces what.
//!
//! Inside of one operator the kernels of both sides are one replacement, unless they
//! correspond one by one. Elsewhere kernels are aligned, and what is left between two
//! that correspond is a replacement. Work that stands alone joins a neighbor of the same
//! place when a kernel there names it: compilers move work past a matrix product.

use std::collections::{BTreeMap, HashMap};

use super::evidence::{is_whole_attention, named_share};
use super::is_beyond_steps;
use super::items::{Item, Side};
use crate::compare::align::pairing::Groups;
use crate::compare::align::sequence::{Keys, NO_KEY, align};
use crate::compare::align::tree::{NodeKind, ROOT};

/// Work of both sides that does the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Swap {
    /// The innermost pair of nodes around it.
    pub(super) place: (usize, usize),
    /// Rows of the trees' work, ascending.
    pub(super) rows: [Vec<usize>; 2],
    /// All of it is work of one operator, on both sides.
    pub(super) is_operator: bool,
}

pub(super) struct Swaps {
    pub(super) rows: Vec<Swap>,
    pub(super) is_bounded: bool,
}

/// An operator that launches more kernels is a whole part of a model, such as a compiled
/// region.
const OPERATOR_KERNELS_MAX: usize = 8;

pub(super) fn swaps(sides: &[Side<'_>; 2], groups: &Groups) -> Swaps {
    let mut found = Swaps { rows: Vec::new(), is_bounded: groups.is_bounded };
    // Layers repeat, and so do their groups. Looked up only.
    let mut known: HashMap<([Vec<u32>; 2], bool), Vec<Part>> = HashMap::new();
    for group in &groups.rows {
        let rows = [0, 1].map(|side| groups.work_of(group, side));
        let place = group.place;
        let nodes = [place.0, place.1];
        let is_operator = (0..2).all(|side| {
            let kind = sides[side].tree.nodes[nodes[side]].kind;
            kind == NodeKind::Operator && rows[side].len() <= OPERATOR_KERNELS_MAX
        });
        let items = [0, 1].map(|side| {
            rows[side].iter().map(|&row| sides[side].items_of[row]).collect::<Vec<u32>>()
        });
        let key = (items, is_operator);
        if !known.contains_key(&key) {
            let parts = parts(sides, &key.0, is_operator, &mut found.is_bounded);
            known.insert(key.clone(), parts);
        }
        for part in &known[&key] {
            let rows = [0, 1].map(|side| part[side].iter().map(|&at| rows[side][at]).collect());
            found.rows.push(Swap { place, rows, is_operator });
        }
    }
    join_neighbors(sides, &mut found.rows);
    let is_beyond = [0, 1].map(|side| is_beyond_steps(&sides[side], ROOT));
    found.rows = found.rows.into_iter().flat_map(|swap| one_by_one(swap, is_beyond)).collect();
    found
}

/// This many kernels on one side alone, or beside others, are reported as one.
const ALONE_MAX: usize = 32;
const KERNELS_MAX: usize = 512;

/// What is too long to be one replacement, and work of steps without a counterpart, kernel
/// by kernel.
fn one_by_one(swap: Swap, is_beyond: [bool; 2]) -> Vec<Swap> {
    let [base, other] = swap.rows.each_ref().map(Vec::len);
    let is_alone = base == 0 || other == 0;
    let is_unpaired =
        (swap.place.0 == ROOT && is_beyond[0]) || (swap.place.1 == ROOT && is_beyond[1]);
    let most = if is_alone { ALONE_MAX } else { KERNELS_MAX };
    if !(is_alone && is_unpaired) && base.max(other) <= most {
        return vec![swap];
    }
    let Swap { place, rows: [base, other], is_operator } = swap;
    let alone = |rows: [Vec<usize>; 2]| Swap { place, rows, is_operator };
    let base = base.into_iter().map(|row| alone([vec![row], Vec::new()]));
    base.chain(other.into_iter().map(|row| alone([Vec::new(), vec![row]]))).collect()
}

/// Places in the lists of both sides.
pub(super) type Part = [Vec<usize>; 2];

/// Takes two lists of items apart.
pub(super) fn parts(
    sides: &[Side<'_>; 2],
    items: &[Vec<u32>; 2],
    is_operator: bool,
    is_bounded: &mut bool,
) -> Vec<Part> {
    let all = || vec![[0, 1].map(|side| (0..items[side].len()).collect())];
    if items.iter().any(Vec::is_empty) {
        return all();
    }
    let item = |side: usize, number: u32| &sides[side].items[number as usize];
    let keys: [Vec<Keys>; 2] = [0, 1].map(|side| {
        let keys = items[side].iter().map(|&number| item(side, number).keys);
        // Inside of one operator all kernels have it in common.
        keys.map(|keys| if is_operator { [keys[0], NO_KEY, keys[2]] } else { keys }).collect()
    });
    let found = align(&keys[0], &keys[1]);
    *is_bounded |= found.is_bounded;
    let is_same = |&(x, y): &(usize, usize)| keys[0][x][0] == keys[1][y][0];
    let fewest = items[0].len().min(items[1].len());
    let is_one_by_one = found.pairs.len() == items[0].len().max(items[1].len());
    if is_operator && !is_one_by_one {
        let same: Vec<(usize, usize)> = found.pairs.iter().copied().filter(is_same).collect();
        return if same.len() == fewest { between(&same, items) } else { all() };
    }
    between(&found.pairs, items)
}

/// The pairs, and what is left between them.
fn between(pairs: &[(usize, usize)], items: &[Vec<u32>; 2]) -> Vec<Part> {
    let (mut found, mut from) = (Vec::new(), [0, 0]);
    let end = (items[0].len(), items[1].len());
    for (at, &(x, y)) in pairs.iter().chain([&end]).enumerate() {
        if from[0] < x || from[1] < y {
            found.push([(from[0]..x).collect(), (from[1]..y).collect()]);
        }
        if at < pairs.len() {
            found.push([vec![x], vec![y]]);
        }
        from = [x + 1, y + 1];
    }
    found
}

/// This many neighbors to either side are considered.
const NEIGHBOURS: usize = 3;

/// Moves work that stands alone to a neighbor whose kernels name it.
fn join_neighbors(sides: &[Side<'_>; 2], swaps: &mut Vec<Swap>) {
    let mut by_place: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
    for (at, swap) in swaps.iter().enumerate() {
        by_place.entry(swap.place).or_default().push(at);
    }
    for list in by_place.values().filter(|list| list.len() > 1) {
        for at in 0..list.len() {
            let alone = &swaps[list[at]];
            let Some(side) = (0..2).find(|&side| alone.rows[1 - side].is_empty()) else { continue };
            if alone.rows[side].is_empty() {
                continue;
            }
            let near = at.saturating_sub(NEIGHBOURS)..(at + NEIGHBOURS + 1).min(list.len());
            // The best first, then the nearest, then the one before.
            let best = near
                .filter(|&to| to != at)
                .map(|to| (support(sides, alone, &swaps[list[to]], side), to))
                .filter(|&(support, _)| support >= 500)
                .max_by_key(|&(support, to)| {
                    (support, usize::MAX - to.abs_diff(at), usize::MAX - to)
                });
            let Some((_, to)) = best else { continue };
            let moved = std::mem::take(&mut swaps[list[at]].rows[side]);
            let rows = &mut swaps[list[to]].rows[side];
            rows.extend(moved);
            rows.sort_unstable();
        }
    }
    swaps.retain(|swap| !swap.rows.iter().all(Vec::is_empty));
}

/// How much speaks for work of one side alone belonging to a neighbor, in thousandths.
fn support(sides: &[Side<'_>; 2], alone: &Swap, to: &Swap, side: usize) -> usize {
    let items = |side: usize, rows: &[usize]| -> Vec<&Item> {
        rows.iter().map(|&row| sides[side].item(row)).collect()
    };
    let (ours, theirs) = (items(side, &alone.rows[side]), items(1 - side, &to.rows[1 - side]));
    if theirs.is_empty() {
        return 0;
    }
    if is_whole_attention(&theirs, &ours) {
        return 1000;
    }
    // Either their kernels name our work, or ours name what they do.
    named_share(&theirs, &ours).max(named_share(&ours, &theirs))
}

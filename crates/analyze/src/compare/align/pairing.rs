//! Two call trees as one: which nodes correspond, and which work stands where.
//!
//! From the roots down: the children of two corresponding nodes are aligned by name.
//! Where children of both sides remain between two that correspond, a wrapper may be in
//! the way (`aten::linear` around `aten::addmm` on one side only, a module that the
//! compiler has dissolved): such nodes are opened, on one side or on both, and what is
//! inside is aligned. Nodes that hold nothing but work are never opened before the rest.
//!
//! Work that no further pair of nodes holds is a group of the innermost pair around it.
//! Every piece of work of both sides is in exactly one group.

use std::collections::BTreeMap;
use std::ops::Range;

use super::sequence::{Keys, NO_KEY, align};
use super::tree::{CallTree, Child, ROOT};

/// Work of both sides that stands at the same place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Group {
    /// The innermost pair of nodes around it.
    pub(crate) place: (usize, usize),
    /// Rows of [`Groups::work`], of the base and of the other side.
    pub(crate) work: [Range<usize>; 2],
}

/// All groups, in the order of the base and where it has no work, of the other side.
pub(crate) struct Groups {
    pub(crate) rows: Vec<Group>,
    /// Rows of the trees' work, group by group.
    pub(crate) work: [Vec<usize>; 2],
    /// Something was too long to be aligned as well as possible.
    pub(crate) is_bounded: bool,
}

impl Groups {
    pub(crate) fn work_of(&self, group: &Group, side: usize) -> &[usize] {
        &self.work[side][group.work[side].clone()]
    }
}

/// Wrappers inside of wrappers are opened so often before all is.
const OPENED_MAX: usize = 12;

/// So much of the work, in thousandths, must be paired by opening wrappers.
const COVERED_MIN: usize = 500;

pub(crate) fn pair(base: &CallTree, other: &CallTree) -> Groups {
    let mut pairing = Pairing {
        trees: [base, other],
        symbols: symbols([base, other]),
        work_under: [work_under(base), work_under(other)],
        open: vec![Task::Pair((ROOT, ROOT))],
        groups: Vec::new(),
        is_bounded: false,
    };
    while let Some(task) = pairing.open.pop() {
        match task {
            Task::Pair(place) => {
                let children = [0, 1].map(|side| {
                    let node = if side == 0 { place.0 } else { place.1 };
                    pairing.trees[side].nodes[node].children.clone()
                });
                pairing.align_children(place, children, 0);
            }
            Task::Gap { place, between, opened } => pairing.gap(place, between, opened),
        }
    }
    pairing.finish()
}

/// How much work stands inside of each node.
fn work_under(tree: &CallTree) -> Vec<usize> {
    let mut counts = vec![0; tree.nodes.len()];
    for (at, node) in tree.nodes.iter().enumerate().rev() {
        counts[at] += node.children.iter().filter(|child| !is_node(child)).count();
        if let Some(parent) = node.parent {
            counts[parent] += counts[at];
        }
    }
    counts
}

/// What nodes have in common: kind and name, and the kernels of those that hold nothing but
/// work.
type Symbol<'a> = (u8, &'a str, Option<Vec<&'a str>>);

/// For each node the number of its symbol, and of its name alone. Numbers are the same on
/// both sides and follow the names, so that swapping the sides changes nothing.
fn symbols(trees: [&CallTree; 2]) -> [Vec<Keys>; 2] {
    let mut numbers: BTreeMap<Symbol<'_>, u32> = BTreeMap::new();
    for tree in trees {
        for at in 0..tree.nodes.len() {
            let symbol = symbol(tree, at);
            numbers.entry((symbol.0, symbol.1, None)).or_insert(0);
            numbers.entry(symbol).or_insert(0);
        }
    }
    for (number, value) in numbers.values_mut().enumerate() {
        *value = number as u32;
    }
    trees.map(|tree| {
        let keys = |at: usize| {
            let symbol = symbol(tree, at);
            let name = numbers[&(symbol.0, symbol.1, None)];
            [numbers[&symbol], name, NO_KEY]
        };
        (0..tree.nodes.len()).map(keys).collect()
    })
}

fn symbol(tree: &CallTree, at: usize) -> Symbol<'_> {
    let node = &tree.nodes[at];
    let kernel = |child: &Child| match *child {
        Child::Work(row) => Some(tree.kernels[tree.kernel_of_work[row]].as_str()),
        Child::Node(_) => None,
    };
    let kernels = tree.is_leaf(at).then(|| node.children.iter().filter_map(kernel).collect());
    (node.kind as u8, node.name.as_str(), kernels)
}

type Position = (usize, usize);
type Children = [Vec<Child>; 2];

enum Task {
    Pair(Position),
    /// Children of both sides that do not correspond as they are.
    Gap {
        place: Position,
        between: Children,
        opened: usize,
    },
}

struct Pairing<'a> {
    trees: [&'a CallTree; 2],
    /// By node.
    symbols: [Vec<Keys>; 2],
    work_under: [Vec<usize>; 2],
    open: Vec<Task>,
    groups: Vec<(Position, [Vec<usize>; 2])>,
    is_bounded: bool,
}

impl Pairing<'_> {
    /// Pairs children that correspond; what is between them is paired later.
    fn align_children(&mut self, place: Position, children: Children, opened: usize) {
        let pairs = self.aligned(&children);
        let mut from = [0, 0];
        let ends = [(children[0].len(), children[1].len())];
        for (at, (x, y)) in pairs.iter().copied().chain(ends).enumerate() {
            let between = [children[0][from[0]..x].to_vec(), children[1][from[1]..y].to_vec()];
            self.open.push(Task::Gap { place, between, opened });
            let pair = children[0].get(x).zip(children[1].get(y)).filter(|_| at < pairs.len());
            if let Some((&Child::Node(a), &Child::Node(b))) = pair {
                self.open.push(Task::Pair((a, b)));
            }
            from = [x + 1, y + 1];
        }
    }

    fn aligned(&mut self, children: &Children) -> Vec<(usize, usize)> {
        let keys: [Vec<Keys>; 2] = std::array::from_fn(|side| {
            let keys = |child: &Child| match child {
                Child::Node(node) => self.symbols[side][*node],
                Child::Work(_) => [NO_KEY; 3],
            };
            children[side].iter().map(keys).collect()
        });
        let found = align(&keys[0], &keys[1]);
        self.is_bounded |= found.is_bounded;
        found.pairs
    }

    fn gap(&mut self, place: Position, between: Children, opened: usize) {
        if !between.iter().all(|children| children.iter().any(is_node)) {
            return self.collapse(place, between);
        }
        let can_open = |side: usize, children: &[Child]| {
            let tree = self.trees[side];
            children.iter().any(|child| matches!(child, Child::Node(at) if !tree.is_leaf(*at)))
        };
        if !can_open(0, &between[0]) && !can_open(1, &between[1]) {
            return self.collapse(place, between);
        }
        let is_whole = opened >= OPENED_MAX;
        let inside = [0, 1].map(|side| self.opened(side, &between[side], is_whole));
        let is_last = (0..2).all(|side| !can_open(side, &inside[side]));
        let [base, other] = between;
        let one_side = [[inside[0].clone(), other], [base, inside[1].clone()]];
        let covered = one_side.each_ref().map(|children| self.covered(children));
        let chosen = match covered[0].cmp(&covered[1]) {
            std::cmp::Ordering::Greater => Some(0),
            std::cmp::Ordering::Less => Some(1),
            std::cmp::Ordering::Equal => None,
        };
        if let Some(side) = chosen.filter(|&side| covered[side] >= COVERED_MIN) {
            let [base, other] = one_side;
            let children = if side == 0 { base } else { other };
            return self.align_children(place, children, opened + 1);
        }
        // A node that matches a small part of what the other side holds, such as one matrix
        // product out of all that a compiler took along, would tear the rest apart.
        if is_last || self.covered(&inside) >= COVERED_MIN {
            return self.align_children(place, inside, opened + 1);
        }
        self.open.push(Task::Gap { place, between: inside, opened: opened + 1 });
    }

    /// How much of the work an alignment would pair, in thousandths of the side with less.
    fn covered(&mut self, children: &Children) -> usize {
        let pairs = self.aligned(children);
        let under = |side: usize, child: Child| match child {
            Child::Node(node) => self.work_under[side][node],
            Child::Work(_) => 1,
        };
        let all = [0, 1]
            .map(|side| children[side].iter().map(|&child| under(side, child)).sum::<usize>());
        let mut paired = [0, 0];
        for (x, y) in pairs {
            paired[0] += under(0, children[0][x]);
            paired[1] += under(1, children[1][y]);
        }
        (paired[0].min(paired[1]) * 1000).checked_div(all[0].min(all[1])).unwrap_or(0)
    }

    /// Nodes that hold nodes replaced by what they hold; all the way down if asked.
    fn opened(&self, side: usize, children: &[Child], is_whole: bool) -> Vec<Child> {
        let tree = self.trees[side];
        let mut found = Vec::new();
        let mut open: Vec<(Child, bool)> = children.iter().rev().map(|&at| (at, true)).collect();
        while let Some((child, is_opened)) = open.pop() {
            match child {
                Child::Node(node) if is_opened && !tree.is_leaf(node) => {
                    let inside = tree.nodes[node].children.iter().rev();
                    open.extend(inside.map(|&child| (child, is_whole)));
                }
                child => found.push(child),
            }
        }
        found
    }

    /// No more nodes of both sides correspond: all work is of the place itself.
    fn collapse(&mut self, place: Position, between: Children) {
        let work = [0, 1].map(|side| {
            let (tree, mut rows) = (self.trees[side], Vec::new());
            let mut open: Vec<Child> = between[side].iter().rev().copied().collect();
            while let Some(child) = open.pop() {
                match child {
                    Child::Node(node) => open.extend(tree.nodes[node].children.iter().rev()),
                    Child::Work(row) => rows.push(row),
                }
            }
            rows
        });
        if !work.iter().all(Vec::is_empty) {
            self.groups.push((place, work));
        }
    }

    fn finish(mut self) -> Groups {
        in_order(&mut self.groups);
        let mut groups =
            Groups { rows: Vec::new(), work: Default::default(), is_bounded: self.is_bounded };
        for (place, work) in self.groups {
            let ranges = [0, 1].map(|side| {
                let from = groups.work[side].len();
                groups.work[side].extend(&work[side]);
                from..groups.work[side].len()
            });
            groups.rows.push(Group { place, work: ranges });
        }
        groups
    }
}

fn is_node(child: &Child) -> bool {
    matches!(child, Child::Node(_))
}

/// Sorts by the base; groups of the other side alone follow what they follow there.
fn in_order(groups: &mut [(Position, [Vec<usize>; 2])]) {
    let first = |work: &[Vec<usize>; 2], side: usize| work[side].first().copied();
    let both = groups.iter().filter_map(|(_, work)| Some((first(work, 1)?, first(work, 0)?)));
    let base_at: BTreeMap<usize, usize> = both.collect();
    groups.sort_by_cached_key(|(_, work)| match (first(work, 0), first(work, 1)) {
        (Some(row), _) => (Some(row), None),
        (None, other) => {
            let before = base_at.range(..other.unwrap_or(0)).next_back();
            (before.map(|(_, &row)| row), other)
        }
    });
}

//! Equal replacements as one row, with how sure they are.

use std::collections::HashMap;

use super::evidence::{is_whole_attention, named_share};
use super::items::{Item, Side};
use super::split::Swap;
use super::{Confidence, Kernels, Replacement, ReplacementKind, SameKernel, is_beyond_steps};
use crate::TotalNanos;
use crate::compare::align::tree::{CallTree, NOT_RECORDED, NodeKind};

/// This many modules around work are shown, from the inside.
const MODULES_SHOWN: usize = 2;

/// What a row stands for: its place and the items of both sides.
type Key = (ReplacementKind, LayerPosition, [Vec<u32>; 2]);

/// The side whose modules say more, and the innermost node there that holds all the work.
type LayerPosition = (usize, u32);

struct Sum {
    key: Key,
    is_operator: bool,
    /// Where the steps are of different phases, or not known.
    is_unlike: bool,
    count: u64,
    ns: [TotalNanos; 2],
}

/// The kernel, where a replacement is of one kernel by itself.
fn same_name<'a>(sides: &'a [Side<'_>; 2], swap: &Swap) -> Option<&'a str> {
    let ([base], [other]) = (&swap.rows[0][..], &swap.rows[1][..]) else { return None };
    let names = [&sides[0].item(*base).name, &sides[1].item(*other).name];
    (names[0] == names[1]).then_some(names[0].as_str())
}

/// Kernels that stand at the same place on both sides, most time first.
pub(super) fn same(sides: &[Side<'_>; 2], swaps: &[Swap]) -> Vec<SameKernel> {
    let (mut rows, mut numbers) = (Vec::<SameKernel>::new(), HashMap::new());
    for swap in swaps {
        let Some(name) = same_name(sides, swap) else { continue };
        let number = *numbers.entry(name).or_insert_with(|| {
            rows.push(SameKernel { name: name.to_owned(), count: 0, base_ns: 0, other_ns: 0 });
            rows.len() - 1
        });
        let [base_ns, other_ns] = times(sides, swap);
        rows[number].count += 1;
        rows[number].base_ns += base_ns;
        rows[number].other_ns += other_ns;
    }
    rows.sort_by(|a, b| {
        let time = |row: &SameKernel| row.base_ns + row.other_ns;
        (time(b), &a.name).cmp(&(time(a), &b.name))
    });
    rows
}

/// Everything else, what changed the time most first.
pub(super) fn changes(sides: &[Side<'_>; 2], swaps: &[Swap]) -> Vec<Replacement> {
    let places = [0, 1].map(|side| Places::new(&sides[side].tree));
    let beyond = [0, 1].map(|side| is_beyond_steps(&sides[side], 0));
    let (mut sums, mut numbers) = (Vec::<Sum>::new(), HashMap::<Key, usize>::new());
    for swap in swaps.iter().filter(|swap| same_name(sides, swap).is_none()) {
        let is_beyond = [swap.place.0 == 0 && beyond[0], swap.place.1 == 0 && beyond[1]];
        let kind = match kind(sides, &swap.rows) {
            ReplacementKind::OnlyBase if is_beyond[0] => ReplacementKind::UnpairedBase,
            ReplacementKind::OnlyOther if is_beyond[1] => ReplacementKind::UnpairedOther,
            kind => kind,
        };
        let items = [0, 1]
            .map(|side| swap.rows[side].iter().map(|&row| sides[side].items_of[row]).collect());
        let key = (kind, place(sides, &places, swap), items);
        let number = *numbers.entry(key).or_insert_with_key(|key| {
            sums.push(Sum {
                key: key.clone(),
                is_operator: swap.is_operator,
                is_unlike: is_unlike(sides, swap.place),
                count: 0,
                ns: [0, 0],
            });
            sums.len() - 1
        });
        sums[number].count += 1;
        for (sum, ns) in sums[number].ns.iter_mut().zip(times(sides, swap)) {
            *sum += ns;
        }
    }
    let mut rows: Vec<Replacement> =
        sums.iter().map(|sum| replacement(sides, &places, sum)).collect();
    rows.sort_by(|a, b| {
        let size = |row: &Replacement| (row.kind.is_unpaired(), -row.change_ns().abs());
        let names = |row: &Replacement| (row.base.names.clone(), row.other.names.clone());
        (size(a), &a.phase, &a.place)
            .cmp(&(size(b), &b.phase, &b.place))
            .then_with(|| names(a).cmp(&names(b)))
    });
    rows
}

fn times(sides: &[Side<'_>; 2], swap: &Swap) -> [TotalNanos; 2] {
    [0, 1].map(|side| swap.rows[side].iter().map(|&row| sides[side].dur(row)).sum())
}

/// What it is to have these for those. Copies and fills beside kernels do not count: a
/// matrix product that clears its output first is not two.
pub(super) fn kind(sides: &[Side<'_>; 2], rows: &[Vec<usize>; 2]) -> ReplacementKind {
    let counts = [0, 1].map(|side| {
        let kernels = rows[side].iter().filter(|&&row| sides[side].item(row).is_kernel).count();
        if kernels > 0 { kernels } else { rows[side].len() }
    });
    match counts {
        [_, 0] => ReplacementKind::OnlyBase,
        [0, _] => ReplacementKind::OnlyOther,
        [base, other] if base > other => ReplacementKind::Fused,
        [base, other] if base < other => ReplacementKind::Split,
        _ => ReplacementKind::Replaced,
    }
}

/// Whether the steps around a place are of different phases, or the launches unknown.
fn is_unlike(sides: &[Side<'_>; 2], place: (usize, usize)) -> bool {
    let name = |side: usize, node: usize| {
        let tree = &sides[side].tree;
        tree.step_of(node).map(|step| tree.nodes[step].name.as_str())
    };
    let (base, other) = (name(0, place.0), name(1, place.1));
    let is_beyond = is_beyond_steps(&sides[0], place.0) || is_beyond_steps(&sides[1], place.1);
    is_beyond || base != other || base == Some(NOT_RECORDED)
}

/// The innermost node around all rows of the side that names more modules.
fn place(sides: &[Side<'_>; 2], places: &[Places; 2], swap: &Swap) -> LayerPosition {
    let nodes = [0, 1].map(|side| {
        let tree = &sides[side].tree;
        let nodes = swap.rows[side].iter().map(|&row| tree.node_of_work[row]);
        let outer = if side == 0 { swap.place.0 } else { swap.place.1 };
        nodes.reduce(|a, b| places[side].common(tree, a, b)).unwrap_or(outer)
    });
    let modules = [0, 1].map(|side| places[side].modules[nodes[side]]);
    let side = usize::from(modules[1] > modules[0]);
    (side, places[side].label_of[nodes[side]])
}

/// What places are called.
struct Places {
    depth: Vec<u32>,
    /// How many modules are around each node.
    modules: Vec<u32>,
    label_of: Vec<u32>,
    /// Phase and path.
    labels: Vec<(String, String)>,
}

impl Places {
    fn new(tree: &CallTree) -> Self {
        let mut places = Places {
            depth: Vec::new(),
            modules: Vec::new(),
            label_of: Vec::new(),
            labels: Vec::new(),
        };
        let mut numbers: HashMap<(String, String), u32> = HashMap::new();
        for (at, node) in tree.nodes.iter().enumerate() {
            let parent = node.parent;
            let outside = |column: &[u32]| parent.map_or(0, |parent| column[parent]);
            let is_module = u32::from(node.kind == NodeKind::Module);
            places.depth.push(outside(&places.depth) + 1);
            places.modules.push(outside(&places.modules) + is_module);
            let next = numbers.len() as u32;
            let label = label(tree, at);
            let number = *numbers.entry(label).or_insert_with_key(|label| {
                places.labels.push(label.clone());
                next
            });
            places.label_of.push(number);
        }
        places
    }

    fn common(&self, tree: &CallTree, mut a: usize, mut b: usize) -> usize {
        while a != b {
            let inner = if self.depth[a] >= self.depth[b] { &mut a } else { &mut b };
            *inner = tree.nodes[*inner].parent.unwrap_or(0);
        }
        a
    }
}

/// The phase of the step, and the innermost modules with the outermost operator in them.
fn label(tree: &CallTree, node: usize) -> (String, String) {
    let (mut phase, mut modules, mut operator) = (String::new(), Vec::new(), None);
    for around in tree.around(node) {
        match around.kind {
            NodeKind::Step => around.name.clone_into(&mut phase),
            NodeKind::Module if modules.len() < MODULES_SHOWN => modules.push(around.name.as_str()),
            NodeKind::Operator if modules.is_empty() => operator = Some(around.name.as_str()),
            _ => {}
        }
    }
    modules.reverse();
    modules.extend(operator);
    (phase, modules.join("/"))
}

fn replacement(sides: &[Side<'_>; 2], places: &[Places; 2], sum: &Sum) -> Replacement {
    let (kind, (side, label), items) = &sum.key;
    let (phase, place) = places[*side].labels[*label as usize].clone();
    let items = [0, 1].map(|side| -> Vec<&Item> {
        items[side].iter().map(|&item| &sides[side].items[item as usize]).collect()
    });
    Replacement {
        kind: *kind,
        confidence: confidence(&items, sum),
        phase,
        place,
        count: sum.count,
        base: kernels(&items[0], sum.ns[0]),
        other: kernels(&items[1], sum.ns[1]),
    }
}

pub(super) fn kernels(items: &[&Item], total_ns: TotalNanos) -> Kernels {
    Kernels {
        names: items.iter().map(|item| item.name.clone()).collect(),
        operators: items
            .iter()
            .map(|item| item.operators.first().cloned().unwrap_or_default())
            .collect(),
        total_ns,
    }
}

/// High where one operator holds all of it, where names show it, or where attention in parts
/// became one; medium where it keeps happening, or both are of one class; else low, as is
/// all whose launch is not known or whose steps are of different phases.
fn confidence(items: &[Vec<&Item>; 2], sum: &Sum) -> Confidence {
    let [base, other] = items;
    if sum.is_unlike {
        return Confidence::Low;
    }
    if base.is_empty() || other.is_empty() {
        // That work stands on one side alone is known; why is not.
        return if sum.count > 1 { Confidence::Medium } else { Confidence::Low };
    }
    let named = named_share(other, base).max(named_share(base, other));
    let is_attention = is_whole_attention(other, base) || is_whole_attention(base, other);
    if sum.is_operator || is_attention || named >= 750 {
        return Confidence::High;
    }
    let is_one_class = base.iter().chain(other).all(|item| item.class == base[0].class);
    match is_one_class || named >= 400 || sum.count > 3 {
        true => Confidence::Medium,
        false => Confidence::Low,
    }
}

//! GPU work as an alignment sees it: kernel, operators around it, class.

use std::collections::{BTreeMap, HashMap};

use spanwise_model::{SpanKind, StrId, both};

use crate::base::names::unnumbered;
use crate::compare::align::sequence::{Keys, NO_KEY};
use crate::compare::align::tree::{CallTree, NodeKind};
use crate::gpu::classes::Classifier;
use crate::{ClassRules, Facts, TotalNanos};

/// Classes of work that a run does once for each place in the model, whatever the
/// kernels: what is left between two of them belongs together.
const LANDMARKS: [&str; 9] = [
    "gemm",
    "moe gemm",
    "convolution",
    "collective",
    "attention",
    "attention prefill",
    "attention decode",
    "embedding",
    "ssm",
];

/// Work of one trace, in the order of its launch.
pub(super) struct Side<'a> {
    pub(super) facts: &'a Facts,
    pub(super) tree: CallTree,
    /// For each row of the tree's work the number of its item.
    pub(super) items_of: Vec<u32>,
    pub(super) items: Vec<Item>,
}

/// Work of one kernel, in the same operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Item {
    /// The kernel; without the number that a compiler puts behind it.
    pub(super) name: String,
    /// Around the launch, the innermost first, as far as the next module.
    pub(super) operators: Vec<String>,
    pub(super) class: String,
    /// Rather than a copy or a fill.
    pub(super) is_kernel: bool,
    pub(super) keys: Keys,
}

impl<'a> Side<'a> {
    /// The work of two traces.
    pub(super) fn both(base: &'a Facts, other: &'a Facts, rules: &ClassRules) -> [Self; 2] {
        both(|| Side::new(base, rules), || Side::new(other, rules)).into()
    }

    fn new(facts: &'a Facts, rules: &ClassRules) -> Self {
        let tree = CallTree::new(facts);
        let spans = facts.trace().spans();
        let chains = Chains::new(&tree);
        let mut classifier = Classifier::new(facts, rules);
        let mut numbers: HashMap<(StrId, u32, u32), u32> = HashMap::new();
        // Names that differ by the number of a compiler are one.
        let mut same: HashMap<(String, u32, u32), u32> = HashMap::new();
        let (mut items, mut items_of) = (Vec::new(), Vec::with_capacity(tree.work.len()));
        for (&work, &node) in tree.work.iter().zip(&tree.node_of_work) {
            let name = facts.names().merged(spans.name(work));
            let (chain, class) = (chains.of_node[node], classifier.class(work));
            let number = numbers.entry((name, chain, class)).or_insert_with(|| {
                let text = unnumbered(&facts.names().text(name)).to_owned();
                *same.entry((text, chain, class)).or_insert_with_key(|(text, ..)| {
                    items.push(Item {
                        name: text.clone(),
                        operators: chains.operators(chain),
                        class: classifier.classes[class as usize].clone(),
                        is_kernel: facts.trace().kind(work) == SpanKind::Kernel,
                        keys: [NO_KEY; 3],
                    });
                    items.len() as u32 - 1
                })
            });
            items_of.push(*number);
        }
        Side { facts, tree, items_of, items }
    }

    pub(super) fn item(&self, row: usize) -> &Item {
        &self.items[self.items_of[row] as usize]
    }

    pub(super) fn dur(&self, row: usize) -> TotalNanos {
        i128::from(self.facts.trace().spans().dur(self.tree.work[row]))
    }
}

/// Gives items of both sides the keys by which they are aligned: kernel and operator,
/// operator alone, and class where that is a landmark. Numbers follow the names, so that
/// they do not depend on which side comes first.
pub(super) fn number(sides: &mut [Side<'_>; 2]) {
    type Key = (u8, String, String);
    let keys = |item: &Item| -> [Option<Key>; 3] {
        let operator = item.operators.first().cloned().unwrap_or_default();
        let is_landmark = LANDMARKS.contains(&item.class.as_str());
        [
            Some((0, item.name.clone(), operator.clone())),
            (!operator.is_empty()).then_some((1, operator, String::new())),
            is_landmark.then_some((2, item.class.clone(), String::new())),
        ]
    };
    let mut numbers: BTreeMap<Key, u32> = BTreeMap::new();
    for item in sides.iter().flat_map(|side| &side.items) {
        numbers.extend(keys(item).into_iter().flatten().map(|key| (key, 0)));
    }
    for (number, value) in numbers.values_mut().enumerate() {
        *value = number as u32;
    }
    for item in sides.iter_mut().flat_map(|side| &mut side.items) {
        item.keys = keys(item).map(|key| key.map_or(NO_KEY, |key| numbers[&key]));
    }
}

/// The operators around each node, up to the next module, annotation or step.
struct Chains {
    of_node: Vec<u32>,
    /// The chain around and the operator.
    rows: Vec<(u32, String)>,
}

/// No operator.
const NO_CHAIN: u32 = u32::MAX;

impl Chains {
    fn new(tree: &CallTree) -> Self {
        let mut chains = Chains { of_node: Vec::with_capacity(tree.nodes.len()), rows: Vec::new() };
        let mut numbers: HashMap<(u32, &str), u32> = HashMap::new();
        for node in &tree.nodes {
            let chain = match (node.kind, node.parent) {
                (NodeKind::Operator, Some(parent)) => {
                    let around = chains.of_node[parent];
                    *numbers.entry((around, &node.name)).or_insert_with(|| {
                        chains.rows.push((around, node.name.clone()));
                        chains.rows.len() as u32 - 1
                    })
                }
                _ => NO_CHAIN,
            };
            chains.of_node.push(chain);
        }
        chains
    }

    fn operators(&self, chain: u32) -> Vec<String> {
        let inside = Some(chain).filter(|&chain| chain != NO_CHAIN);
        let chains = std::iter::successors(inside, |&chain| {
            Some(self.rows[chain as usize].0).filter(|&around| around != NO_CHAIN)
        });
        chains.map(|chain| self.rows[chain as usize].1.clone()).collect()
    }
}

//! The layers of two models side by side, and what a layer runs, kernel by kernel.
//!
//! One step is compared: of the side whose modules name its layers the one that launched
//! most work, and its counterpart. A side without modules, such as a compiled model, has
//! the layers of the other by what replaces what. Where neither side has modules, layers
//! are what repeats, on each side by itself. Layers are paired by number.

use std::collections::HashMap;

use super::items::{Side, number};
use super::rows::{kernels, kind};
use super::split::{Swap, parts, swaps};
use super::{Kernels, ReplacementKind};
use crate::compare::align::pairing::pair;
use crate::training::layers::{LayeredStep, layered_step};
use crate::{ClassRules, Facts, LayersFrom, TotalNanos};

/// Layers of two traces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerView {
    pub base: LayerSide,
    pub other: LayerSide,
    pub rows: Vec<LayerPair>,
    /// What layers run, in the order of the first that does; equal ones are one row.
    pub kernels: Vec<LayerKernels>,
    /// Something was too long and too different to be aligned as well as possible.
    pub is_bounded: bool,
}

/// Where the layers of one side are from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerSide {
    /// `None` where its work was aligned with the layers of the other side.
    pub found: Option<LayersFrom>,
    /// The step that was compared; empty for the whole recording.
    pub step: String,
    pub layers: u64,
}

/// A layer of both sides, or of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerPair {
    pub number: u64,
    /// As each side names it; `None` where it does not.
    pub names: [Option<String>; 2],
    pub kernels: [u64; 2],
    pub gpu_ns: [TotalNanos; 2],
}

impl LayerPair {
    pub fn change_ns(&self) -> TotalNanos {
        self.gpu_ns[1] - self.gpu_ns[0]
    }
}

/// Kernels of a layer and those that do their work in the other's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerKernels {
    /// `None` for the same kernel on both sides.
    pub kind: Option<ReplacementKind>,
    /// In so many layers, or more often where a layer runs it more than once.
    pub count: u64,
    pub base: Kernels,
    pub other: Kernels,
}

pub fn layer_view(base: &Facts, other: &Facts, rules: &ClassRules) -> LayerView {
    let steps = [layered_step(base), layered_step(other)];
    let mut sides = Side::both(base, other, rules);
    number(&mut sides);
    let has_modules = steps
        .each_ref()
        .map(|step| matches!(step, Some(LayeredStep { found: LayersFrom::Modules { .. }, .. })));
    let mut view = Viewing::new(&sides, &steps);
    match has_modules.iter().position(|&has| has) {
        Some(reference) => view.by_modules(reference, has_modules),
        None => view.by_repetition(),
    }
    view.finish(has_modules)
}

struct Viewing<'a, 'f> {
    sides: &'a [Side<'f>; 2],
    steps: &'a [Option<LayeredStep>; 2],
    /// By number, then by side: kernels and their time.
    layers: Vec<[(u64, TotalNanos); 2]>,
    kernels: Vec<LayerKernels>,
    /// Looked up only.
    numbers: HashMap<[Vec<u32>; 2], usize>,
    step_names: [String; 2],
    is_bounded: bool,
}

impl<'a, 'f> Viewing<'a, 'f> {
    fn new(sides: &'a [Side<'f>; 2], steps: &'a [Option<LayeredStep>; 2]) -> Self {
        let name = |step: &Option<LayeredStep>| {
            step.as_ref().map_or_else(String::new, |step| step.step.clone())
        };
        Viewing {
            sides,
            steps,
            layers: Vec::new(),
            kernels: Vec::new(),
            numbers: HashMap::new(),
            step_names: steps.each_ref().map(name),
            is_bounded: false,
        }
    }

    /// The layer that a row of a side's tree is known to belong to.
    fn layer_of(&self, side: usize, row: usize) -> Option<usize> {
        let work = self.sides[side].tree.work[row];
        self.steps[side].as_ref()?.layer_of.get(&work).copied()
    }

    fn by_modules(&mut self, reference: usize, has_modules: [bool; 2]) {
        let groups = pair(&self.sides[0].tree, &self.sides[1].tree);
        let found = swaps(self.sides, &groups);
        self.is_bounded = found.is_bounded;
        let tree = &self.sides[reference].tree;
        let Some(step) = &self.steps[reference] else { return };
        let in_step: std::collections::HashSet<_> = step.work.iter().copied().collect();
        let is_first = |row: &usize| in_step.contains(&tree.work[*row]);
        let first = (0..tree.work.len()).find(is_first);
        let wanted = first.and_then(|row| tree.step_of(tree.node_of_work[row]));
        let is_wanted = |swap: &&Swap| {
            let node = if reference == 0 { swap.place.0 } else { swap.place.1 };
            tree.step_of(node) == wanted
        };
        let mut last = None;
        for swap in found.rows.iter().filter(is_wanted) {
            let known = swap.rows[reference].first().map(|&row| self.layer_of(reference, row));
            // Work of the other side alone belongs to the layer that it follows.
            last = known.unwrap_or(last);
            let layers = [0, 1].map(|side| match swap.rows[side].first() {
                Some(&row) if has_modules[side] => self.layer_of(side, row),
                Some(_) => last,
                None => None,
            });
            self.add(swap, layers);
        }
        let other = 1 - reference;
        let swap = found.rows.iter().find(is_wanted);
        self.step_names[other] = swap.map_or_else(String::new, |swap| {
            let node = if other == 0 { swap.place.0 } else { swap.place.1 };
            let tree = &self.sides[other].tree;
            tree.step_of(node).map_or_else(String::new, |step| tree.nodes[step].name.clone())
        });
        self.step_names[reference] =
            wanted.map_or_else(String::new, |step| tree.nodes[step].name.clone());
    }

    /// Each layer of one side is aligned with that of the same number.
    fn by_repetition(&mut self) {
        let rows = [0, 1].map(|side| {
            let mut rows: Vec<Vec<usize>> = Vec::new();
            for row in 0..self.sides[side].tree.work.len() {
                if let Some(layer) = self.layer_of(side, row) {
                    rows.resize(rows.len().max(layer + 1), Vec::new());
                    rows[layer].push(row);
                }
            }
            rows
        });
        for layer in 0..rows[0].len().max(rows[1].len()) {
            let none = Vec::new();
            let rows = [0, 1].map(|side| rows[side].get(layer).unwrap_or(&none));
            let items = [0, 1].map(|side| -> Vec<u32> {
                rows[side].iter().map(|&row| self.sides[side].items_of[row]).collect()
            });
            for part in parts(self.sides, &items, false, &mut self.is_bounded) {
                let rows = [0, 1].map(|side| part[side].iter().map(|&at| rows[side][at]).collect());
                self.add(&Swap { place: (0, 0), rows, is_operator: false }, [Some(layer); 2]);
            }
        }
    }

    /// Counts work of layers; what is in none is left out.
    fn add(&mut self, swap: &Swap, layers: [Option<usize>; 2]) {
        let ns = [0, 1].map(|side| -> TotalNanos {
            swap.rows[side].iter().map(|&row| self.sides[side].dur(row)).sum()
        });
        for side in 0..2 {
            let Some(layer) = layers[side].filter(|_| !swap.rows[side].is_empty()) else {
                continue;
            };
            self.layers.resize(self.layers.len().max(layer + 1), Default::default());
            let (kernels, time) = &mut self.layers[layer][side];
            *kernels += swap.rows[side].len() as u64;
            *time += ns[side];
        }
        if layers == [None, None] {
            return;
        }
        let key = [0, 1].map(|side| -> Vec<u32> {
            swap.rows[side].iter().map(|&row| self.sides[side].items_of[row]).collect()
        });
        let (sides, kernels) = (self.sides, &mut self.kernels);
        let row = *self.numbers.entry(key).or_insert_with_key(|key| {
            kernels.push(new_row(sides, key, kind(sides, &swap.rows)));
            kernels.len() - 1
        });
        self.kernels[row].count += 1;
        self.kernels[row].base.total_ns += ns[0];
        self.kernels[row].other.total_ns += ns[1];
    }

    fn finish(self, has_modules: [bool; 2]) -> LayerView {
        let is_aligned = has_modules.contains(&true);
        let name = |side: usize, number: usize| -> Option<String> {
            // Names of what repeats are those of kernels, which the other side's modules beat.
            let own = has_modules[side] || !is_aligned;
            self.steps[side].as_ref().filter(|_| own)?.names.get(number).cloned()
        };
        let rows = self.layers.iter().enumerate().map(|(number, sums)| LayerPair {
            number: number as u64,
            names: [0, 1].map(|side| name(side, number)),
            kernels: sums.map(|(kernels, _)| kernels),
            gpu_ns: sums.map(|(_, ns)| ns),
        });
        let side = |side: usize| LayerSide {
            found: match &self.steps[side] {
                _ if is_aligned && !has_modules[side] => None,
                Some(step) => Some(step.found.clone()),
                None => Some(LayersFrom::Nothing),
            },
            step: self.step_names[side].clone(),
            layers: self.layers.iter().filter(|sums| sums[side].0 > 0).count() as u64,
        };
        let (base, other) = (side(0), side(1));
        LayerView {
            base,
            other,
            rows: rows.collect(),
            kernels: self.kernels,
            is_bounded: self.is_bounded,
        }
    }
}

fn new_row(sides: &[Side<'_>; 2], items: &[Vec<u32>; 2], kind: ReplacementKind) -> LayerKernels {
    let [base, other] = [0, 1].map(|side| {
        let items = items[side].iter().map(|&item| &sides[side].items[item as usize]);
        kernels(&items.collect::<Vec<_>>(), 0)
    });
    let kind = Some(kind).filter(|_| base.names != other.names);
    LayerKernels { kind, count: 0, base, other }
}

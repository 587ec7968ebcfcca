//! The layers of a model: from its modules, else from repetition in what it launches.
//!
//! A model runs the same layer many times. With Python frames the layers are the
//! largest group of sibling modules of one class. Without them the kernels of a step
//! repeat: the shortest period that explains most of them is taken for a layer, and
//! how much it explains is reported, since two alternating layers resemble one.

use std::collections::{BTreeMap, HashMap};

use spanwise_model::{Nanos, SpanId, StrId};

use crate::base::names::unnumbered;
use crate::gpu::usage::gpu_work;
use crate::training::modules::{ModuleTree, class_of};
use crate::training::steps::Steps;
use crate::{Facts, TotalNanos};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerUse {
    pub found: LayersFrom,
    pub rows: Vec<LayerRow>,
    /// All GPU work of the trace, or of the step that was analyzed.
    pub work_ns: TotalNanos,
}

/// How the layers are known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LayersFrom {
    Nothing,
    /// Instances of a class of modules.
    Modules {
        class: String,
    },
    /// A sequence of kernels that a step repeats.
    Repetition {
        /// The step it was found in; empty for the whole recording.
        step: String,
        kernels: usize,
        repeats: usize,
        /// Kernels of the step that are part of it, and all of them.
        covered: usize,
        all: usize,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerRow {
    pub number: u64,
    /// The module, or the first kernel of the sequence.
    pub name: String,
    /// How often it ran.
    pub calls: u64,
    /// Unknown without Python frames.
    pub host_ns: Option<TotalNanos>,
    pub gpu_ns: TotalNanos,
    pub backward_ns: TotalNanos,
    pub launches: u64,
}

/// So many kernels of a step are searched for a period; finding it costs the square.
const KERNELS_MAX: usize = 8192;

pub fn layer_use(facts: &Facts) -> LayerUse {
    by_modules(facts).or_else(|| by_repetition(facts)).unwrap_or(LayerUse {
        found: LayersFrom::Nothing,
        rows: Vec::new(),
        work_ns: 0,
    })
}

fn by_modules(facts: &Facts) -> Option<LayerUse> {
    let tree = ModuleTree::new(facts);
    let (class, group) = layer_nodes(facts, &tree)?;
    let row = |(number, &at): (usize, &usize)| {
        let node = &tree.nodes[at];
        LayerRow {
            number: number as u64,
            name: module_name(facts, &tree, at),
            calls: node.calls,
            host_ns: Some(node.host_ns),
            gpu_ns: node.gpu.work_ns,
            backward_ns: node.gpu.backward_ns,
            launches: node.gpu.launches,
        }
    };
    Some(LayerUse {
        found: LayersFrom::Modules { class },
        rows: group.iter().enumerate().map(row).collect(),
        work_ns: facts.gpu().work_ns,
    })
}

/// The largest group of sibling modules of one class: the class, and the nodes in order.
pub(crate) fn layer_nodes(facts: &Facts, tree: &ModuleTree) -> Option<(String, Vec<usize>)> {
    let text = |at: usize| facts.trace().strings().get(tree.nodes[at].name);
    let mut groups: BTreeMap<(Option<usize>, &str), Vec<usize>> = BTreeMap::new();
    for (at, node) in tree.nodes.iter().enumerate() {
        groups.entry((node.parent, class_of(text(at)))).or_default().push(at);
    }
    let rank = |group: &Vec<usize>| -> (TotalNanos, TotalNanos) {
        let gpu = group.iter().map(|&at| tree.nodes[at].gpu.work_ns).sum();
        (gpu, group.iter().map(|&at| tree.nodes[at].host_ns).sum())
    };
    let several = groups.iter().filter(|(_, group)| group.len() > 1);
    // Of equals the outermost, which comes first.
    let ((_, class), group) = several.rev().max_by_key(|(_, group)| rank(group))?;
    Some(((*class).to_owned(), group.clone()))
}

fn module_name(facts: &Facts, tree: &ModuleTree, at: usize) -> String {
    let text = facts.trace().strings().get(tree.nodes[at].name);
    text.trim_start_matches("nn.Module: ").to_owned()
}

/// The layers of [`layer_use`] with the work of one step, that which launched most.
pub(crate) struct LayeredStep {
    pub(crate) found: LayersFrom,
    /// The step; empty for the whole recording.
    pub(crate) step: String,
    /// All of its work, in order of launch.
    pub(crate) work: Vec<SpanId>,
    pub(crate) names: Vec<String>,
    /// By work, of other steps too where modules show it.
    pub(crate) layer_of: HashMap<SpanId, usize>,
}

pub(crate) fn layered_step(facts: &Facts) -> Option<LayeredStep> {
    let tree = ModuleTree::new(facts);
    let (step, work) = busiest_step(facts);
    let Some((class, group)) = layer_nodes(facts, &tree) else {
        let (found, layers) = repeated(facts, &step, &work)?;
        let (mut names, mut layer_of) = (Vec::new(), HashMap::new());
        for (number, layer) in layers.enumerate() {
            names.push(kernel_text(facts, layer[0]));
            layer_of.extend(layer.iter().map(|&work| (work, number)));
        }
        return Some(LayeredStep { found, step, names, layer_of, work });
    };
    let mut of_node = vec![None; tree.nodes.len()];
    for (number, &at) in group.iter().enumerate() {
        of_node[at] = Some(number);
    }
    // A parent stands before its children.
    for at in 0..tree.nodes.len() {
        let around = tree.nodes[at].parent.and_then(|parent| of_node[parent]);
        of_node[at] = of_node[at].or(around);
    }
    let names = group.iter().map(|&at| module_name(facts, &tree, at)).collect();
    let layers = tree.node_of_work.iter().filter_map(|&(work, node)| Some((work, of_node[node]?)));
    let layer_of = layers.collect();
    Some(LayeredStep { found: LayersFrom::Modules { class }, step, work, names, layer_of })
}

/// The kernels of the step that launched most work, in order of launch.
fn busiest_step(facts: &Facts) -> (String, Vec<SpanId>) {
    let (trace, spans) = (facts.trace(), facts.trace().spans());
    let steps = Steps::new(trace);
    let mut by_step: BTreeMap<Option<usize>, Vec<SpanId>> = BTreeMap::new();
    for work in gpu_work(trace) {
        let call = spans.launch(work);
        let step = call.and_then(|call| steps.row_at(spans.start(call)));
        if step.is_some() || steps.rows().is_empty() {
            by_step.entry(step).or_default().push(work);
        }
    }
    let total = |list: &[SpanId]| -> TotalNanos {
        list.iter().map(|&work| i128::from(spans.dur(work))).sum()
    };
    let most = by_step.into_iter().rev().max_by_key(|(_, list)| total(list));
    let Some((step, mut work)) = most else { return (String::new(), Vec::new()) };
    let launched = |work: SpanId| -> (Nanos, Nanos) {
        let start = spans.start(work);
        (spans.launch(work).map_or(start, |call| spans.start(call)), start)
    };
    work.sort_by_key(|&work| (launched(work), work));
    let name = step.map(|row| trace.name(steps.rows()[row].span).to_owned());
    (name.unwrap_or_default(), work)
}

fn kernel_text(facts: &Facts, work: SpanId) -> String {
    let name = facts.names().merged(facts.trace().spans().name(work));
    facts.names().text(name).into_owned()
}

fn by_repetition(facts: &Facts) -> Option<LayerUse> {
    let (step, work) = busiest_step(facts);
    let spans = facts.trace().spans();
    let (found, layers) = repeated(facts, &step, &work)?;
    let sum = |list: &[SpanId]| -> TotalNanos {
        list.iter().map(|&work| i128::from(spans.dur(work))).sum()
    };
    let row = |(number, layer): (usize, &[SpanId])| LayerRow {
        number: number as u64,
        name: kernel_text(facts, layer[0]),
        calls: 1,
        host_ns: None,
        gpu_ns: sum(layer),
        backward_ns: 0,
        launches: layer.len() as u64,
    };
    Some(LayerUse { rows: layers.enumerate().map(row).collect(), work_ns: sum(&work), found })
}

/// The part of a step that repeats, one repetition after the other.
fn repeated<'a>(
    facts: &Facts,
    step: &str,
    work: &'a [SpanId],
) -> Option<(LayersFrom, impl Iterator<Item = &'a [SpanId]>)> {
    let spans = facts.trace().spans();
    let mut numbers: HashMap<StrId, u32> = HashMap::new();
    let mut texts: HashMap<String, u32> = HashMap::new();
    let sequence: Vec<u32> = work
        .iter()
        .take(KERNELS_MAX)
        .map(|&work| {
            let name = facts.names().merged(spans.name(work));
            *numbers.entry(name).or_insert_with(|| {
                let next = texts.len() as u32;
                let text = facts.names().text(name);
                *texts.entry(unnumbered(&text).to_owned()).or_insert(next)
            })
        })
        .collect();
    let period = find_period(&sequence)?;
    let found = LayersFrom::Repetition {
        step: step.to_owned(),
        kernels: period.len,
        repeats: period.repeats,
        covered: period.len * period.repeats,
        all: work.len(),
    };
    Some((found, work[period.start..].chunks(period.len).take(period.repeats)))
}

/// A part of a sequence that repeats without a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Period {
    start: usize,
    len: usize,
    repeats: usize,
}

/// A layer launches at least so many kernels, of which not all are the same.
const PERIOD_MIN: usize = 3;

/// The shortest period that explains nearly as much as any. A multiple of a period
/// explains as much as the period itself, and a run of one kernel is no layer.
fn find_period(sequence: &[u32]) -> Option<Period> {
    let found: Vec<Period> = (PERIOD_MIN..=sequence.len() / 2)
        .filter_map(|len| longest_repeat(sequence, len))
        .filter(|found| {
            let part = &sequence[found.start..found.start + found.len];
            part.iter().any(|kernel| *kernel != part[0])
        })
        .collect();
    let most = found.iter().map(|found| found.len * found.repeats).max()?;
    found.into_iter().find(|found| found.len * found.repeats * 10 >= most * 9)
}

/// The longest run in which every kernel returns after `len` others.
fn longest_repeat(sequence: &[u32], len: usize) -> Option<Period> {
    let (mut best, mut run) = (None, 0);
    let mut best_run = len - 1;
    for at in 0..sequence.len() - len {
        run = if sequence[at] == sequence[at + len] { run + 1 } else { 0 };
        if run > best_run {
            best_run = run;
            let start = at + 1 - run;
            best = Some(Period { start, len, repeats: run / len + 1 });
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use spanwise_model::SpanKind;

    use super::*;
    use crate::base::sample::Sample;

    /// `expected`: start, length, repeats.
    #[track_caller]
    fn check(sequence: &str, expected: Option<(usize, usize, usize)>) {
        let numbers: Vec<u32> = sequence.bytes().map(u32::from).collect();
        let found = find_period(&numbers).map(|found| (found.start, found.len, found.repeats));
        assert_eq!(found, expected, "{sequence}");
    }

    #[test]
    fn the_shortest_period_that_explains_most() {
        check("xabcabcabcabcy", Some((1, 3, 4)));
        check("abcdabcdabcd", Some((0, 4, 3)));
        check("emabcdeabcdezz", Some((2, 5, 2)));
    }

    #[test]
    fn what_does_not_repeat_has_no_period() {
        check("", None);
        check("abcdefgh", None);
        check("aaaaaaaa", None);
        check("ababab", None);
    }

    proptest! {
        /// Whatever stands around it, what repeats most is found, by its own length.
        #[test]
        fn a_repeated_layer_is_found(
            layer in 3_u32..12,
            repeats in 3_usize..8,
            around in 0_u32..3,
        ) {
            let mut sequence: Vec<u32> = (0..around).map(|kernel| 100 + kernel).collect();
            for _ in 0..repeats {
                sequence.extend(0..layer);
            }
            sequence.extend((0..around).map(|kernel| 200 + kernel));
            let expected =
                Period { start: around as usize, len: layer as usize, repeats };
            prop_assert_eq!(find_period(&sequence), Some(expected));
        }
    }

    #[test]
    fn without_modules_the_kernels_of_a_step_show_layers() {
        let mut sample = Sample::default();
        sample.span("1", SpanKind::Annotation, "ProfilerStep#1", 0, 1000);
        let names = ["embed", "gemm", "attn", "norm", "gemm", "attn", "norm", "head"];
        for (at, name) in names.iter().enumerate() {
            let at = at as i64;
            sample.call("1", 10 * at, 1, at as u64 + 1);
            sample.work("7", SpanKind::Kernel, name, (2000 + 10 * at, at + 1), at as u64 + 1);
        }
        let trace = sample.finish();
        let used = layer_use(&Facts::new(&trace));
        let found = LayersFrom::Repetition {
            step: "ProfilerStep#1".to_owned(),
            kernels: 3,
            repeats: 2,
            covered: 6,
            all: 8,
        };
        assert_eq!(used.found, found);
        let rows: Vec<_> = used.rows.iter().map(|row| (row.gpu_ns, row.launches)).collect();
        assert_eq!(rows, [(2 + 3 + 4, 3), (5 + 6 + 7, 3)]);
    }
}

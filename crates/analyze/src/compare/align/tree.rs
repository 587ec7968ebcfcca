//! What launched the GPU work of a trace: steps, annotations, modules and operators.
//!
//! Only what leads to GPU work is kept. Python frames other than modules are left out:
//! they change with every version of a library, while modules and operators stay. The
//! work of several threads does not interleave: a step lists the thread that it was
//! annotated on first, then the others by their first launch.

use std::collections::HashMap;

use spanwise_model::{NO_ROW, Nanos, SpanId, SpanKind, StrId, Trace, TrackId};

use crate::base::names::unnumbered;
use crate::gpu::usage::gpu_work;
use crate::training::modules::class_of;
use crate::training::steps::Steps;
use crate::{Batch, Facts};

/// The root, which is node 0.
pub(crate) const ROOT: usize = 0;

const OUTSIDE: &str = "[outside of steps]";
pub(crate) const NOT_RECORDED: &str = "[launch not recorded]";
const MODULE: &str = "nn.Module: ";

/// A node is made before those inside of it.
pub(crate) struct CallTree {
    pub(crate) nodes: Vec<Node>,
    /// All GPU work, in the order of its launch.
    pub(crate) work: Vec<SpanId>,
    /// The node of each piece of work.
    pub(crate) node_of_work: Vec<usize>,
    /// The name of each piece of work, as a row of `kernels`.
    pub(crate) kernel_of_work: Vec<usize>,
    pub(crate) kernels: Vec<String>,
}

pub(crate) struct Node {
    pub(crate) kind: NodeKind,
    /// What corresponding nodes of two traces have in common.
    pub(crate) name: String,
    pub(crate) parent: Option<usize>,
    /// The step around it, itself included.
    step: Option<usize>,
    /// In order of launch.
    pub(crate) children: Vec<Child>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NodeKind {
    Root,
    Step,
    Annotation,
    Module,
    Operator,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Child {
    /// A number of a node.
    Node(usize),
    /// A row of [`CallTree::work`].
    Work(usize),
}

impl CallTree {
    pub(crate) fn new(facts: &Facts) -> Self {
        let trace = facts.trace();
        let steps = Steps::new(trace);
        let mut planting = Planting::new(facts, &steps);
        let mut numbers: HashMap<StrId, usize> = HashMap::new();
        for (row, &work) in ordered(trace, &steps).iter().enumerate() {
            let node = planting.node_of_work(work);
            let tree = &mut planting.tree;
            tree.nodes[node].children.push(Child::Work(row));
            tree.work.push(work);
            tree.node_of_work.push(node);
            let name = facts.names().merged(trace.spans().name(work));
            tree.kernel_of_work.push(*numbers.entry(name).or_insert_with(|| {
                tree.kernels.push(unnumbered(&facts.names().text(name)).to_owned());
                tree.kernels.len() - 1
            }));
        }
        planting.tree
    }

    /// The node itself and those around it, from the inside.
    pub(crate) fn around(&self, node: usize) -> impl Iterator<Item = &Node> {
        let numbers = std::iter::successors(Some(node), |&node| self.nodes[node].parent);
        numbers.map(|node| &self.nodes[node])
    }

    /// Whether a node is a step, rather than what lies outside of all.
    pub(crate) fn is_step(&self, node: usize) -> bool {
        self.nodes[node].kind == NodeKind::Step && !self.is_outside(node)
    }

    /// Whether a node holds what lies outside of all steps.
    pub(crate) fn is_outside(&self, node: usize) -> bool {
        let node = &self.nodes[node];
        node.kind == NodeKind::Step && [OUTSIDE, NOT_RECORDED].contains(&node.name.as_str())
    }

    /// The step around a node, or what lies outside of all.
    pub(crate) fn step_of(&self, node: usize) -> Option<usize> {
        self.nodes[node].step
    }

    /// Whether a piece of work was launched in a step.
    pub(crate) fn is_in_step(&self, row: usize) -> bool {
        self.step_of(self.node_of_work[row]).is_some_and(|step| self.is_step(step))
    }

    /// Whether nothing but work stands directly inside.
    pub(crate) fn is_leaf(&self, node: usize) -> bool {
        self.nodes[node].children.iter().all(|child| matches!(child, Child::Work(_)))
    }
}

/// All work by step, thread and time of launch.
fn ordered(trace: &Trace, steps: &Steps) -> Vec<SpanId> {
    let spans = trace.spans();
    type SortKey = (usize, Option<TrackId>, Nanos, Nanos, SpanId);
    let mut work: Vec<SortKey> = gpu_work(trace)
        .map(|work| {
            let (start, call) = (spans.start(work), spans.launch(work));
            let launched = call.map_or(start, |call| spans.start(call));
            let step = call.and_then(|_| steps.row_at(launched)).unwrap_or(usize::MAX);
            (step, call.map(|call| spans.track(call)), launched, start, work)
        })
        .collect();
    // The first launch of each thread in each step; before all of them on its own thread.
    let mut first: HashMap<(usize, Option<TrackId>), Nanos> = HashMap::new();
    for (row, step) in steps.rows().iter().enumerate() {
        first.insert((row, Some(spans.track(step.span))), Nanos::MIN);
    }
    for &(step, track, launched, ..) in &work {
        let known = first.entry((step, track)).or_insert(launched);
        *known = launched.min(*known);
    }
    work.sort_unstable_by_key(|place| (place.0, first[&(place.0, place.1)], *place));
    work.into_iter().map(|place| place.4).collect()
}

struct Planting<'a> {
    facts: &'a Facts,
    steps: &'a Steps,
    tree: CallTree,
    /// By span: its node, or none yet.
    node_of: Vec<u32>,
    /// By span: itself or the innermost around it that is a node of the tree, or none. What
    /// lies between, such as frames of Python, may be a thousand deep and is visited once.
    node_around: Vec<u32>,
    step_nodes: HashMap<Option<usize>, usize>,
    /// By span of a step: its row.
    step_spans: HashMap<SpanId, usize>,
    not_recorded: Option<usize>,
    /// By name: what nodes are called, each made once.
    names: HashMap<(SpanKind, StrId), String>,
}

impl<'a> Planting<'a> {
    fn new(facts: &'a Facts, steps: &'a Steps) -> Self {
        let (kind, name, children) = (NodeKind::Root, String::new(), Vec::new());
        let root = Node { kind, name, parent: None, step: None, children };
        let rows = steps.rows().iter().enumerate();
        let step_spans = rows.map(|(row, step)| (step.span, row)).collect();
        Planting {
            node_around: nodes_around(facts.trace(), &step_spans),
            facts,
            steps,
            tree: CallTree {
                nodes: vec![root],
                work: Vec::new(),
                node_of_work: Vec::new(),
                kernel_of_work: Vec::new(),
                kernels: Vec::new(),
            },
            node_of: vec![NO_ROW; facts.trace().spans().len()],
            step_nodes: HashMap::new(),
            step_spans,
            not_recorded: None,
            names: HashMap::new(),
        }
    }

    /// Finds or makes the innermost node around the launch of work.
    fn node_of_work(&mut self, work: SpanId) -> usize {
        let spans = self.facts.trace().spans();
        let Some(call) = spans.launch(work) else {
            return match self.not_recorded {
                Some(node) => node,
                None => {
                    let node = self.add(NodeKind::Step, NOT_RECORDED.to_owned(), ROOT);
                    *self.not_recorded.insert(node)
                }
            };
        };
        // Outwards to what is known already, then inwards again.
        let (mut inside, mut at, mut node) = (Vec::new(), self.node_around[call.index()], None);
        while at != NO_ROW {
            let span = SpanId(at);
            if self.node_of[span.index()] != NO_ROW {
                node = Some(self.node_of[span.index()] as usize);
                break;
            }
            if let Some(&step) = self.step_spans.get(&span) {
                node = Some(self.step_node(Some(step)));
                break;
            }
            if let Some(kind) = kind(self.facts.trace(), span) {
                inside.push((span, kind));
            }
            let around = spans.parent(span);
            at = around.map_or(NO_ROW, |around| self.node_around[around.index()]);
        }
        let mut node = match node {
            Some(node) => node,
            None => {
                let outermost = inside.last().map_or(call, |&(span, _)| span);
                let step = self.steps.row_at(spans.start(call));
                // Work of an operator that began before the step still belongs to it.
                self.step_node(step.or_else(|| self.steps.row_at(spans.start(outermost))))
            }
        };
        for (span, kind) in inside.into_iter().rev() {
            let name = self.name(span, kind);
            node = self.add(kind, name, node);
            self.node_of[span.index()] = node as u32;
        }
        node
    }

    fn step_node(&mut self, step: Option<usize>) -> usize {
        // A trace without steps is one.
        if self.steps.rows().is_empty() {
            return ROOT;
        }
        if let Some(&node) = self.step_nodes.get(&step) {
            return node;
        }
        let row = step.map(|row| &self.steps.rows()[row]);
        let phase = row.map(|row| row.batch.map_or("step", |batch| batch.phase.text()));
        let name = phase.unwrap_or(OUTSIDE).to_owned();
        let node = self.add(NodeKind::Step, name, ROOT);
        self.step_nodes.insert(step, node);
        node
    }

    fn add(&mut self, kind: NodeKind, name: String, parent: usize) -> usize {
        let number = self.tree.nodes.len();
        let is_step = kind == NodeKind::Step;
        let step = if is_step { Some(number) } else { self.tree.nodes[parent].step };
        let children = Vec::new();
        self.tree.nodes.push(Node { kind, name, parent: Some(parent), step, children });
        self.tree.nodes[parent].children.push(Child::Node(number));
        number
    }

    fn name(&mut self, span: SpanId, kind: NodeKind) -> String {
        let (names, trace) = (self.facts.names(), self.facts.trace());
        let id = names.merged(trace.spans().name(span));
        let text = || names.text(id);
        let made = self.names.entry((trace.kind(span), id)).or_insert_with(|| match kind {
            NodeKind::Module => class_of(&text()).to_owned(),
            NodeKind::Annotation => match Batch::parse(&text()) {
                Some(batch) => batch.phase.text().to_owned(),
                None => without_hashes(&text()),
            },
            _ => unnumbered(&text()).to_owned(),
        });
        made.clone()
    }
}

/// What a span is in the tree, if anything.
fn kind(trace: &Trace, span: SpanId) -> Option<NodeKind> {
    match trace.kind(span) {
        SpanKind::Operator => Some(NodeKind::Operator),
        SpanKind::Annotation => Some(NodeKind::Annotation),
        SpanKind::Python if trace.name(span).starts_with(MODULE) => Some(NodeKind::Module),
        _ => None,
    }
}

/// One forward pass: a parent always stands before its children (I3).
fn nodes_around(trace: &Trace, step_spans: &HashMap<SpanId, usize>) -> Vec<u32> {
    let mut around = vec![NO_ROW; trace.spans().len()];
    for span in trace.spans().ids() {
        let is_node = kind(trace, span).is_some() || step_spans.contains_key(&span);
        around[span.index()] = match (is_node, trace.spans().parent(span)) {
            (true, _) => span.0,
            (false, Some(parent)) => around[parent.index()],
            (false, None) => NO_ROW,
        };
    }
    around
}

/// Words of 32 letters and digits or more are hashes, which differ from run to run.
fn without_hashes(text: &str) -> String {
    let is_hash = |word: &str| word.len() >= 32 && word.bytes().all(|b| b.is_ascii_alphanumeric());
    let words: Vec<&str> =
        text.split(' ').map(|word| if is_hash(word) { "…" } else { word }).collect();
    words.join(" ")
}

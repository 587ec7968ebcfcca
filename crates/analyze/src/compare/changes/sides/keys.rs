//! What a piece of work is counted under, for each way to group.

use std::collections::HashMap;

use spanwise_model::{NO_ROW, SpanId, SpanKind, StrId};

use crate::compare::changes::sides::pairs::INSIDE;
use crate::compare::changes::sides::series::CompareBy;
use crate::cpu::python::Frame;
use crate::gpu::classes::Classifier;
use crate::gpu::launching_frame::{ForwardOperators, Launchers};
use crate::training::layers::layer_nodes;
use crate::training::modules::{ModuleTree, class_of};
use crate::{ClassRules, Facts};

/// A key in the trace's own numbers: a name, or a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::compare::changes) enum KeyId {
    Name(StrId),
    /// By file and name.
    Function(StrId),
    Class(u32),
    Module(u32),
    Layer(u32),
    Stack(u32),
    Step(u32),
    Word(&'static str),
}

const NOT_RECORDED: &str = "[launch not recorded]";
const NONE: &str = "[none]";

/// Finds the keys of the groupings that are gathered.
pub(in crate::compare::changes) struct Keyer<'a> {
    facts: &'a Facts,
    /// The grouping.
    pub(in crate::compare::changes) by: CompareBy,
    pub(in crate::compare::changes) launchers: &'a Launchers<'a>,
    classifier: Classifier<'a>,
    modules: Modules,
    /// Empty where nothing is asked about stacks.
    pub(in crate::compare::changes) stacks: Stacks,
}

impl<'a> Keyer<'a> {
    pub(in crate::compare::changes) fn new(
        facts: &'a Facts,
        by: CompareBy,
        with_stacks: bool,
        launchers: &'a Launchers<'a>,
        rules: &'a ClassRules,
    ) -> Self {
        Keyer {
            facts,
            by,
            launchers,
            classifier: Classifier::new(facts, rules),
            modules: Modules::new(facts, by == CompareBy::Layer),
            stacks: match with_stacks || by == CompareBy::Stack {
                true => Stacks::new(facts),
                false => Stacks::default(),
            },
        }
    }

    pub(in crate::compare::changes) fn facts(&self) -> &'a Facts {
        self.facts
    }

    /// The number of the path of modules around a span, or [`NO_ROW`].
    pub(in crate::compare::changes) fn module_of_span(&self, span: SpanId) -> u32 {
        self.modules.of_span(span).map_or(NO_ROW, |node| self.modules.path_of[node as usize])
    }

    /// The number of the path of modules that GPU work belongs to, or [`NO_ROW`].
    pub(in crate::compare::changes) fn module_of_work(&self, work: SpanId) -> u32 {
        let node = self.modules.of_work(self.facts, work);
        node.map_or(NO_ROW, |node| self.modules.path_of[node as usize])
    }

    /// The key of GPU work in a step.
    pub(in crate::compare::changes) fn gpu(
        &mut self,
        by: CompareBy,
        work: SpanId,
        at: usize,
    ) -> KeyId {
        let facts = self.facts;
        let spans = facts.trace().spans();
        let call = spans.launch(work);
        let named = |id: Option<StrId>| match (call, id) {
            (None, _) => KeyId::Word(NOT_RECORDED),
            (_, None) => KeyId::Word(NONE),
            (_, Some(id)) => KeyId::Name(id),
        };
        match by {
            CompareBy::Operator => named(self.launchers.of(work).operator),
            CompareBy::Kernel => KeyId::Name(facts.names().merged(spans.name(work))),
            CompareBy::Class => KeyId::Class(self.classifier.class(work)),
            CompareBy::Phase => {
                KeyId::Word(facts.phases().of(work).map_or(NONE, |phase| phase.text()))
            }
            CompareBy::Step => KeyId::Step(at as u32),
            CompareBy::PythonLine => named(self.launchers.of(work).line),
            CompareBy::Function => match self.launchers.of(work).line {
                Some(line) => KeyId::Function(line),
                None => named(None),
            },
            CompareBy::Module => match self.module_of_work(work) {
                NO_ROW => named(None),
                path => KeyId::Module(path),
            },
            CompareBy::Layer => match self.modules.of_work(facts, work) {
                Some(node) => self.modules.layer(node),
                None => named(None),
            },
            CompareBy::Stack => match call.map(|call| self.stacks.path_of(call)) {
                Some(path) if path != NO_ROW => KeyId::Stack(path),
                _ => named(None),
            },
        }
    }

    /// The key of a thread's time in a step; `None` where only GPU work is grouped.
    pub(in crate::compare::changes) fn host(
        &self,
        by: CompareBy,
        span: SpanId,
        at: usize,
    ) -> Option<KeyId> {
        let facts = self.facts;
        let spans = facts.trace().spans();
        let name = |id: SpanId| facts.names().merged(spans.name(id));
        let line = || facts.frames().line(span).map(name);
        Some(match by {
            CompareBy::Kernel | CompareBy::Class => return None,
            CompareBy::Operator => match facts.frames().operator(span) {
                Some(operator) => KeyId::Name(name(operator)),
                None => KeyId::Word("[outside of operators]"),
            },
            CompareBy::Function => line().map_or(KeyId::Word(NONE), KeyId::Function),
            CompareBy::PythonLine => line().map_or(KeyId::Word(NONE), KeyId::Name),
            CompareBy::Phase => {
                KeyId::Word(facts.phases().of(span).map_or(NONE, |phase| phase.text()))
            }
            CompareBy::Step => KeyId::Step(at as u32),
            CompareBy::Module => match self.module_of_span(span) {
                NO_ROW => KeyId::Word(NONE),
                path => KeyId::Module(path),
            },
            CompareBy::Layer => match self.modules.of_span(span) {
                Some(node) => self.modules.layer(node),
                None => KeyId::Word(NONE),
            },
            CompareBy::Stack => match self.stacks.path_of(span) {
                NO_ROW => KeyId::Word(NONE),
                path => KeyId::Stack(path),
            },
        })
    }

    pub(in crate::compare::changes) fn text(&self, key: KeyId) -> String {
        match key {
            KeyId::Name(id) => self.facts.names().text(id).into_owned(),
            KeyId::Function(id) => function_text(&self.facts.names().text(id)),
            KeyId::Class(class) => self.classifier.classes[class as usize].clone(),
            KeyId::Module(node) => self.modules.path(self.facts, node),
            KeyId::Layer(layer) => format!("{} {layer}", self.modules.layer_class),
            KeyId::Stack(path) => self.stacks.text(self.facts, path),
            // Of equal width, so that they stand in order.
            KeyId::Step(at) => format!("step {:>4}", at + 1),
            KeyId::Word(word) => word.to_owned(),
        }
    }
}

/// `model.py(5): forward` without the line.
pub(in crate::compare::changes) fn function_text(name: &str) -> String {
    match Frame::parse(name) {
        Frame::Code { file, function } => format!("{file}: {function}"),
        _ => name.to_owned(),
    }
}

/// So many parts of a path or a stack are shown, the inner ones: all parts of paths that are a
/// thousand deep would be a thousand times the trace. Those that are then equal are one row.
const PARTS_MAX: usize = 256;

/// The modules around spans.
struct Modules {
    nodes: Vec<(Option<usize>, StrId)>,
    node_of: Vec<u32>,
    /// By node: the first node of the same path of classes.
    path_of: Vec<u32>,
    forward: ForwardOperators,
    layer_class: String,
    /// By node: the number of the layer it is, or is in.
    layer_of: Vec<Option<u32>>,
}

impl Modules {
    fn new(facts: &Facts, with_layers: bool) -> Self {
        let (tree, node_of) = ModuleTree::with_places(facts, with_layers);
        let layers = with_layers.then(|| layer_nodes(facts, &tree)).flatten();
        let (layer_class, layers) = layers.unwrap_or_default();
        let mut layer_of = vec![None; tree.nodes.len()];
        for (number, &node) in layers.iter().enumerate() {
            layer_of[node] = Some(number as u32);
        }
        // Parents stand before children.
        for (at, node) in tree.nodes.iter().enumerate() {
            layer_of[at] = layer_of[at].or_else(|| layer_of[node.parent?]);
        }
        Modules {
            path_of: class_paths(facts, &tree),
            nodes: tree.nodes.iter().map(|node| (node.parent, node.name)).collect(),
            node_of,
            forward: ForwardOperators::new(facts.trace()),
            layer_class,
            layer_of,
        }
    }

    fn of_span(&self, span: SpanId) -> Option<u32> {
        self.node_of.get(span.index()).copied().filter(|&node| node != NO_ROW)
    }

    /// Backward work belongs to the module whose operator it differentiates.
    fn of_work(&self, facts: &Facts, work: SpanId) -> Option<u32> {
        let spans = facts.trace().spans();
        let call = spans.launch(work)?;
        self.of_span(call).or_else(|| self.of_span(self.forward.of(call)?))
    }

    fn layer(&self, node: u32) -> KeyId {
        self.layer_of[node as usize].map_or(KeyId::Word("[outside of layers]"), KeyId::Layer)
    }

    fn path(&self, facts: &Facts, node: u32) -> String {
        let around = std::iter::successors(Some(node as usize), |&node| self.nodes[node].0);
        let classes = around.map(|node| class_of(facts.trace().strings().get(self.nodes[node].1)));
        let mut classes: Vec<&str> = classes.take(PARTS_MAX).collect();
        if classes.len() == PARTS_MAX {
            classes.push("…");
        }
        classes.reverse();
        classes.join("/")
    }
}

/// For each node the first one of the same path of classes.
fn class_paths(facts: &Facts, tree: &ModuleTree) -> Vec<u32> {
    let mut first: HashMap<(Option<u32>, &str), u32> = HashMap::new();
    let mut paths: Vec<u32> = Vec::with_capacity(tree.nodes.len());
    for (at, node) in tree.nodes.iter().enumerate() {
        let class = class_of(facts.trace().strings().get(node.name));
        // Parents stand before children.
        let around = node.parent.map(|parent| paths[parent]);
        paths.push(*first.entry((around, class)).or_insert(at as u32));
    }
    paths
}

/// The Python functions around spans, each sequence of them once.
#[derive(Default)]
pub(in crate::compare::changes) struct Stacks {
    paths: Vec<(u32, StrId)>,
    path_of: Vec<u32>,
}

impl Stacks {
    pub(in crate::compare::changes) fn new(facts: &Facts) -> Self {
        let (trace, spans) = (facts.trace(), facts.trace().spans());
        let mut stacks = Stacks { paths: Vec::new(), path_of: vec![NO_ROW; spans.len()] };
        let mut known: HashMap<(u32, StrId), u32> = HashMap::new();
        let mut is_code: Vec<Option<bool>> = vec![None; trace.strings().len()];
        let mut is_code = |span: SpanId| {
            let name = spans.name(span);
            trace.kind(span) == SpanKind::Python
                && *is_code[name.index()].get_or_insert_with(|| {
                    matches!(Frame::parse(trace.strings().get(name)), Frame::Code { .. })
                })
        };
        // By span: the innermost function around it. Those that have ended are passed over for
        // good, since spans of a track ascend by start.
        let mut code_around = vec![NO_ROW; spans.len()];
        for span in spans.ids() {
            let parent = spans.parent(span);
            let mut at = match parent {
                Some(parent) if is_code(parent) => parent.0,
                Some(parent) => code_around[parent.index()],
                None => NO_ROW,
            };
            let first = at;
            // A range may outlive the function that opened it: that one is no longer around.
            while at != NO_ROW && spans.end(SpanId(at)) <= spans.start(span) {
                at = code_around[at as usize];
            }
            let mut ended = first;
            while ended != at {
                ended = std::mem::replace(&mut code_around[ended as usize], at);
            }
            if let Some(parent) = parent.filter(|&parent| !is_code(parent)) {
                code_around[parent.index()] = at;
            }
            code_around[span.index()] = at;
            let around = if at == NO_ROW { NO_ROW } else { stacks.path_of[at as usize] };
            let name = spans.name(span);
            stacks.path_of[span.index()] = match is_code(span) {
                false => around,
                true => *known.entry((around, name)).or_insert_with(|| {
                    stacks.paths.push((around, name));
                    stacks.paths.len() as u32 - 1
                }),
            };
        }
        stacks
    }

    /// [`NO_ROW`] where no function is known.
    pub(in crate::compare::changes) fn path_of(&self, span: SpanId) -> u32 {
        self.path_of.get(span.index()).copied().unwrap_or(NO_ROW)
    }

    /// From the outermost on.
    pub(in crate::compare::changes) fn text(&self, facts: &Facts, path: u32) -> String {
        let mut functions = Vec::new();
        let mut at = path;
        while let Some(&(around, name)) = self.paths.get(at as usize) {
            if functions.len() == PARTS_MAX {
                functions.push("…".to_owned());
                break;
            }
            functions.push(function_text(facts.trace().strings().get(name)));
            at = around;
        }
        functions.reverse();
        functions.join(INSIDE)
    }
}

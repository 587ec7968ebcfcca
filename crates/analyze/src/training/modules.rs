//! Time by module of the model: a tree of `nn.Module` classes, and the layers in it.
//!
//! Recorders number modules by class over the whole model (`Linear_17`), so a path of
//! classes is what people know (`LlamaModel/LlamaDecoderLayer/LlamaMLP/Linear`), and
//! the numbers distinguish the instances. Backward work belongs to the module whose
//! operator it differentiates.

use std::collections::{BTreeSet, HashMap};

use spanwise_model::{NO_ROW, SpanId, SpanKind, StrId, Trace};

use crate::gpu::launching_frame::ForwardOperators;
use crate::gpu::usage::gpu_work;
use crate::{Facts, TotalNanos};

const MODULE: &str = "nn.Module: ";

/// The modules of a trace; empty where it has no Python frames.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ModuleUse {
    /// Depth first; siblings by GPU time, then host time.
    pub rows: Vec<ModuleRow>,
    /// GPU work launched in no module.
    pub outside: ModuleTime,
    pub work_ns: TotalNanos,
}

/// All instances of one class at one place in the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModuleRow {
    /// Classes from the outermost module on, with `/` between them.
    pub path: String,
    pub class: String,
    pub depth: usize,
    pub instances: u64,
    pub calls: u64,
    /// While a call was open; everything inside included.
    pub host_ns: TotalNanos,
    /// Launched inside.
    pub gpu: ModuleTime,
    /// Launched by nothing further inside.
    pub gpu_self_ns: TotalNanos,
}

/// GPU work of a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ModuleTime {
    pub work_ns: TotalNanos,
    /// Of that, in the backward pass.
    pub backward_ns: TotalNanos,
    pub launches: u64,
}

impl ModuleTime {
    fn add(&mut self, other: ModuleTime) {
        self.work_ns += other.work_ns;
        self.backward_ns += other.backward_ns;
        self.launches += other.launches;
    }
}

/// One instance of a module at one place in the tree.
pub(crate) struct Node {
    pub(crate) parent: Option<usize>,
    pub(crate) name: StrId,
    pub(crate) calls: u64,
    pub(crate) host_ns: TotalNanos,
    /// Inside, and by nothing further inside.
    pub(crate) gpu: ModuleTime,
    pub(crate) own: ModuleTime,
}

/// All instances, parents before children, in order of first call.
pub(crate) struct ModuleTree {
    pub(crate) nodes: Vec<Node>,
    pub(crate) outside: ModuleTime,
    /// GPU work that was launched in a module, or differentiates what was.
    pub(crate) node_of_work: Vec<(SpanId, usize)>,
}

impl ModuleTree {
    pub(crate) fn new(facts: &Facts) -> Self {
        ModuleTree::with_places(facts, true).0
    }

    /// The tree, and for every span the node it is in, or [`NO_ROW`]. GPU work is placed
    /// where it is asked for.
    pub(crate) fn with_places(facts: &Facts, with_work: bool) -> (Self, Vec<u32>) {
        let (mut tree, node_of) = ModuleTree::places(facts.trace());
        if with_work {
            tree.place_work(facts, &node_of);
        }
        (tree, node_of)
    }

    fn place_work(&mut self, facts: &Facts, node_of: &[u32]) {
        let (trace, spans) = (facts.trace(), facts.trace().spans());
        let forward = ForwardOperators::new(trace);
        for work in gpu_work(trace) {
            let call = spans.launch(work);
            let node = |span: SpanId| Some(node_of[span.index()]).filter(|&node| node != NO_ROW);
            let direct = call.and_then(node);
            let backward = || call.and_then(|call| forward.of(call)).and_then(node);
            let (node, is_backward) = match direct {
                Some(node) => (Some(node), false),
                None => (backward(), true),
            };
            let dur = i128::from(spans.dur(work));
            let backward_ns = if is_backward { dur } else { 0 };
            let time = ModuleTime { work_ns: dur, backward_ns, launches: 1 };
            match node {
                Some(node) => {
                    self.nodes[node as usize].own.add(time);
                    self.node_of_work.push((work, node as usize));
                }
                None => self.outside.add(ModuleTime { backward_ns: 0, ..time }),
            }
        }
        for at in (0..self.nodes.len()).rev() {
            let own = self.nodes[at].own;
            self.nodes[at].gpu.add(own);
            let gpu = self.nodes[at].gpu;
            if let Some(parent) = self.nodes[at].parent {
                self.nodes[parent].gpu.add(gpu);
            }
        }
    }

    /// The nodes alone, and for every span the one it is in, or [`NO_ROW`].
    fn places(trace: &Trace) -> (Self, Vec<u32>) {
        let mut tree = ModuleTree {
            nodes: Vec::new(),
            outside: ModuleTime::default(),
            node_of_work: Vec::new(),
        };
        let node_of = tree.place_calls(trace);
        (tree, node_of)
    }

    /// Finds or makes the node of every module call; for every span the node it is in.
    fn place_calls(&mut self, trace: &Trace) -> Vec<u32> {
        let spans = trace.spans();
        let mut node_of = vec![NO_ROW; spans.len()];
        let mut known: HashMap<(Option<usize>, StrId), usize> = HashMap::new();
        let mut is_module: Vec<Option<bool>> = vec![None; trace.strings().len()];
        for span in spans.ids() {
            let around = spans.parent(span).map_or(NO_ROW, |parent| node_of[parent.index()]);
            node_of[span.index()] = around;
            let name = spans.name(span);
            let marks = is_module[name.index()]
                .get_or_insert_with(|| trace.strings().get(name).starts_with(MODULE));
            if !*marks || trace.kind(span) != SpanKind::Python {
                continue;
            }
            let parent = (around != NO_ROW).then_some(around as usize);
            let at = *known.entry((parent, name)).or_insert_with(|| {
                let (gpu, own) = (ModuleTime::default(), ModuleTime::default());
                self.nodes.push(Node { parent, name, calls: 0, host_ns: 0, gpu, own });
                self.nodes.len() - 1
            });
            self.nodes[at].calls += 1;
            self.nodes[at].host_ns += i128::from(spans.dur(span));
            node_of[span.index()] = at as u32;
        }
        node_of
    }
}

/// "nn.Module: Linear_17" is instance 17 of the class "Linear".
pub(crate) fn class_of(name: &str) -> &str {
    let name = name.strip_prefix(MODULE).unwrap_or(name);
    match name.rsplit_once('_') {
        Some((class, number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => class,
        _ => name,
    }
}

pub fn module_use(facts: &Facts) -> ModuleUse {
    let tree = ModuleTree::new(facts);
    let text = |node: &Node| facts.trace().strings().get(node.name);
    // Nodes of one class under one path of classes become one row.
    let mut rows: Vec<ModuleRow> = Vec::new();
    let mut parents: Vec<Option<usize>> = Vec::new();
    let mut known: HashMap<(Option<usize>, &str), usize> = HashMap::new();
    let mut instances: Vec<BTreeSet<StrId>> = Vec::new();
    let mut row_of: Vec<usize> = Vec::with_capacity(tree.nodes.len());
    for node in &tree.nodes {
        let parent = node.parent.map(|parent| row_of[parent]);
        let class = class_of(text(node));
        let at = *known.entry((parent, class)).or_insert_with(|| {
            rows.push(new_row(parent.map(|parent| &rows[parent]), class));
            parents.push(parent);
            instances.push(BTreeSet::new());
            rows.len() - 1
        });
        rows[at].calls += node.calls;
        rows[at].host_ns += node.host_ns;
        rows[at].gpu.add(node.gpu);
        rows[at].gpu_self_ns += node.own.work_ns;
        instances[at].insert(node.name);
        row_of.push(at);
    }
    for (row, names) in rows.iter_mut().zip(&instances) {
        row.instances = names.len() as u64;
    }
    let order = depth_first(&rows, &parents);
    let rows = order.into_iter().map(|at| rows[at].clone()).collect();
    ModuleUse { rows, outside: tree.outside, work_ns: facts.gpu().work_ns }
}

fn new_row(parent: Option<&ModuleRow>, class: &str) -> ModuleRow {
    ModuleRow {
        path: parent.map_or(class.to_owned(), |parent| longer_path(&parent.path, class)),
        class: class.to_owned(),
        depth: parent.map_or(0, |parent| parent.depth + 1),
        instances: 0,
        calls: 0,
        host_ns: 0,
        gpu: ModuleTime::default(),
        gpu_self_ns: 0,
    }
}

/// A path longer than this loses what is in its middle: all paths of modules that lie a
/// thousand deep would be a thousand times the trace.
const PATH_BYTES_MAX: usize = 2000;
const CUT: &str = "/…/";

/// A path with one more class. Long ones keep their ends.
pub(crate) fn longer_path(path: &str, class: &str) -> String {
    let longer = format!("{path}/{class}");
    if longer.len() <= PATH_BYTES_MAX {
        return longer;
    }
    let half = PATH_BYTES_MAX / 2 - CUT.len();
    let head = longer.find(CUT).unwrap_or(longer.floor_char_boundary(half));
    let tail = longer.ceil_char_boundary((longer.len() - half).max(head));
    format!("{}{CUT}{}", &longer[..head], &longer[tail..])
}

/// Rows under their parents, siblings with most time first.
fn depth_first(rows: &[ModuleRow], parents: &[Option<usize>]) -> Vec<usize> {
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); rows.len() + 1];
    for (at, parent) in parents.iter().enumerate() {
        children[parent.unwrap_or(rows.len())].push(at);
    }
    for list in &mut children {
        // Taken from the end: most time last.
        list.sort_by(|&a, &b| {
            let rank = |at: usize| (rows[at].gpu.work_ns, rows[at].host_ns);
            (rank(a), &rows[b].class).cmp(&(rank(b), &rows[a].class))
        });
    }
    let mut order = Vec::with_capacity(rows.len());
    let mut open = children[rows.len()].clone();
    while let Some(at) = open.pop() {
        order.push(at);
        open.extend(&children[at]);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::sample::Sample;

    fn module(sample: &mut Sample, name: &str, start: i64, dur: i64) {
        sample.span("1", SpanKind::Python, &format!("nn.Module: {name}"), start, dur);
    }

    fn sample() -> Sample {
        let mut sample = Sample::default();
        module(&mut sample, "Net_0", 0, 100);
        for (layer, start) in [(0, 10), (1, 50)] {
            module(&mut sample, &format!("Layer_{layer}"), start, 30);
            module(&mut sample, &format!("Linear_{}", 2 * layer), start + 1, 10);
            module(&mut sample, &format!("Linear_{}", 2 * layer + 1), start + 12, 10);
            sample.call("1", start + 13, 1, layer + 1);
            sample.work("7", SpanKind::Kernel, "k", (200 + start, 5), layer + 1);
        }
        sample.call("1", 95, 1, 9);
        sample.work("7", SpanKind::Kernel, "k", (300, 3), 9);
        sample.work("7", SpanKind::Kernel, "k", (400, 2), 99);
        sample
    }

    #[test]
    fn classes_make_the_tree_and_work_adds_up() {
        let trace = sample().finish();
        let used = module_use(&Facts::new(&trace));
        let rows: Vec<_> = used
            .rows
            .iter()
            .map(|row| (row.path.as_str(), row.instances, row.host_ns, row.gpu.work_ns))
            .collect();
        let expected =
            [("Net", 1, 100, 13), ("Net/Layer", 2, 60, 10), ("Net/Layer/Linear", 4, 40, 10)];
        assert_eq!(rows, expected);
        let own: i128 = used.rows.iter().map(|row| row.gpu_self_ns).sum();
        assert_eq!((own, used.outside.work_ns, used.work_ns), (13, 2, 15));
    }

    #[test]
    fn names_are_class_and_number() {
        assert_eq!(class_of("nn.Module: Linear_17"), "Linear");
        assert_eq!(class_of("nn.Module: My_Layer_0"), "My_Layer");
        assert_eq!(class_of("nn.Module: Odd"), "Odd");
    }
}

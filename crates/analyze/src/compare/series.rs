//! What one trace contributes to a comparison: for every key a value a step.

use std::collections::{BTreeMap, HashMap};

use spanwise_model::{SpanId, StrId};

use crate::classes::Classifier;
use crate::gpu::gpu_work;
use crate::launch::Launchers;
use crate::python::Frame;
use crate::steps::Steps;
use crate::{ClassRules, Facts, TotalNanos};

/// What rows of a comparison stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CompareBy {
    /// The innermost operator around the work, on host and GPU.
    Operator,
    /// The class of GPU work.
    Class,
    Kernel,
    /// The phase that the work was launched in, or ran in.
    Phase,
    /// The function around it, by file and name: lines move.
    Function,
}

/// Where time was spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    Gpu,
    /// Self time of threads, waiting left out.
    Host,
}

/// What is compared with what.
pub(super) type CompareKey = (Place, String);

/// Everything of one trace that a comparison needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompareSeries {
    /// One value a step; a trace without steps is one.
    pub(super) steps: usize,
    /// False where the trace has none and counts as a whole.
    pub(super) has_steps: bool,
    pub(super) wall: Vec<TotalNanos>,
    pub(super) rows: BTreeMap<CompareKey, Vec<Cell>>,
    /// Work outside of all steps, not compared.
    pub(super) outside: BTreeMap<Place, TotalNanos>,
}

/// Time and count of one key in one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Cell {
    pub(super) ns: TotalNanos,
    pub(super) count: u64,
}

pub fn compare_series(facts: &Facts<'_>, rules: &ClassRules, by: CompareBy) -> CompareSeries {
    let steps = Steps::new(facts.trace());
    let has_steps = !steps.rows().is_empty();
    let wall = match has_steps {
        true => steps.rows().iter().map(|step| i128::from(step.end - step.start)).collect(),
        false => vec![facts.window_ns()],
    };
    let mut gathering = Gathering {
        facts,
        steps,
        series: CompareSeries {
            steps: wall.len(),
            has_steps,
            wall,
            rows: BTreeMap::new(),
            outside: BTreeMap::new(),
        },
        numbers: HashMap::new(),
        cells: Vec::new(),
    };
    gathering.gpu(rules, by);
    gathering.host(by);
    gathering.finish()
}

/// A key in the trace's own numbers: a name, or a word.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum KeyId {
    Name(StrId),
    Function(StrId),
    Class(u32),
    Word(&'static str),
}

struct Gathering<'a, 't> {
    facts: &'a Facts<'t>,
    steps: Steps,
    series: CompareSeries,
    /// Looked up only.
    numbers: HashMap<(Place, KeyId), usize>,
    /// In order of first use.
    cells: Vec<((Place, KeyId), Vec<Cell>)>,
}

const NOT_RECORDED: &str = "[launch not recorded]";
const NONE: &str = "[none]";

impl Gathering<'_, '_> {
    fn add(&mut self, place: Place, key: KeyId, at: Option<usize>, ns: TotalNanos) {
        let at = if self.series.has_steps { at } else { Some(0) };
        let Some(at) = at else {
            *self.series.outside.entry(place).or_default() += ns;
            return;
        };
        let (steps, cells) = (self.series.steps, &mut self.cells);
        let number = *self.numbers.entry((place, key)).or_insert_with(|| {
            cells.push(((place, key), vec![Cell::default(); steps]));
            cells.len() - 1
        });
        let cell = &mut self.cells[number].1[at];
        cell.ns += ns;
        cell.count += 1;
    }

    fn gpu(&mut self, rules: &ClassRules, by: CompareBy) {
        let facts = self.facts;
        let (trace, spans) = (facts.trace(), facts.trace().spans());
        let launchers = Launchers::new(trace, facts.frames(), facts.names());
        let mut classifier = Classifier::new(facts, rules);
        let mut classes = Vec::new();
        for work in gpu_work(trace) {
            let call = spans.launch(work);
            let launched = call.map(|call| spans.start(call));
            let named = |id: Option<StrId>| match (call, id) {
                (None, _) => KeyId::Word(NOT_RECORDED),
                (_, None) => KeyId::Word(NONE),
                (_, Some(id)) => KeyId::Name(id),
            };
            let key = match by {
                CompareBy::Operator => named(launchers.of(work).operator),
                CompareBy::Kernel => KeyId::Name(facts.names().merged(spans.name(work))),
                CompareBy::Class => {
                    let class = classifier.class(work);
                    classes.clone_from(&classifier.classes);
                    KeyId::Class(class)
                }
                CompareBy::Phase => {
                    KeyId::Word(facts.phases().of(work).map_or(NONE, |phase| phase.text()))
                }
                CompareBy::Function => match launchers.of(work).line {
                    Some(line) => KeyId::Function(line),
                    None => named(None),
                },
            };
            let at = launched.and_then(|time| self.steps.row_at(time));
            self.add(Place::Gpu, key, at, i128::from(spans.dur(work)));
        }
        self.name_classes(&classes);
    }

    /// Classes are numbers of this trace until here.
    fn name_classes(&mut self, classes: &[String]) {
        self.numbers.clear();
        for ((place, key), cells) in std::mem::take(&mut self.cells) {
            let text = match key {
                KeyId::Name(id) => self.facts.names().text(id).into_owned(),
                KeyId::Function(id) => function_text(&self.facts.names().text(id)),
                KeyId::Class(class) => classes[class as usize].clone(),
                KeyId::Word(word) => word.to_owned(),
            };
            // Several lines of one function are one key.
            match self.series.rows.entry((place, text)) {
                std::collections::btree_map::Entry::Vacant(entry) => drop(entry.insert(cells)),
                std::collections::btree_map::Entry::Occupied(mut entry) => {
                    for (sum, cell) in entry.get_mut().iter_mut().zip(cells) {
                        sum.ns += cell.ns;
                        sum.count += cell.count;
                    }
                }
            }
        }
    }

    fn host(&mut self, by: CompareBy) {
        let facts = self.facts;
        let spans = facts.trace().spans();
        if matches!(by, CompareBy::Kernel | CompareBy::Class) {
            return;
        }
        for (row, &self_ns) in facts.self_time().span_ns.iter().enumerate() {
            let span = SpanId(row as u32);
            if self_ns == 0 || facts.waits().kind(span).is_some() {
                continue;
            }
            let name = |id: SpanId| facts.names().merged(spans.name(id));
            let key = match by {
                CompareBy::Operator => match facts.frames().operator(span) {
                    Some(operator) => KeyId::Name(name(operator)),
                    None => KeyId::Word("[outside of operators]"),
                },
                CompareBy::Function => match facts.frames().line(span) {
                    Some(line) => KeyId::Function(name(line)),
                    None => KeyId::Word(NONE),
                },
                _ => KeyId::Word(facts.phases().of(span).map_or(NONE, |phase| phase.text())),
            };
            let at = self.steps.row_at(spans.start(span));
            self.add(Place::Host, key, at, i128::from(self_ns));
        }
    }

    fn finish(mut self) -> CompareSeries {
        self.name_classes(&[]);
        self.series
    }
}

/// `model.py(5): forward` without the line.
fn function_text(name: &str) -> String {
    match Frame::parse(name) {
        Frame::Code { file, function } => format!("{file}: {function}"),
        _ => name.to_owned(),
    }
}

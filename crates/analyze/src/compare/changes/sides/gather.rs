//! From a trace to the values of its steps.
//!
//! GPU work belongs to the step that launched it, a thread's time to the step in which it
//! passed: a span that reaches from one step into the next is cut. What lies outside of the
//! steps and phases asked for is summed up, so that inside and outside are the whole (I9).

use std::collections::{BTreeMap, HashMap};

use spanwise_model::{ArgValue, NO_ROW, SpanId, SpanKind, StrId};

use crate::compare::changes::causes::achieved::{Achieved, achieved};
use crate::compare::changes::sides::aspects;
use crate::compare::changes::sides::keys::{KeyId, Keyer};
use crate::compare::changes::sides::observed;
use crate::compare::changes::sides::series::{
    Aspect, Behind, Cell, CompareBy, ComparePlace, CompareSeries, Group, RowSeries,
};
use crate::compare::changes::sides::sums::{Kind, PlacedWork, Signature, Sum, Sums, placed_work};
use crate::compare::changes::sides::window::Window;
use crate::gpu::launching_frame::Launchers;
use crate::training::steps::ignored_steps;
use crate::{ClassRules, Facts, Phase, TotalNanos};

/// What to compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompareOptions {
    pub by: CompareBy,
    /// Only this phase.
    pub phase: Option<Phase>,
    /// Only steps with these numbers, both ends included.
    pub steps: Option<(i64, i64)>,
    /// Whether to keep the Python stacks behind each row.
    pub with_stacks: bool,
}

impl CompareOptions {
    pub fn by(by: CompareBy) -> Self {
        CompareOptions { by, phase: None, steps: None, with_stacks: false }
    }
}

/// So many names behind a row are kept, those with most time.
const KERNELS_MAX: usize = 64;
const LINES_MAX: usize = 8;
const STACKS_MAX: usize = 3;

/// What causes are searched for in, whatever the rows are.
const ALWAYS: [CompareBy; 3] = [CompareBy::Operator, CompareBy::Module, CompareBy::PythonLine];

/// How many steps of a phase, or of all, a trace has; one where it has no steps.
pub fn steps_of(facts: &Facts, phase: Option<Phase>) -> u64 {
    let options = CompareOptions { phase, ..CompareOptions::by(CompareBy::Operator) };
    Window::new(facts, &options).count() as u64
}

pub fn compare_series(
    facts: &Facts,
    rules: &ClassRules,
    options: &CompareOptions,
) -> CompareSeries {
    let mut window = Window::new(facts, options);
    let launchers = Launchers::new(facts.trace(), facts.frames(), facts.names());
    let mut keyer = Keyer::new(facts, options.by, options.with_stacks, &launchers, rules);
    let (mut work, mut sums) = summed_up(&mut keyer, &window);
    let rows = sums.kinds.len() + observed::rows_max(facts.trace());
    let mut ignored = ignored_steps(facts.trace()).unwrap_or(0);
    if rows.saturating_mul(window.count()) > cells_max(facts) {
        ignored = window.steps.rows().len();
        window = Window::whole(facts, options);
        (work, sums) = summed_up(&mut keyer, &window);
    }
    let mut series = window.series(facts);
    series.ignored_steps = ignored as u64;
    for sum in &sums.sums {
        let place = sums.kinds[sum.of as usize].signature.place;
        *series.inside.entry(place).or_default() += sum.cell.ns;
    }
    series.outside = std::mem::take(&mut sums.outside);
    let achieved = achieved(facts, &sums.kinds, &work);
    let sampled = sums.kinds.iter().zip(achieved);
    let sampled: Vec<Sampled> =
        sampled.map(|(kind, achieved)| Sampled::of(facts, kind, achieved)).collect();
    for by in ALWAYS.into_iter().chain([options.by]) {
        series.groups.entry(Aspect::Rows(by)).or_insert_with(|| {
            let with_stacks = options.with_stacks && by == options.by;
            let mut gathering = Gathering::new(&mut keyer, by, with_stacks, window.count());
            gathering.add(&sums, &sampled);
            gathering.finish()
        });
    }
    observed::gather(facts, &window, &mut series);
    aspects::gather(facts, &window, &work, &launchers, &mut series);
    series
}

/// Every row has a value for each step. In a recording most rows come up in most steps, so that
/// these values are about as many as its spans. Where they are many times that, as in a file
/// made of nothing but steps and names, the trace is compared as one step.
fn cells_max(facts: &Facts) -> usize {
    let trace = facts.trace();
    let rows = trace.spans().len() + trace.samples().len() + trace.thread_states().len();
    64 * rows + (1 << 16)
}

fn summed_up(keyer: &mut Keyer<'_>, window: &Window) -> (Vec<PlacedWork>, Sums) {
    let work = placed_work(keyer.facts(), window);
    let mut sums = Sums::default();
    sums.add_work(keyer, &work);
    sums.add_time(keyer, window);
    (work, sums)
}

/// A row while it is collected, in the trace's own numbers.
#[derive(Default)]
struct Row {
    cells: Vec<Cell>,
    kernels: BTreeMap<StrId, Cell>,
    lines: BTreeMap<StrId, Cell>,
    stacks: BTreeMap<u32, Cell>,
    sampled: Sampled,
}

impl Row {
    /// Adds what stands behind a sum.
    fn add(&mut self, of: &Signature, with_stacks: bool, cell: Cell) {
        if let Some(kernel) = of.kernel() {
            self.kernels.entry(kernel).or_default().add(cell);
        }
        if let Some(line) = of.line() {
            self.lines.entry(line).or_default().add(cell);
        }
        if with_stacks {
            self.stacks.entry(of.stack()).or_default().add(cell);
        }
    }
}

/// The rows of one grouping.
struct Gathering<'a, 'k> {
    keyer: &'a mut Keyer<'k>,
    by: CompareBy,
    with_stacks: bool,
    steps: usize,
    /// Looked up only.
    numbers: HashMap<(ComparePlace, KeyId), usize>,
    /// In order of first use.
    rows: Vec<((ComparePlace, KeyId), Row)>,
}

impl<'a, 'k> Gathering<'a, 'k> {
    fn new(keyer: &'a mut Keyer<'k>, by: CompareBy, with_stacks: bool, steps: usize) -> Self {
        let (numbers, rows) = (HashMap::new(), Vec::new());
        Gathering { keyer, by, with_stacks, steps, numbers, rows }
    }

    /// The row of a kind of work in a step; `None` where it is not grouped.
    fn row(&mut self, kind: &Kind, at: usize) -> Option<usize> {
        let place = kind.signature.place;
        let key = match place {
            ComparePlace::Gpu => self.keyer.gpu(self.by, kind.span, at),
            _ => self.keyer.host(self.by, kind.span, at)?,
        };
        let (steps, rows) = (self.steps, &mut self.rows);
        Some(*self.numbers.entry((place, key)).or_insert_with(|| {
            let cells = vec![Cell::default(); steps];
            rows.push(((place, key), Row { cells, ..Row::default() }));
            rows.len() - 1
        }))
    }

    fn add(&mut self, sums: &Sums, sampled: &[Sampled]) {
        if self.by == CompareBy::Step {
            for sum in &sums.sums {
                self.add_to_step(sum, sums, sampled);
            }
            return;
        }
        // All but steps is the same in every step.
        let mut totals = vec![Cell::default(); sums.kinds.len()];
        sums.sums.iter().for_each(|sum| totals[sum.of as usize].add(sum.cell));
        let mut row_of = vec![None; sums.kinds.len()];
        for (number, kind) in sums.kinds.iter().enumerate() {
            // It may lie outside of what was asked for.
            if totals[number] == Cell::default() {
                continue;
            }
            row_of[number] = self.row(kind, 0);
            if let Some(row) = row_of[number] {
                let row = &mut self.rows[row].1;
                row.add(&kind.signature, self.with_stacks, totals[number]);
                row.sampled.add(&sampled[number]);
            }
        }
        for sum in &sums.sums {
            if let Some(row) = row_of[sum.of as usize] {
                self.rows[row].1.cells[sum.at].add(sum.cell);
            }
        }
    }

    fn add_to_step(&mut self, sum: &Sum, sums: &Sums, sampled: &[Sampled]) {
        let kind = &sums.kinds[sum.of as usize];
        let Some(row) = self.row(kind, sum.at) else { return };
        let row = &mut self.rows[row].1;
        row.cells[sum.at].add(sum.cell);
        row.add(&kind.signature, self.with_stacks, sum.cell);
        row.sampled.add(&sampled[sum.of as usize]);
    }

    fn finish(self) -> Group {
        let mut group = Group::new();
        let facts = self.keyer.facts();
        for ((place, key), row) in self.rows {
            let name = |id: StrId| facts.names().text(id).into_owned();
            let stack = |path: u32| match path {
                NO_ROW => "[no Python frame]".to_owned(),
                path => self.keyer.stacks.text(facts, path),
            };
            let series = RowSeries {
                cells: row.cells,
                behind: Behind {
                    kernels: largest(row.kernels, KERNELS_MAX, name),
                    lines: largest(row.lines, LINES_MAX, name),
                    stacks: largest(row.stacks, STACKS_MAX, stack),
                    shapes: row.sampled.shapes,
                    copied_bytes: row.sampled.copied.0,
                    copied_ns: row.sampled.copied.1,
                    achieved: row.sampled.achieved,
                },
            };
            // Several lines of one function are one key.
            group.entry((place, self.keyer.text(key))).or_default().add(series);
        }
        group
    }
}

/// What only the source knows, of a sample of the work: shapes of inputs with their counts,
/// bytes and time of copies, and what operators achieved.
#[derive(Default)]
struct Sampled {
    shapes: BTreeMap<String, u64>,
    copied: (TotalNanos, TotalNanos),
    achieved: Achieved,
}

impl Sampled {
    fn of(facts: &Facts, kind: &Kind, achieved: Achieved) -> Self {
        let mut sampled = Sampled { achieved, ..Sampled::default() };
        kind.sampled.iter().for_each(|&work| sampled.read_args(facts, work));
        sampled
    }

    fn add(&mut self, other: &Sampled) {
        for (shape, count) in &other.shapes {
            *self.shapes.entry(shape.clone()).or_default() += count;
        }
        self.copied.0 += other.copied.0;
        self.copied.1 += other.copied.1;
        self.achieved.add(&other.achieved);
    }

    fn read_args(&mut self, facts: &Facts, work: SpanId) {
        let trace = facts.trace();
        if trace.kind(work) == SpanKind::Memcpy {
            let bytes = trace.pick_args(work, &["bytes"]).ok();
            let bytes = bytes.and_then(|args| args.first()?.as_ref().and_then(ArgValue::as_i64));
            if let Some(bytes) = bytes.filter(|&bytes| bytes > 0) {
                self.copied.0 += i128::from(bytes);
                self.copied.1 += i128::from(trace.spans().dur(work));
            }
        }
        let operator = trace.spans().launch(work).and_then(|call| facts.frames().operator(call));
        let shapes = operator.and_then(|operator| trace.pick_args(operator, &["Input Dims"]).ok());
        let shapes = shapes.and_then(|args| args.into_iter().next().flatten());
        if let Some(shapes) = shapes {
            let mut text = String::new();
            write_shape(&shapes, &mut text);
            *self.shapes.entry(text).or_default() += 1;
        }
    }
}

/// `[[1, 64], [64, 8]]`, as the source would write it.
fn write_shape(value: &ArgValue, text: &mut String) {
    match value {
        ArgValue::Int(size) => text.push_str(&size.to_string()),
        ArgValue::Text(word) | ArgValue::Number(word) => text.push_str(word),
        ArgValue::List(values) => {
            text.push('[');
            for (at, value) in values.iter().enumerate() {
                if at > 0 {
                    text.push_str(", ");
                }
                write_shape(value, text);
            }
            text.push(']');
        }
        _ => text.push('?'),
    }
}

/// The entries with most time, under their names.
fn largest<K: Ord + Copy>(
    sums: BTreeMap<K, Cell>,
    most: usize,
    name: impl Fn(K) -> String,
) -> BTreeMap<String, Cell> {
    let mut named: BTreeMap<String, Cell> = BTreeMap::new();
    for (key, cell) in sums {
        named.entry(name(key)).or_default().add(cell);
    }
    let mut rows: Vec<(String, Cell)> = named.into_iter().collect();
    rows.sort_by(|a, b| b.1.ns.cmp(&a.1.ns).then_with(|| a.0.cmp(&b.0)));
    rows.truncate(most);
    rows.into_iter().collect()
}

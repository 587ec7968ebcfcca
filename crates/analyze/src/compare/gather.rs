//! From a trace to the values of its steps.
//!
//! GPU work belongs to the step that launched it, a thread's time to the step in which it
//! passed: a span that reaches from one step into the next is cut. What lies outside of the
//! steps and phases asked for is summed up, so that inside and outside are the whole (I9).

use std::collections::{BTreeMap, HashMap};

use spanwise_model::{ArgValue, NO_ROW, Nanos, SpanId, SpanKind, StrId, TrackKind};

use super::aspects;
use super::keys::{KeyId, Keyer, Stacks};
use super::series::{
    Aspect, Behind, Cell, CompareBy, CompareSeries, Group, Place, RowSeries, StepOf,
};
use crate::gpu::gpu_work;
use crate::launch::Launchers;
use crate::phase_use::{phase_walls, step_phases};
use crate::self_time::{innermost_pieces, takes_part};
use crate::steps::Steps;
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

/// So many pieces of work of a row are asked for the arguments of their source.
const SAMPLED_MAX: u32 = 64;

/// What causes are looked for in, whatever the rows are.
const ALWAYS: [CompareBy; 3] = [CompareBy::Operator, CompareBy::Module, CompareBy::PythonLine];

pub fn compare_series(
    facts: &Facts<'_>,
    rules: &ClassRules,
    options: &CompareOptions,
) -> CompareSeries {
    let window = Window::new(facts, options);
    let (work, time) = (placed_work(facts, &window), placed_time(facts, &window));
    let mut series = window.series(facts);
    for (place, at, ns) in work
        .iter()
        .map(|row| (Place::Gpu, row.at, i128::from(facts.trace().spans().dur(row.work))))
        .chain(time.iter().map(|row| (row.place, row.at, row.ns)))
    {
        let sums = if at.is_some() { &mut series.inside } else { &mut series.outside };
        *sums.entry(place).or_default() += ns;
    }
    let launchers = Launchers::new(facts.trace(), facts.frames(), facts.names());
    let stacks = options.with_stacks.then(|| Stacks::new(facts));
    for by in ALWAYS.into_iter().chain([options.by]) {
        if series.groups.contains_key(&Aspect::Rows(by)) {
            continue;
        }
        let keyer = Keyer::new(facts, by, &launchers, rules);
        let stacks = stacks.as_ref().filter(|_| by == options.by);
        let mut gathering = Gathering::new(facts, keyer, &launchers, stacks, window.count());
        gathering.gpu(&work);
        gathering.host(&time);
        series.groups.insert(Aspect::Rows(by), gathering.finish());
    }
    aspects::gather(facts, &window, &work, &mut series);
    series
}

/// Which steps and phases count.
pub(super) struct Window {
    pub(super) steps: Steps,
    /// By row of the steps: its place among those that count.
    shown: Vec<Option<usize>>,
    has_steps: bool,
    phase: Option<Phase>,
    of: Vec<StepOf>,
    wall: Vec<TotalNanos>,
    pub(super) phase_walls: BTreeMap<(Phase, Option<usize>), TotalNanos>,
}

impl Window {
    fn new(facts: &Facts<'_>, options: &CompareOptions) -> Self {
        let steps = Steps::new(facts.trace());
        let has_steps = !steps.rows().is_empty();
        let phase_walls = phase_walls(facts, &steps);
        let in_phase =
            |at: Option<usize>| options.phase.map(|phase| phase_walls.get(&(phase, at)).copied());
        let kinds = step_phases(facts, &steps);
        let (mut shown, mut of, mut wall) = (Vec::new(), Vec::new(), Vec::new());
        for (at, step) in steps.rows().iter().enumerate() {
            let is_asked =
                options.steps.is_none_or(|(from, to)| from <= step.number && step.number <= to);
            let length = i128::from(step.end) - i128::from(step.start);
            let length = in_phase(Some(at)).unwrap_or(Some(length)).filter(|_| is_asked);
            shown.push(length.map(|_| of.len()));
            if let Some(length) = length {
                of.push(StepOf { number: step.number, phase: kinds[at] });
                wall.push(length);
            }
        }
        let whole = in_phase(None).unwrap_or(Some(facts.window_ns()));
        if let Some(length) = whole.filter(|_| !has_steps) {
            of.push(StepOf { number: 0, phase: None });
            wall.push(length);
        }
        Window { steps, shown, has_steps, phase: options.phase, of, wall, phase_walls }
    }

    pub(super) fn count(&self) -> usize {
        self.of.len()
    }

    fn series(&self, facts: &Facts<'_>) -> CompareSeries {
        let mut phases: Vec<Phase> = self.phase_walls.keys().map(|&(phase, _)| phase).collect();
        phases.dedup();
        CompareSeries {
            rank: facts.trace().info().rank,
            steps: self.of.clone(),
            has_steps: self.has_steps,
            wall: self.wall.clone(),
            phases,
            ..CompareSeries::default()
        }
    }

    /// The place of a row of the steps among those that count.
    pub(super) fn place(&self, row: Option<usize>) -> Option<usize> {
        match self.has_steps {
            true => self.shown[row?],
            false => (!self.of.is_empty()).then_some(0),
        }
    }

    pub(super) fn at(&self, time: Nanos) -> Option<usize> {
        self.place(self.steps.row_at(time))
    }

    pub(super) fn is_in_phase(&self, facts: &Facts<'_>, span: SpanId) -> bool {
        self.phase.is_none_or(|phase| facts.phases().of(span) == Some(phase))
    }
}

/// GPU work, and the step it counts for.
pub(super) struct PlacedWork {
    pub(super) work: SpanId,
    pub(super) at: Option<usize>,
}

fn placed_work(facts: &Facts<'_>, window: &Window) -> Vec<PlacedWork> {
    let spans = facts.trace().spans();
    let at = |work: SpanId| match spans.launch(work) {
        Some(call) => window.at(spans.start(call)),
        None => window.place(None),
    };
    let placed = |work: SpanId| PlacedWork {
        work,
        at: at(work).filter(|_| window.is_in_phase(facts, work)),
    };
    gpu_work(facts.trace()).map(placed).collect()
}

/// A piece of a thread's time, and the step it counts for.
struct PlacedTime {
    span: SpanId,
    place: Place,
    at: Option<usize>,
    ns: TotalNanos,
    /// The first piece of its span.
    is_first: bool,
}

fn placed_time(facts: &Facts<'_>, window: &Window) -> Vec<PlacedTime> {
    let trace = facts.trace();
    let takes_part = takes_part(trace);
    let mut is_seen = vec![false; trace.spans().len()];
    let mut pieces: Vec<PlacedTime> = Vec::new();
    let mut add = |span: SpanId, from: Nanos, to: Nanos| {
        let place = match facts.waits().kind(span) {
            Some(_) => Place::Waiting,
            None => Place::Host,
        };
        let is_asked = window.is_in_phase(facts, span);
        let mut from = from;
        while from < to {
            let row = window.steps.row_at(from);
            let end = match row {
                Some(row) => window.steps.rows()[row].end,
                None => window.steps.at(from).1,
            };
            let end = end.min(to);
            let is_first = !std::mem::replace(&mut is_seen[span.index()], true);
            let at = window.place(row).filter(|_| is_asked);
            let ns = i128::from(end) - i128::from(from);
            pieces.push(PlacedTime { span, place, at, ns, is_first });
            from = end;
        }
    };
    for (thread, track) in trace.tracks().iter() {
        if track.kind == TrackKind::Thread {
            innermost_pieces(trace, thread, &takes_part, &mut add);
        }
    }
    pieces
}

/// A row while it is collected, in the trace's own numbers.
#[derive(Default)]
struct Row {
    cells: Vec<Cell>,
    kernels: BTreeMap<StrId, Cell>,
    lines: BTreeMap<StrId, Cell>,
    stacks: BTreeMap<u32, Cell>,
    shapes: BTreeMap<String, u64>,
    sampled: u32,
    copied: (TotalNanos, TotalNanos),
}

struct Gathering<'a, 't> {
    facts: &'a Facts<'t>,
    keyer: Keyer<'a, 't>,
    launchers: &'a Launchers<'a>,
    stacks: Option<&'a Stacks>,
    steps: usize,
    /// Looked up only.
    numbers: HashMap<(Place, KeyId), usize>,
    /// In order of first use.
    rows: Vec<((Place, KeyId), Row)>,
}

impl<'a, 't> Gathering<'a, 't> {
    fn new(
        facts: &'a Facts<'t>,
        keyer: Keyer<'a, 't>,
        launchers: &'a Launchers<'a>,
        stacks: Option<&'a Stacks>,
        steps: usize,
    ) -> Self {
        let (numbers, rows) = (HashMap::new(), Vec::new());
        Gathering { facts, keyer, launchers, stacks, steps, numbers, rows }
    }

    fn row(&mut self, key: (Place, KeyId)) -> &mut Row {
        let (steps, rows) = (self.steps, &mut self.rows);
        let number = *self.numbers.entry(key).or_insert_with(|| {
            rows.push((key, Row { cells: vec![Cell::default(); steps], ..Row::default() }));
            rows.len() - 1
        });
        &mut self.rows[number].1
    }

    fn gpu(&mut self, work: &[PlacedWork]) {
        let (facts, stacks) = (self.facts, self.stacks);
        let spans = facts.trace().spans();
        for &PlacedWork { work, at } in work {
            let Some(at) = at else { continue };
            let key = self.keyer.gpu(work, at);
            let launcher = self.launchers.of(work);
            let cell = Cell { ns: i128::from(spans.dur(work)), count: 1 };
            let row = self.row((Place::Gpu, key));
            row.cells[at].add(cell);
            row.kernels.entry(facts.names().merged(spans.name(work))).or_default().add(cell);
            if let Some(line) = launcher.line {
                row.lines.entry(line).or_default().add(cell);
            }
            if let Some((stacks, call)) = stacks.zip(spans.launch(work)) {
                row.stacks.entry(stacks.path_of(call)).or_default().add(cell);
            }
            if row.sampled < SAMPLED_MAX {
                row.sampled += 1;
                row.sample(facts, work);
            }
        }
    }

    fn host(&mut self, time: &[PlacedTime]) {
        let (facts, stacks) = (self.facts, self.stacks);
        for piece in time {
            let Some(at) = piece.at else { continue };
            let Some(key) = self.keyer.host(piece.span, at) else { return };
            let cell = Cell { ns: piece.ns, count: u64::from(piece.is_first) };
            let row = self.row((piece.place, key));
            row.cells[at].add(cell);
            if let Some(line) = facts.frames().line(piece.span) {
                let line = facts.names().merged(facts.trace().spans().name(line));
                row.lines.entry(line).or_default().add(cell);
            }
            if let Some(stacks) = stacks {
                row.stacks.entry(stacks.path_of(piece.span)).or_default().add(cell);
            }
        }
    }

    fn finish(self) -> Group {
        let mut group = Group::new();
        for ((place, key), row) in self.rows {
            let name = |id: StrId| self.facts.names().text(id).into_owned();
            let stack = |path: u32| match self.stacks {
                Some(stacks) if path != NO_ROW => stacks.text(self.facts, path),
                _ => "[no Python frame]".to_owned(),
            };
            let series = RowSeries {
                cells: row.cells,
                behind: Behind {
                    kernels: largest(row.kernels, KERNELS_MAX, name),
                    lines: largest(row.lines, LINES_MAX, name),
                    stacks: largest(row.stacks, STACKS_MAX, stack),
                    shapes: row.shapes,
                    copied_bytes: row.copied.0,
                    copied_ns: row.copied.1,
                },
            };
            // Several lines of one function are one key.
            group.entry((place, self.keyer.text(key))).or_default().add(series);
        }
        group
    }
}

impl Row {
    /// Looks up what only the source knows.
    fn sample(&mut self, facts: &Facts<'_>, work: SpanId) {
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

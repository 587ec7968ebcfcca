//! Functions by what samples say of them.

use std::collections::{BTreeMap, HashMap};

use spanwise_model::{Frame, FrameId, FrameKind, NO_TIME, StackId, StrId, Trace, TrackId};

use super::by_stack::{StackWeight, outermost_of_each, with_called};
use super::python::start_up::StartUps;
use crate::cpu::native::own_code::{has_python, is_own_code};
use crate::cpu::native::start_up::start_up_stacks;
use crate::cpu::python::{is_entry_script, is_library_file};
use crate::{Facts, TotalNanos};

/// What makes a row of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FunctionBy {
    #[default]
    Function,
    /// A function with the line that was executed.
    Line,
}

impl FunctionBy {
    /// What options call each.
    pub const NAMES: [(&'static str, FunctionBy); 2] =
        [("function", FunctionBy::Function), ("line", FunctionBy::Line)];
}

/// Functions over all threads, most self weight first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SampledFunctions {
    pub event: String,
    /// What weights count.
    pub unit: String,
    pub rows: Vec<SampledFunction>,
    /// All weight of the event: that of all rows, and what no sample speaks for.
    pub total: i128,
    /// CPU time that no sample speaks for.
    pub no_sample: i128,
    /// CPU time in which the kernel switched threads, where no samples can be.
    pub switching: i128,
    /// All samples of the event; 0 where a source has sums of them, and does not say of how many.
    pub samples: u64,
    /// CPU time of native programs before their `main` ran.
    pub start_up: i128,
}

/// One function, or one line of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampledFunction {
    pub name: String,
    pub kind: FrameKind,
    /// The file that was mapped; empty where that is not known.
    pub mapping: String,
    pub file: String,
    /// Where the function was executed, by [`FunctionBy::Line`]; 0 where that is not known.
    pub line: u32,
    /// Its line with the most self weight, where lines are known.
    pub hottest: Option<HottestLine>,
    /// While it was the innermost.
    pub own: i128,
    /// While it was on the stack, however often.
    pub total: i128,
    /// Samples in which it was the innermost.
    pub samples: u64,
    /// Samples in which it was on the stack.
    pub total_samples: u64,
    /// It is of the program itself, not of a library of the system or the kernel.
    pub is_own_code: bool,
    /// The part of its own before `main` ran.
    pub start_up: i128,
}

/// The line of a function with the most self weight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HottestLine {
    pub file: String,
    pub line: u32,
    /// Weight while it was executed and innermost.
    pub own: i128,
}

impl SampledFunctions {
    /// The share of a weight, in percent.
    pub fn percent(&self, weight: i128) -> f64 {
        if self.total == 0 { 0.0 } else { 100.0 * weight as f64 / self.total as f64 }
    }

    /// By how much a share may be off, in percent points: [`share_error_percent`].
    pub fn error_percent(&self, samples: u64) -> Option<f64> {
        share_error_percent(samples, self.samples)
    }
}

/// By how much a share that so many of all samples show may be off, in percent points: in 19 of
/// 20 recordings of the same program it is off by less. Unknown with no sample at all.
pub fn share_error_percent(samples: u64, all_samples: u64) -> Option<f64> {
    let all = all_samples as f64;
    if all_samples == 0 {
        return None;
    }
    let share = samples as f64 / all;
    // Wilson's interval is good for shares near 0 and 1, too.
    let z = 1.96_f64;
    let spread = (share * (1.0 - share) / all + z * z / (4.0 * all * all)).sqrt();
    Some(100.0 * z * spread / (1.0 + z * z / all))
}

/// CPU time by function.
pub fn cpu_functions(facts: &Facts, by: FunctionBy) -> SampledFunctions {
    let (trace, time) = (facts.trace(), facts.cpu_time());
    let Some(event) = time.event else {
        return SampledFunctions { unit: "ns".to_owned(), ..SampledFunctions::default() };
    };
    let samples = trace.samples();
    let of_event = (0..samples.len()).filter(|&row| samples.event[row] == event);
    let weight = |row: usize| StackWeight::new(time.sample_ns[row], time.count());
    let weights = of_event.map(|row| (StackId(samples.stack[row]), weight(row)));
    let weights: Vec<(StackId, StackWeight)> = weights.collect();
    let mut found = functions(trace, weights.iter().copied(), by);
    set_start_up(trace, &weights, by, &mut found);
    SampledFunctions {
        event: event_name(trace, event),
        unit: "ns".to_owned(),
        total: time.total_ns(),
        no_sample: time.no_sample_ns(),
        switching: time.switching_ns(),
        ..found
    }
}

/// How much of its own time each function had before the program's `main` ran. Programs of Python
/// have a start-up of their own, which begins there.
fn set_start_up(
    trace: &Trace,
    weights: &[(StackId, StackWeight)],
    by: FunctionBy,
    found: &mut SampledFunctions,
) {
    if has_python(trace) {
        return;
    }
    let is_start_up = start_up_stacks(trace);
    let early = weights.iter().copied().filter(|(stack, _)| is_start_up[stack.index()]);
    let early = functions(trace, early, by).rows;
    let key = |row: &SampledFunction| {
        (row.name.clone(), row.mapping.clone(), row.kind, row.file.clone(), row.line)
    };
    let own: HashMap<_, i128> = early.iter().map(|row| (key(row), row.own)).collect();
    for row in &mut found.rows {
        row.start_up = own.get(&key(row)).copied().unwrap_or(0);
    }
    found.start_up = found.rows.iter().map(|row| row.start_up).sum();
}

/// CPU time by line of native code, where lines are known.
pub fn native_lines(facts: &Facts) -> SampledFunctions {
    let mut found = cpu_functions(facts, FunctionBy::Line);
    found.rows.retain(|row| row.kind == FrameKind::Native && row.line > 0);
    found
}

/// Functions by what an event counts, in its own unit.
pub fn event_functions(facts: &Facts, event: u16, by: FunctionBy) -> SampledFunctions {
    let trace = facts.trace();
    let samples = trace.samples();
    let of_event = (0..samples.len()).filter(|&row| samples.event[row] == event);
    let count = sample_count(trace, event);
    let weight = |row: usize| StackWeight::new(samples.weight[row], count(samples.weight[row]));
    let weights = of_event.map(|row| (StackId(samples.stack[row]), weight(row)));
    let found = functions(trace, weights, by);
    let unit = trace.sample_events().rows()[usize::from(event)].unit;
    SampledFunctions {
        event: event_name(trace, event),
        unit: trace.strings().get(unit).to_owned(),
        total: found.rows.iter().map(|row| row.own).sum(),
        ..found
    }
}

/// Every event but the one that stands for CPU time, with its functions.
pub fn other_events(facts: &Facts, by: FunctionBy) -> Vec<SampledFunctions> {
    let clock = facts.cpu_time().event;
    let events = 0..facts.trace().sample_events().len() as u16;
    let others = events.filter(|&event| Some(event) != clock);
    let found = others.map(|event| event_functions(facts, event, by));
    found.filter(|functions| !functions.rows.is_empty()).collect()
}

/// How many samples a row of an event is. Profiles have sums: of those that count samples it
/// is the weight, of others nobody knows, which is 0.
fn sample_count(trace: &Trace, event: u16) -> fn(i64) -> u64 {
    let samples = trace.samples();
    let mut rows = (0..samples.len()).filter(|&row| samples.event[row] == event);
    let row = trace.sample_events().rows()[usize::from(event)];
    let is_timed = rows.any(|row| samples.time[row] != NO_TIME) || row.interval_ns.is_some();
    match trace.strings().get(row.unit) {
        _ if is_timed => |_| 1,
        "samples" => |weight| u64::try_from(weight).unwrap_or(0),
        _ => |_| 0,
    }
}

pub(super) fn event_name(trace: &Trace, event: u16) -> String {
    trace.strings().get(trace.sample_events().rows()[usize::from(event)].name).to_owned()
}

/// What a frame is called in tables and profiles.
pub fn frame_name(trace: &Trace, frame: &Frame) -> String {
    let text = |id: StrId| trace.strings().get(id);
    match (text(frame.function), text(frame.mapping)) {
        ("", "") => "[unknown]".to_owned(),
        ("", mapping) => format!("[unknown] ({mapping})"),
        (function, _) => function.to_owned(),
    }
}

/// What a row is about.
type RowKey = (String, StrId, FrameKind, StrId, u32);

pub(super) fn functions(
    trace: &Trace,
    weights: impl Iterator<Item = (StackId, StackWeight)>,
    by: FunctionBy,
) -> SampledFunctions {
    let stacks = trace.stacks();
    let mut own = vec![StackWeight::default(); stacks.len()];
    let mut samples = 0;
    for (stack, weight) in weights {
        own[stack.index()].add(weight);
        samples += weight.samples;
    }
    let all = with_called(stacks, &own);
    let (row_of, mut rows) = rows(trace, by);
    set_hottest_lines(trace, &own, &row_of, &mut rows);
    let mut nothing_known = own[0];
    for (stack, own) in own.iter().enumerate().skip(1) {
        let Some(frame) = stacks.frame(StackId(stack as u32)) else { continue };
        let row = &mut rows[row_of[frame.index()] as usize];
        row.own += own.weight;
        row.samples += own.samples;
    }
    for stack in outermost_of_each(trace, &row_of, rows.len()) {
        let Some(frame) = stacks.frame(stack) else { continue };
        let row = &mut rows[row_of[frame.index()] as usize];
        row.total += all[stack.index()].weight;
        row.total_samples += all[stack.index()].samples;
    }
    if nothing_known != StackWeight::default() {
        let StackWeight { weight, samples } = std::mem::take(&mut nothing_known);
        rows.push(SampledFunction {
            name: "[no stack]".to_owned(),
            own: weight,
            total: weight,
            samples,
            total_samples: samples,
            ..empty_row()
        });
    }
    rows.retain(|row| row.total_samples > 0 || row.total != 0);
    rows.sort_by(|a, b| {
        let key =
            |row: &SampledFunction| (std::cmp::Reverse(row.own), std::cmp::Reverse(row.total));
        (key(a), &a.name, &a.mapping, a.line).cmp(&(key(b), &b.name, &b.mapping, b.line))
    });
    SampledFunctions { rows, samples, ..SampledFunctions::default() }
}

/// Finds the line of each row in which it spent most of its self weight.
fn set_hottest_lines(
    trace: &Trace,
    own: &[StackWeight],
    row_of: &[u32],
    rows: &mut [SampledFunction],
) {
    let (stacks, text) = (trace.stacks(), |id: StrId| trace.strings().get(id));
    let mut by_line: BTreeMap<(u32, &str, u32), i128> = BTreeMap::new();
    for (stack, own) in own.iter().enumerate().filter(|(_, own)| own.weight > 0) {
        let Some(frame) = stacks.frame(StackId(stack as u32)) else { continue };
        let Frame { file, line, .. } = trace.frames().get(frame);
        if line > 0 {
            *by_line.entry((row_of[frame.index()], text(file), line)).or_default() += own.weight;
        }
    }
    for ((row, file, line), own) in by_line {
        let hottest = &mut rows[row as usize].hottest;
        if hottest.as_ref().is_none_or(|hottest| hottest.own < own) {
            *hottest = Some(HottestLine { file: file.to_owned(), line, own });
        }
    }
}

fn empty_row() -> SampledFunction {
    SampledFunction {
        name: String::new(),
        kind: FrameKind::Native,
        mapping: String::new(),
        file: String::new(),
        line: 0,
        hottest: None,
        own: 0,
        total: 0,
        samples: 0,
        total_samples: 0,
        is_own_code: false,
        start_up: 0,
    }
}

/// The row of each frame, and the rows, all without weights.
fn rows(trace: &Trace, by: FunctionBy) -> (Vec<u32>, Vec<SampledFunction>) {
    let text = |id: StrId| trace.strings().get(id).to_owned();
    let mut numbers: HashMap<RowKey, u32> = HashMap::new();
    let mut rows: Vec<SampledFunction> = Vec::new();
    let has_python = has_python(trace);
    let frames = (0..trace.frames().len() as u32).map(|frame| trace.frames().get(FrameId(frame)));
    let row_of = frames.map(|frame| {
        let name = frame_name(trace, &frame);
        let (file, line) = match by {
            FunctionBy::Function => (StrId::EMPTY, 0),
            FunctionBy::Line => (frame.file, frame.line),
        };
        let key = (name, frame.mapping, frame.kind, file, line);
        let row = *numbers.entry(key).or_insert_with_key(|(name, ..)| {
            rows.push(SampledFunction {
                name: name.clone(),
                kind: frame.kind,
                mapping: text(frame.mapping),
                file: text(frame.file),
                line,
                is_own_code: is_own_code(trace, &frame, has_python),
                ..empty_row()
            });
            rows.len() as u32 - 1
        });
        // Some instructions of a function have no line.
        let file = &mut rows[row as usize].file;
        if file.is_empty() {
            *file = text(frame.file);
        }
        row
    });
    (row_of.collect(), rows)
}

impl SampledFunctions {
    /// CPU time as a sum of nanoseconds.
    pub fn total_ns(&self) -> TotalNanos {
        self.total
    }
}

/// By stack, the Python function that a reader wants to know: the innermost of the program's own,
/// or else the innermost of any.
pub(crate) fn python_callers(trace: &Trace) -> Vec<Option<FrameId>> {
    let stacks = trace.stacks();
    let file = |frame: &Frame| trace.strings().get(frame.file);
    let is_own: Vec<Option<bool>> = (0..trace.frames().len() as u32)
        .map(|frame| {
            let frame = trace.frames().get(FrameId(frame));
            let is_python = frame.kind == FrameKind::Python;
            is_python.then(|| !is_library_file(file(&frame)) && !is_entry_script(file(&frame)))
        })
        .collect();
    let mut found: Vec<Option<(FrameId, bool)>> = vec![None; stacks.len()];
    for stack in 1..stacks.len() {
        let id = StackId(stack as u32);
        let around = found[stacks.parent(id).index()];
        let own = stacks.frame(id).and_then(|frame| Some((frame, is_own[frame.index()]?)));
        found[stack] = match (own, around) {
            (Some((_, false)), Some((_, true))) | (None, _) => around,
            (own, _) => own,
        };
    }
    found.into_iter().map(|found| found.map(|(frame, _)| frame)).collect()
}

/// A sample, and the nearest stack around it that ends in Python; the empty one where none does.
#[derive(Clone, Copy)]
struct PythonSample {
    row: usize,
    stack: StackId,
    python: StackId,
}

/// CPU time by Python function or line: while it was the innermost of Python, whatever
/// native code it was in.
pub fn python_functions(facts: &Facts, by: FunctionBy) -> PythonFunctions {
    let (trace, time) = (facts.trace(), facts.cpu_time());
    let Some(event) = time.event else { return PythonFunctions::default() };
    let (rows, nearest) = (trace.samples(), nearest_python(trace));
    let of_event = (0..rows.len()).filter(|&row| rows.event[row] == event);
    let samples: Vec<PythonSample> = of_event
        .map(|row| {
            let stack = StackId(rows.stack[row]);
            PythonSample { row, stack, python: nearest[stack.index()] }
        })
        .collect();
    if samples.iter().all(|sample| sample.python == StackId::EMPTY) {
        return PythonFunctions::default();
    }
    let weighted = |sample: PythonSample| {
        (sample.python, StackWeight::new(time.sample_ns[sample.row], time.count()))
    };
    let mut found = functions(trace, samples.iter().copied().map(weighted), by);
    found.rows.retain(|row| row.kind == FrameKind::Python);
    let key = |row: &SampledFunction| (row.name.clone(), row.file.clone(), row.line);
    // By row, its own time in some of the samples.
    let part_of_rows = |is_wanted: &dyn Fn(&PythonSample) -> bool| -> Vec<i128> {
        let wanted = samples.iter().copied().filter(is_wanted);
        let part = functions(trace, wanted.map(weighted), by);
        let part_ns: HashMap<_, i128> = part.rows.iter().map(|row| (key(row), row.own)).collect();
        found.rows.iter().map(|row| part_ns.get(&key(row)).copied().unwrap_or(0)).collect()
    };
    let native = part_of_rows(&|sample| sample.stack != sample.python);
    let starts = StartUps::new(facts);
    let start_up = part_of_rows(&|&PythonSample { row, .. }| {
        starts.contains(TrackId(rows.track[row]), rows.time[row])
    });
    let functions = SampledFunctions {
        event: event_name(trace, event),
        unit: "ns".to_owned(),
        total: time.total_ns(),
        no_sample: time.no_sample_ns(),
        switching: time.switching_ns(),
        ..found
    };
    PythonFunctions { functions, native, start_up }
}

/// By stack, the nearest one around it that ends in Python.
fn nearest_python(trace: &Trace) -> Vec<StackId> {
    let stacks = trace.stacks();
    let is_python = |frame: FrameId| trace.frames().kind(frame) == FrameKind::Python;
    let mut nearest = vec![StackId::EMPTY; stacks.len()];
    for stack in 1..stacks.len() {
        let id = StackId(stack as u32);
        let ends_in_python = stacks.frame(id).is_some_and(is_python);
        nearest[stack] = if ends_in_python { id } else { nearest[stacks.parent(id).index()] };
    }
    nearest
}

/// Python functions, and for each how much of its own time was in native code.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PythonFunctions {
    pub functions: SampledFunctions,
    /// By row.
    pub native: Vec<i128>,
    /// By row, how much of its own time was before the program had started.
    pub start_up: Vec<i128>,
}

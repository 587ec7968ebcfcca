//! What samples and thread states add to the values of steps.
//!
//! A thread that was annotated has its time from its spans. One that was observed from outside
//! has the CPU time of its samples as work of the host, in the step in which each was taken, and
//! its waits as waiting; time without any work to do is no waiting.

use std::collections::{BTreeMap, HashMap};

use spanwise_model::{FrameId, FrameKind, Nanos, StackId, ThreadState, Trace, TrackId};

use crate::compare::changes::sides::pairs::INSIDE;
use crate::compare::changes::sides::series::{
    Aspect, Behind, Cell, CompareBy, ComparePlace, CompareSeries, Group, RowSeries,
};
use crate::compare::changes::sides::window::{StepCursor, Window};
use crate::cpu::sampled::{NO_SAMPLE, frame_name};
use crate::{Facts, TotalNanos};

/// So many lines behind a row are kept, those with most time.
const LINES_MAX: usize = 8;

/// So many frames of a stack are shown, the inner ones.
const FRAMES_MAX: usize = 256;

const NONE: &str = "[none]";

/// Rows are about as many at most; none of an annotated trace.
pub(in crate::compare::changes) fn rows_max(trace: &Trace) -> usize {
    if trace.samples().is_empty() && trace.thread_states().is_empty() {
        return 0;
    }
    trace.frames().len().min(trace.samples().len()) + usize::from(ThreadState::CODES)
}

/// Adds observed time to the groups that are there.
pub(in crate::compare::changes) fn gather(
    facts: &Facts,
    window: &Window,
    series: &mut CompareSeries,
) {
    let trace = facts.trace();
    if trace.samples().is_empty() && trace.thread_states().is_empty() {
        return;
    }
    let pieces = pieces(facts, window);
    for piece in &pieces {
        let sums = if piece.at.is_some() { &mut series.inside } else { &mut series.outside };
        *sums.entry(piece.of.place()).or_default() += TotalNanos::from(piece.ns);
    }
    for (aspect, group) in &mut series.groups {
        if let Aspect::Rows(by) = *aspect {
            add_to(group, trace, by, &pieces, window.count());
        }
    }
}

/// What time was observed to be spent on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum ObservedTime {
    Sampled(StackId),
    /// CPU time that no sample speaks for.
    NoSample,
    Waiting(ThreadState, StackId),
}

impl ObservedTime {
    fn place(self) -> ComparePlace {
        match self {
            ObservedTime::Sampled(_) | ObservedTime::NoSample => ComparePlace::Host,
            ObservedTime::Waiting(..) => ComparePlace::Waiting,
        }
    }
}

/// A part of a thread's time.
struct Piece {
    /// The step among those that are compared.
    at: Option<usize>,
    of: ObservedTime,
    ns: Nanos,
}

fn pieces(facts: &Facts, window: &Window) -> Vec<Piece> {
    let (trace, time) = (facts.trace(), facts.cpu_time());
    let mut is_annotated = vec![false; trace.tracks().len()];
    for thread in facts.self_time().threads.iter().filter(|thread| thread.busy_ns > 0) {
        is_annotated[thread.track.index()] = true;
    }
    let is_observed = |track: TrackId| !is_annotated[track.index()];
    let in_phase = |at: Option<usize>| at.filter(|_| !window.has_phase());
    let samples = trace.samples();
    let mut pieces = Vec::new();
    for (row, sample) in samples.iter().enumerate() {
        if Some(sample.event) == time.event && is_observed(sample.track) {
            let (at, ns) = (in_phase(window.at(sample.time)), time.sample_ns[row]);
            pieces.push(Piece { at, of: ObservedTime::Sampled(sample.stack), ns });
        }
    }
    let unseen = time.no_sample.iter().chain(&time.switching);
    for &(_, ns) in unseen.filter(|row| is_observed(row.0)) {
        // Nobody knows in which step that was.
        let at = in_phase(window.only_step());
        pieces.push(Piece { at, of: ObservedTime::NoSample, ns });
    }
    let mut cursor = StepCursor::new(window);
    for state in trace.thread_states().iter_counted().filter(|row| is_observed(row.track)) {
        if !is_wait(state.state) {
            continue;
        }
        let (mut from, end) = (state.start, state.start.saturating_add(state.dur));
        while from < end {
            let at = in_phase(cursor.place(from));
            let until = cursor.until.min(end);
            let of = ObservedTime::Waiting(state.state, state.stack);
            pieces.push(Piece { at, of, ns: until.saturating_sub(from) });
            from = until;
        }
    }
    pieces
}

fn is_wait(state: ThreadState) -> bool {
    match state {
        ThreadState::Running | ThreadState::Unrecorded => false,
        ThreadState::Blocked(on) => !on.is_idle(),
        ThreadState::Runnable(_) => true,
    }
}

/// Adds pieces to a grouping.
fn add_to(group: &mut Group, trace: &Trace, by: CompareBy, pieces: &[Piece], steps: usize) {
    let mut numbers: HashMap<(ObservedTime, usize), Option<usize>> = HashMap::new();
    let mut by_text: BTreeMap<(ComparePlace, String), usize> = BTreeMap::new();
    let mut rows: Vec<(Vec<Cell>, BTreeMap<String, Cell>)> = Vec::new();
    let frames = line_frames(trace);
    let mut lines: HashMap<StackId, Option<String>> = HashMap::new();
    for piece in pieces {
        let Some(at) = piece.at else { continue };
        // Steps are the only keys that differ from one step to the next.
        let of_step = if by == CompareBy::Step { at } else { 0 };
        let row = *numbers.entry((piece.of, of_step)).or_insert_with(|| {
            let text = key_text(trace, &frames, by, piece.of, at)?;
            Some(*by_text.entry((piece.of.place(), text)).or_insert_with(|| {
                rows.push((vec![Cell::default(); steps], BTreeMap::new()));
                rows.len() - 1
            }))
        });
        let Some((cells, of_lines)) = row.map(|row| &mut rows[row]) else { continue };
        let cell = Cell { ns: TotalNanos::from(piece.ns), count: 1 };
        cells[at].add(cell);
        let (ObservedTime::Sampled(stack) | ObservedTime::Waiting(_, stack)) = piece.of else {
            continue;
        };
        let line = lines.entry(stack).or_insert_with(|| line_text(trace, frames[stack.index()]));
        if let Some(line) = line {
            match of_lines.get_mut(line) {
                Some(sum) => sum.add(cell),
                None => drop(of_lines.insert(line.clone(), cell)),
            }
        }
    }
    for (key, row) in by_text {
        let (cells, lines) = std::mem::take(&mut rows[row]);
        let behind = Behind { lines: largest(lines), ..Behind::default() };
        group.entry(key).or_default().add(RowSeries { cells, behind });
    }
}

fn largest(lines: BTreeMap<String, Cell>) -> BTreeMap<String, Cell> {
    let mut rows: Vec<(String, Cell)> = lines.into_iter().collect();
    rows.sort_by(|a, b| b.1.ns.cmp(&a.1.ns).then_with(|| a.0.cmp(&b.0)));
    rows.truncate(LINES_MAX);
    rows.into_iter().collect()
}

/// What a piece is counted under; nothing where only GPU work is grouped.
fn key_text(
    trace: &Trace,
    line_frames: &[Option<FrameId>],
    by: CompareBy,
    of: ObservedTime,
    at: usize,
) -> Option<String> {
    let named = |stack: fn(&Trace, StackId) -> String| match of {
        ObservedTime::Sampled(id) => stack(trace, id),
        ObservedTime::NoSample => NO_SAMPLE.to_owned(),
        ObservedTime::Waiting(state, _) => state.span_name(),
    };
    Some(match by {
        CompareBy::Kernel | CompareBy::Class => return None,
        CompareBy::Operator => named(function_text),
        CompareBy::Function => named(function_of_file_text),
        CompareBy::PythonLine => match of {
            ObservedTime::Sampled(stack) | ObservedTime::Waiting(_, stack) => {
                let line = line_text(trace, line_frames[stack.index()]);
                line.unwrap_or_else(|| NONE.to_owned())
            }
            ObservedTime::NoSample => NONE.to_owned(),
        },
        CompareBy::Stack => match of {
            ObservedTime::Waiting(state, stack) => {
                format!("{}{INSIDE}{}", stack_text(trace, stack), state.span_name())
            }
            _ => named(stack_text),
        },
        CompareBy::Step => format!("step {:>4}", at + 1),
        CompareBy::Module | CompareBy::Layer | CompareBy::Phase => NONE.to_owned(),
    })
}

fn function_text(trace: &Trace, stack: StackId) -> String {
    let frame = trace.stacks().frame(stack).map(|frame| trace.frames().get(frame));
    frame.map_or_else(|| "[no stack]".to_owned(), |frame| frame_name(trace, &frame))
}

/// Python's functions with their files: many are called alike.
fn function_of_file_text(trace: &Trace, stack: StackId) -> String {
    let name = function_text(trace, stack);
    let frame = trace.stacks().frame(stack).map(|frame| trace.frames().get(frame));
    match frame.filter(|frame| frame.kind == FrameKind::Python) {
        Some(frame) => format!("{}: {name}", trace.strings().get(frame.file)),
        None => name,
    }
}

/// By stack, its innermost frame with a line, of Python where there is one.
fn line_frames(trace: &Trace) -> Vec<Option<FrameId>> {
    let stacks = trace.stacks();
    let mut any: Vec<Option<FrameId>> = vec![None; stacks.len()];
    let mut python = any.clone();
    // Callers stand before what they call.
    for stack in (1..stacks.len()).map(|stack| StackId(stack as u32)) {
        let (caller, at) = (stacks.parent(stack).index(), stack.index());
        let own = stacks.frame(stack).filter(|&frame| trace.frames().get(frame).line > 0);
        let is_python = |&frame: &FrameId| trace.frames().kind(frame) == FrameKind::Python;
        any[at] = own.or(any[caller]);
        python[at] = own.filter(is_python).or(python[caller]);
    }
    python.into_iter().zip(any).map(|(python, any)| python.or(any)).collect()
}

fn line_text(trace: &Trace, frame: Option<FrameId>) -> Option<String> {
    let frame = trace.frames().get(frame?);
    let file = trace.strings().get(frame.file);
    Some(format!("{file}({}): {}", frame.line, frame_name(trace, &frame)))
}

fn stack_text(trace: &Trace, stack: StackId) -> String {
    let frames = trace.stacks().frames(stack).take(FRAMES_MAX);
    let mut names: Vec<String> =
        frames.map(|frame| frame_name(trace, &trace.frames().get(frame))).collect();
    if names.is_empty() {
        return "[no stack]".to_owned();
    }
    if names.len() == FRAMES_MAX {
        names.push("…".to_owned());
    }
    names.reverse();
    names.join(INSIDE)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use spanwise_model::{BlockedOn, SpanKind};

    use super::*;
    use crate::base::sample::Sample;
    use crate::compare::changes::{CompareOptions, compare_series};
    use crate::{ClassRules, FunctionBy, cpu_functions, off_cpu};

    const MS: i64 = 1_000_000;

    fn recorded() -> Arc<Trace> {
        let mut sample = Sample::default();
        let clock = sample.event("cpu-clock", "ns", Some(MS));
        sample.state("1", ThreadState::Running, 0, 30 * MS);
        for tick in 0..30 {
            let function = if tick % 3 == 0 { "f" } else { "g" };
            sample.taken("1", "1", clock, MS, tick * MS + MS / 2, &["main", function]);
        }
        sample.wait("1", BlockedOn::Mutex, 30 * MS, 5 * MS, &["main", "lock"]);
        sample.wait("1", BlockedOn::Poll, 35 * MS, 9 * MS, &["main", "poll"]);
        // Drawn, and so no time of its own.
        sample.span("1", SpanKind::Sampled, "main", 0, 44 * MS);
        sample.finish()
    }

    fn rows(series: &CompareSeries, by: CompareBy) -> Vec<(ComparePlace, &str, TotalNanos, u64)> {
        let group = series.group(Aspect::Rows(by)).expect("gathered");
        let cell = |row: &RowSeries| (row.cells[0].ns, row.cells[0].count);
        let rows = group.iter().map(|(key, row)| (key.0, key.1.as_str(), cell(row)));
        rows.map(|(place, text, (ns, count))| (place, text, ns, count)).collect()
    }

    #[test]
    fn recordings_are_compared_by_cpu_time_and_waits() {
        let trace = recorded();
        let facts = Facts::new(&trace);
        let options = CompareOptions::by(CompareBy::Stack);
        let series = compare_series(&facts, &ClassRules::standard(), &options);
        let ns = |ms: i64| TotalNanos::from(ms * MS);
        let found = rows(&series, CompareBy::Operator);
        let own = cpu_functions(&facts, FunctionBy::Function);
        let by_name = |name: &str| own.rows.iter().find(|row| row.name == name).expect("it").own;
        let expected = [
            (ComparePlace::Host, "f", by_name("f"), 10),
            (ComparePlace::Host, "g", by_name("g"), 20),
            (ComparePlace::Waiting, "[blocked: mutex]", ns(5), 1),
        ];
        assert_eq!(found, expected);
        assert_eq!(series.inside[&ComparePlace::Host], off_cpu(&facts)[0].running_ns);
        assert_eq!(series.inside[&ComparePlace::Waiting], ns(5));
        let stacks: Vec<_> = rows(&series, CompareBy::Stack).iter().map(|row| row.1).collect();
        let waits = format!("main{INSIDE}lock{INSIDE}[blocked: mutex]");
        assert_eq!(stacks, [&format!("main{INSIDE}f"), &format!("main{INSIDE}g"), &waits]);
    }

    #[test]
    fn annotated_threads_keep_the_time_of_their_spans() {
        let mut sample = Sample::default();
        let clock = sample.event("cpu-clock", "ns", Some(MS));
        sample.span("1", SpanKind::Python, "step", 0, 4 * MS);
        sample.taken("1", "1", clock, MS, MS, &["main"]);
        sample.taken("1", "2", clock, MS, MS, &["worker"]);
        let trace = sample.finish();
        let options = CompareOptions::by(CompareBy::Operator);
        let series = compare_series(&Facts::new(&trace), &ClassRules::standard(), &options);
        let found = rows(&series, CompareBy::Operator);
        let ns = |ms: i64| TotalNanos::from(ms * MS);
        let expected = [
            (ComparePlace::Host, "[outside of operators]", ns(4), 1),
            (ComparePlace::Host, "worker", ns(1), 1),
        ];
        assert_eq!(found, expected);
    }
}

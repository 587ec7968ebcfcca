//! Which functions take the time.

use spanwise_model::{Nanos, SpanKind, StrId, Trace, TrackId, TrackKind};

use crate::base::cover::Union;
use crate::cpu::self_time::on_stack_by_category;
use crate::{Facts, FunctionBy, SampledFunction, TotalNanos, cpu_functions, python_functions};

/// Functions over all threads, most self time first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HotFunctions {
    pub rows: Vec<HotFunction>,
    /// Length of the recording; threads side by side may take more than this.
    pub wall_ns: TotalNanos,
    /// Self time of all rows: the busy time of all threads.
    pub self_ns: TotalNanos,
    /// Samples that rows are from; none where they are from spans.
    pub samples: Option<u64>,
}

/// All spans of one name and kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HotFunction {
    pub name: String,
    pub kind: SpanKind,
    pub self_ns: TotalNanos,
    /// While at least one span of that name was open, summed over threads: a
    /// function that calls itself counts once.
    pub total_ns: TotalNanos,
    /// Calls, or samples in which it was on the stack.
    pub count: u64,
    /// Samples in which it was the innermost.
    pub self_samples: Option<u64>,
}

pub fn hot_functions(facts: &Facts) -> HotFunctions {
    let (trace, self_time, names) = (facts.trace(), facts.self_time(), facts.names());
    let mut sums = Sums::new(trace);
    let on_stack = on_stack_by_category(trace);
    let spans = trace.spans();
    for (id, track) in trace.tracks().iter().filter(|(_, row)| row.kind == TrackKind::Thread) {
        for span in track.span_ids() {
            if !on_stack[spans.category(span).index()] {
                continue;
            }
            let sum = sums.of(names.merged(spans.name(span)), trace.kind(span));
            sum.self_ns += i128::from(self_time.span_ns[span.index()]);
            sum.add_open(id, spans.start(span), spans.end(span));
        }
    }
    let mut rows: Vec<HotFunction> = sums
        .rows
        .into_iter()
        .map(|sum| HotFunction {
            name: names.text(sum.name).into_owned(),
            kind: sum.kind,
            self_ns: sum.self_ns,
            total_ns: sum.total_ns,
            count: sum.count,
            self_samples: None,
        })
        .collect();
    rows.sort_by(|a, b| {
        (b.self_ns, b.total_ns, &a.name, a.kind).cmp(&(a.self_ns, a.total_ns, &b.name, b.kind))
    });
    let self_ns = rows.iter().map(|row| row.self_ns).sum();
    HotFunctions { rows, wall_ns: facts.window_ns(), self_ns, samples: None }
}

/// The same; of a recording that took samples, by these: Python functions with the native code
/// that they called, where there are any.
pub fn hottest_functions(facts: &Facts) -> HotFunctions {
    let hot = hot_functions(facts);
    if !hot.rows.is_empty() || !facts.cpu_time().is_recorded() {
        return hot;
    }
    let python = python_functions(facts, FunctionBy::Function).functions;
    let (kind, functions) = match python.rows.is_empty() {
        true => (SpanKind::Sampled, cpu_functions(facts, FunctionBy::Function)),
        false => (SpanKind::Python, python),
    };
    let row = |row: SampledFunction| HotFunction {
        name: row.name,
        kind,
        self_ns: row.own,
        total_ns: row.total,
        count: row.total_samples,
        self_samples: Some(row.samples),
    };
    let (self_ns, samples) = (functions.total_ns(), Some(functions.samples));
    HotFunctions { rows: functions.rows.into_iter().map(row).collect(), self_ns, samples, ..hot }
}

struct Sum {
    name: StrId,
    kind: SpanKind,
    self_ns: TotalNanos,
    total_ns: TotalNanos,
    count: u64,
    /// What this name covers on the track of its last span.
    covered: (Option<TrackId>, Union),
}

impl Sum {
    /// Adds what the span covers beyond the earlier spans of its name: rows ascend
    /// by start inside a track.
    fn add_open(&mut self, track: TrackId, start: Nanos, end: Nanos) {
        if self.covered.0 != Some(track) {
            self.covered = (Some(track), Union::default());
        }
        self.count += 1;
        self.total_ns += self.covered.1.add(start, end);
    }
}

/// Sums by name and kind. A table by name beats hashing every span.
struct Sums {
    places: Vec<[u32; STACK_KINDS]>,
    rows: Vec<Sum>,
}

const STACK_KINDS: usize = 5;
const NO_PLACE: u32 = u32::MAX;

impl Sums {
    fn new(trace: &Trace) -> Self {
        let places = vec![[NO_PLACE; STACK_KINDS]; trace.strings().len()];
        Sums { places, rows: Vec::new() }
    }

    fn of(&mut self, name: StrId, kind: SpanKind) -> &mut Sum {
        let column = match kind {
            SpanKind::Python => 0,
            SpanKind::Operator => 1,
            SpanKind::Annotation => 2,
            SpanKind::Runtime => 3,
            _ => 4,
        };
        let place = &mut self.places[name.index()][column];
        if *place == NO_PLACE {
            *place = self.rows.len() as u32;
            let covered = (None, Union::default());
            self.rows.push(Sum { name, kind, self_ns: 0, total_ns: 0, count: 0, covered });
        }
        &mut self.rows[*place as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::sample::Sample;

    /// `expected`: name, self, total, count.
    #[track_caller]
    fn check(spans: &[(&str, &str, i64, i64)], expected: &[(&str, i128, i128, u64)]) {
        let mut sample = Sample::default();
        for &(thread, name, start, dur) in spans {
            sample.span(thread, SpanKind::Python, name, start, dur);
        }
        let trace = sample.finish();
        let hot = hot_functions(&Facts::new(&trace));
        let row = |row: &HotFunction| (row.name.clone(), row.self_ns, row.total_ns, row.count);
        let rows: Vec<_> = hot.rows.iter().map(row).collect();
        let named: Vec<_> = expected
            .iter()
            .map(|&(name, own, total, n)| (name.to_owned(), own, total, n))
            .collect();
        assert_eq!(rows, named);
    }

    #[test]
    fn recursion_counts_once_in_total() {
        check(
            &[("1", "f", 0, 10), ("1", "f", 2, 6), ("1", "g", 4, 2)],
            &[("f", 8, 10, 2), ("g", 2, 2, 1)],
        );
    }

    #[test]
    fn threads_add_up() {
        check(&[("1", "f", 0, 10), ("2", "f", 0, 10)], &[("f", 20, 20, 2)]);
    }

    #[test]
    fn addresses_do_not_distinguish_functions() {
        check(&[("1", "<f at 0x1>", 0, 3), ("1", "<f at 0x2>", 5, 4)], &[("<f>", 7, 7, 2)]);
    }
}

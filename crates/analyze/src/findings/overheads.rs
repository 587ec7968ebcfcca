//! Findings about time that programs often need not spend: loading data while the GPU
//! waits, preparing it in Python, pickling it for another process, asking the driver for
//! memory, running an event loop.
//!
//! What belongs where is a table. An instant of a thread counts for everything that was
//! going on then: preparing an item while loading data is both.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use spanwise_model::{SpanId, SpanKind, StrId, TrackId, TrackKind};

use super::{Finding, FindingKind, Thresholds, TopFunction, largest, reaches};
use crate::base::intervals::IntervalSet;
use crate::cpu::python::Frame;
use crate::gpu::device::{busy, devices};
use crate::{Facts, TotalNanos, main_thread};

/// What time was spent on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SpentOn {
    /// The main thread fetches a batch itself, or waits for one.
    DataLoading,
    /// NumPy, image and table libraries on the main thread.
    Preprocessing,
    /// Objects on their way to or from another process.
    Serialization,
    /// asyncio's own work, what it runs not included.
    EventLoop,
    /// Calls for memory: of the driver, and of recorded programs those of the system, too.
    Allocation,
    /// Python's own machinery that finds and loads modules.
    Import,
}

impl SpentOn {
    pub const ALL: [SpentOn; 6] = [
        SpentOn::DataLoading,
        SpentOn::Preprocessing,
        SpentOn::Serialization,
        SpentOn::EventLoop,
        SpentOn::Allocation,
        SpentOn::Import,
    ];

    pub(crate) fn bit(self) -> u8 {
        1 << self as u8
    }

    /// An event loop runs everything else: only its own time is its overhead.
    pub(crate) fn counts_calls(self) -> bool {
        self != SpentOn::EventLoop
    }

    /// A worker that loads data does its job; a driver that allocates stops everybody.
    fn is_on_any_thread(self) -> bool {
        self == SpentOn::Allocation
    }
}

/// Time spent on one thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overhead {
    pub on: SpentOn,
    pub total_ns: TotalNanos,
    pub window_ns: TotalNanos,
    /// How often it began.
    pub count: u64,
    pub longest_from: TotalNanos,
    pub longest_ns: TotalNanos,
    /// The line with most of it, and how much.
    pub line: Option<String>,
    pub line_ns: TotalNanos,
    /// The function with most self time in it.
    pub inside: Option<TopFunction>,
    /// While no GPU had work; `None` where the trace has none.
    pub gpu_idle_ns: Option<TotalNanos>,
}

/// How a span is known to belong.
enum Sign {
    /// How the name begins.
    Begins(&'static str),
    /// A whole name.
    Is(&'static str),
    /// A Python frame: how its file begins.
    File(&'static str),
    /// A Python frame: file and function.
    Function(&'static str, &'static str),
    /// A function without Python code: a part of its name.
    BuiltIn(&'static str),
}

const SIGNS: &[(SpentOn, SpanKind, Sign)] = &[
    (SpentOn::DataLoading, SpanKind::Annotation, Sign::Begins("enumerate(DataLoader)")),
    (
        SpentOn::DataLoading,
        SpanKind::Python,
        Sign::Function("torch/utils/data/dataloader.py", "__next__"),
    ),
    (SpentOn::Preprocessing, SpanKind::Python, Sign::File("numpy/")),
    (SpentOn::Preprocessing, SpanKind::Python, Sign::File("PIL/")),
    (SpentOn::Preprocessing, SpanKind::Python, Sign::File("cv2/")),
    (SpentOn::Preprocessing, SpanKind::Python, Sign::File("scipy/")),
    (SpentOn::Preprocessing, SpanKind::Python, Sign::File("pandas/")),
    (SpentOn::Preprocessing, SpanKind::Python, Sign::File("torchvision/transforms/")),
    (SpentOn::Preprocessing, SpanKind::Python, Sign::File("torchaudio/transforms/")),
    (SpentOn::Preprocessing, SpanKind::Python, Sign::BuiltIn("numpy.")),
    (SpentOn::Serialization, SpanKind::Python, Sign::File("pickle.py")),
    (SpentOn::Serialization, SpanKind::Python, Sign::File("multiprocessing/reduction.py")),
    (SpentOn::Serialization, SpanKind::Python, Sign::File("torch/multiprocessing/reductions.py")),
    (SpentOn::Serialization, SpanKind::Python, Sign::BuiltIn("function loads")),
    (SpentOn::Serialization, SpanKind::Python, Sign::BuiltIn("function dumps")),
    (SpentOn::Serialization, SpanKind::Python, Sign::BuiltIn("_pickle.")),
    (SpentOn::EventLoop, SpanKind::Python, Sign::File("asyncio/")),
    (SpentOn::EventLoop, SpanKind::Python, Sign::File("uvloop/")),
    (SpentOn::Allocation, SpanKind::Runtime, Sign::Begins("cudaMalloc")),
    (SpentOn::Allocation, SpanKind::Runtime, Sign::Is("cudaFree")),
    (SpentOn::Allocation, SpanKind::Runtime, Sign::Is("cudaFreeAsync")),
    (SpentOn::Allocation, SpanKind::Runtime, Sign::Is("cudaFreeHost")),
    (SpentOn::Allocation, SpanKind::Runtime, Sign::Is("cudaHostAlloc")),
    (SpentOn::Allocation, SpanKind::Runtime, Sign::Is("cudaHostRegister")),
    (SpentOn::Allocation, SpanKind::Runtime, Sign::Begins("cuMemAlloc")),
    (SpentOn::Allocation, SpanKind::Runtime, Sign::Begins("cuMemCreate")),
    (SpentOn::Allocation, SpanKind::Runtime, Sign::Begins("cuMemMap")),
    (SpentOn::Allocation, SpanKind::Runtime, Sign::Begins("hipMalloc")),
    (SpentOn::Allocation, SpanKind::Runtime, Sign::Is("hipFree")),
    (SpentOn::Allocation, SpanKind::Runtime, Sign::Is("hipHostMalloc")),
    (SpentOn::Allocation, SpanKind::Runtime, Sign::Is("hipHostFree")),
];

/// What a name says by itself, as bits.
fn signs(kind: SpanKind, name: &str) -> u8 {
    let frame = Frame::parse(name);
    let fits = |sign: &Sign| match (sign, frame) {
        (Sign::Begins(begin), _) => name.starts_with(begin),
        (Sign::Is(whole), _) => name == *whole,
        (Sign::File(begin), Frame::Code { file, .. }) => file.starts_with(begin),
        (Sign::Function(of, is), Frame::Code { file, function }) => *of == file && *is == function,
        (Sign::BuiltIn(part), Frame::BuiltIn(text)) => text.contains(part),
        _ => false,
    };
    let rows = SIGNS.iter().filter(|(_, of, sign)| *of == kind && fits(sign));
    rows.fold(0, |bits, (on, ..)| bits | on.bit())
}

/// For every span what its time is spent on, as bits.
pub(crate) struct Spending {
    bits: Vec<u8>,
}

impl Spending {
    /// One forward pass: a parent always stands before its children (I3).
    pub(crate) fn new(facts: &Facts) -> Self {
        let trace = facts.trace();
        let spans = trace.spans();
        let inherited =
            SpentOn::ALL.iter().filter(|on| on.counts_calls()).fold(0, |bits, on| bits | on.bit());
        let mut known: Vec<Option<(SpanKind, u8)>> = vec![None; trace.strings().len()];
        let mut bits = vec![0; spans.len()];
        for span in spans.ids() {
            let kind = trace.kind(span);
            let slot = &mut known[spans.name(span).index()];
            let own = match *slot {
                Some((of, own)) if of == kind => own,
                _ => signs(kind, trace.name(span)),
            };
            *slot = Some((kind, own));
            let around = spans.parent(span).map_or(0, |parent| bits[parent.index()]);
            bits[span.index()] = own | (around & inherited);
        }
        Spending { bits }
    }

    fn has(&self, span: SpanId, on: SpentOn) -> bool {
        self.bits[span.index()] & on.bit() != 0
    }
}

pub(super) fn spent(facts: &Facts, thresholds: &Thresholds) -> Vec<Finding> {
    let spending = Spending::new(facts);
    let idle = gpu_idle(facts);
    let rows = SpentOn::ALL.iter().filter_map(|&on| spent_on(facts, &spending, on, idle.as_ref()));
    rows.filter(|row| reaches(row.total_ns, row.window_ns, limit(thresholds, row.on)))
        .map(|row| Finding {
            about_ns: row.total_ns,
            gain_ns: Some(row.gpu_idle_ns.unwrap_or(row.total_ns)),
            kind: FindingKind::Overhead(row),
        })
        .collect()
}

/// The part of the time from which on something is worth a finding.
pub(super) fn limit(thresholds: &Thresholds, on: SpentOn) -> i128 {
    match on {
        SpentOn::DataLoading => thresholds.data_loading_percent,
        SpentOn::Preprocessing => thresholds.preprocessing_percent,
        SpentOn::Serialization => thresholds.serialisation_percent,
        SpentOn::EventLoop => thresholds.event_loop_percent,
        SpentOn::Allocation => thresholds.allocation_percent,
        SpentOn::Import => thresholds.import_percent,
    }
}

/// When no GPU had work.
fn gpu_idle(facts: &Facts) -> Option<IntervalSet> {
    let devices = devices(facts.trace());
    let work = devices.iter().flat_map(|device| device.work());
    (!devices.is_empty()).then(|| busy(facts.trace(), work).gaps(facts.window()))
}

/// The threads whose time counts.
fn threads(facts: &Facts, on: SpentOn) -> Vec<TrackId> {
    let rows = facts.trace().tracks().iter().filter(|(_, row)| row.kind == TrackKind::Thread);
    let main = main_thread(facts.threads()).map(|thread| thread.track);
    let counts = |track: &TrackId| on.is_on_any_thread() || Some(*track) == main;
    rows.map(|(track, _)| track).filter(counts).collect()
}

pub(crate) fn spent_on(
    facts: &Facts,
    spending: &Spending,
    on: SpentOn,
    idle: Option<&IntervalSet>,
) -> Option<Overhead> {
    let trace = facts.trace();
    let spans = trace.spans();
    let mut by_line: BTreeMap<Option<StrId>, TotalNanos> = BTreeMap::new();
    let mut there: Vec<SpanId> = Vec::new();
    let mut outermost: Vec<SpanId> = Vec::new();
    for track in threads(facts, on) {
        for span in trace.tracks().get(track).span_ids().filter(|&span| spending.has(span, on)) {
            let self_ns = i128::from(facts.self_time().span_ns[span.index()]);
            *by_line.entry(facts.line(span)).or_default() += self_ns;
            there.push(span);
            if !spans.parent(span).is_some_and(|parent| spending.has(parent, on)) {
                outermost.push(span);
            }
        }
    }
    let longest =
        *outermost.iter().max_by_key(|&&span| (spans.dur(span), Reverse(spans.start(span))))?;
    let intervals = outermost.iter().map(|&span| (spans.start(span), spans.end(span))).collect();
    let intervals = IntervalSet::new(intervals);
    let total_ns: TotalNanos = by_line.values().sum();
    let (line, line_ns) = largest(&by_line);
    let self_times = there.iter().map(|&span| (span, facts.self_time().span_ns[span.index()]));
    Some(Overhead {
        on,
        total_ns,
        window_ns: facts.window_ns(),
        count: outermost.len() as u64,
        longest_from: facts.since_start(spans.start(longest)),
        longest_ns: spans.dur(longest).into(),
        line: line.map(|line| facts.text(line)),
        line_ns,
        inside: facts.mostly(self_times).map(|doing| TopFunction { line: None, ..doing }),
        gpu_idle_ns: idle.map(|idle| intervals.intersection(idle).total_ns().min(total_ns)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::sample::Sample;

    #[track_caller]
    fn check(kind: SpanKind, name: &str, expected: &[SpentOn]) {
        let bits = expected.iter().fold(0, |bits, on| bits | on.bit());
        assert_eq!(signs(kind, name), bits, "{name}");
    }

    #[test]
    fn names_show_what_time_is_spent_on() {
        let annotation = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__";
        check(SpanKind::Annotation, annotation, &[SpentOn::DataLoading]);
        check(SpanKind::Python, "numpy/core/x.py(3): dot", &[SpentOn::Preprocessing]);
        check(SpanKind::Python, "my/numpy/x.py(3): dot", &[]);
        check(SpanKind::Runtime, "cudaMallocAsync", &[SpentOn::Allocation]);
        check(SpanKind::Runtime, "cudaMemcpyAsync", &[]);
        check(SpanKind::Operator, "cudaMalloc", &[]);
    }

    #[test]
    fn calls_count_but_not_what_an_event_loop_runs() {
        let mut sample = Sample::default();
        sample.span("1", SpanKind::Python, "asyncio/base_events.py(9): _run_once", 0, 100);
        sample.span("1", SpanKind::Python, "a.py(1): load", 20, 60);
        let loading = "enumerate(DataLoader)#x";
        sample.span("1", SpanKind::Annotation, loading, 30, 40);
        sample.span("1", SpanKind::Python, "data.py(7): __getitem__", 40, 20);
        sample.work("7", SpanKind::Kernel, "mm", (0, 50), 5);
        let trace = sample.finish();
        let facts = Facts::new(&trace);
        let (spending, idle) = (Spending::new(&facts), gpu_idle(&facts));
        let on = |on| spent_on(&facts, &spending, on, idle.as_ref()).expect("it is there");
        assert_eq!(on(SpentOn::EventLoop).total_ns, 40);
        let loading = on(SpentOn::DataLoading);
        assert_eq!((loading.total_ns, loading.count, loading.gpu_idle_ns), (40, 1, Some(20)));
        assert_eq!(loading.line.as_deref(), Some("a.py(1): load"));
        assert!(spent_on(&facts, &spending, SpentOn::Allocation, None).is_none());
    }
}

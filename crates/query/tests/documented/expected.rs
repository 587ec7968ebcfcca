//! What each question must be answered with.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use spanwise_analyze::{Facts, WaitKind, hot_functions, step_numbers};
use spanwise_model::{ArgValue, SpanId, SpanKind, StrId, Trace, TrackKind};
use spanwise_query::Value;

pub(crate) type Rows = Vec<Vec<Value>>;
pub(crate) type Traces = [Arc<Trace>];

/// From the traces to the rows.
pub(crate) struct Expect(pub(crate) fn(&Traces) -> Rows);

const TRAINING: &[&str] = &["kineto/ddp/ddp_rank0.json.gz"];
const TWO_RANKS: &[&str] = &["kineto/ddp/ddp_rank0.json.gz", "kineto/ddp/ddp_rank2.json.gz"];
const MODEL: &[&str] = &["kineto/llama_small.json.gz"];
const EVENTS: &[&str] = &["chrome/kinds_of_events.json"];

/// Headings of docs/reference/sql.md, the traces to ask, the answer.
pub(crate) const QUESTIONS: &[(&str, &[&str], Expect)] = &[
    ("What sort of GPU work does each step do?", TRAINING, Expect(classes_of_steps)),
    ("Which kernels take most of the GPU's time?", MODEL, Expect(costliest_kernels)),
    ("When was the GPU idle for longest?", TRAINING, Expect(longest_gaps)),
    ("How long was each GPU idle between its first and its last work?", TRAINING, Expect(idle)),
    ("Which lines of Python cause most GPU time?", MODEL, Expect(lines)),
    ("Which functions take most time themselves?", MODEL, Expect(functions)),
    ("How long does GPU work wait after its launch?", TRAINING, Expect(delays)),
    ("Which kernels does an operator launch?", MODEL, Expect(kernels_of_mm)),
    ("Which step was slowest, and what did the GPU do in it?", TRAINING, Expect(slowest_step)),
    ("How many bytes were copied in which direction?", TRAINING, Expect(copies)),
    ("Which streams work at the same time, and for how long?", TRAINING, Expect(streams_at_once)),
    ("How long was each thread busy?", TRAINING, Expect(busy_threads)),
    ("Which kernels are tiny and many?", MODEL, Expect(tiny_kernels)),
    ("Which operators launch nothing on the GPU?", MODEL, Expect(operators_alone)),
    ("Which calls wait for the GPU, and for how long?", TRAINING, Expect(waiting_calls)),
    ("How high did each counter get?", EVENTS, Expect(counters)),
    ("What was marked, and when?", EVENTS, Expect(marks)),
    ("Which backward operator belongs to which forward operator?", TRAINING, Expect(backward)),
    ("Which kernels changed from one trace to another?", TWO_RANKS, Expect(changes)),
    ("What code launched the longest kernel?", MODEL, Expect(longest_kernel)),
    ("How are the lengths of kernels distributed?", MODEL, Expect(lengths)),
    ("What did the threads do while the GPU was idle for longest?", TRAINING, Expect(in_the_gap)),
];

pub(crate) fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

/// A text that may be missing.
pub(crate) fn known(found: Option<&str>) -> Value {
    found.map_or(Value::Null, text)
}

pub(crate) fn int(number: impl TryInto<i64>) -> Value {
    Value::Int(number.try_into().unwrap_or(i64::MAX))
}

fn of_kind(trace: &Trace, kind: SpanKind) -> impl Iterator<Item = SpanId> {
    trace.spans().ids().filter(move |&span| trace.kind(span) == kind)
}

fn gpu_work(trace: &Trace) -> impl Iterator<Item = SpanId> {
    trace.spans().ids().filter(|&span| trace.kind(span).is_gpu_work())
}

/// How many, how long together, the longest.
pub(crate) type Sum = (i64, i64, i64);

pub(crate) fn sums<K: Ord>(pairs: impl Iterator<Item = (K, i64)>) -> BTreeMap<K, Sum> {
    let mut sums: BTreeMap<K, Sum> = BTreeMap::new();
    for (key, ns) in pairs {
        let (count, sum, longest) = sums.entry(key).or_default();
        (*count, *sum, *longest) = (*count + 1, *sum + ns, ns.max(*longest));
    }
    sums
}

/// Names with what they amount to, by `order` and then by name.
fn by_name<O: Ord>(
    trace: &Trace,
    spans: impl Iterator<Item = SpanId>,
    ns: impl Fn(SpanId) -> i64,
    order: fn(&Sum) -> O,
) -> Vec<(&str, Sum)> {
    let mut rows: Vec<(&str, Sum)> =
        sums(spans.map(|span| (trace.name(span), ns(span)))).into_iter().collect();
    rows.sort_by_key(|(_, sum)| order(sum));
    rows
}

fn classes_of_steps(traces: &Traces) -> Rows {
    let trace = &traces[0];
    let facts = Facts::new(trace);
    let classes = facts.span_classes();
    let steps = step_numbers(trace);
    let class = |span: SpanId| &*classes.classes[classes.of_span[span.index()].unwrap() as usize];
    let pairs =
        gpu_work(trace).map(|span| ((steps[span.index()], class(span)), trace.spans().dur(span)));
    let mut rows: Vec<_> = sums(pairs).into_iter().collect();
    rows.sort_by_key(|&((step, class), (_, sum, _))| (step, Reverse(sum), class));
    let row = |((step, class), (count, sum, _)): ((Option<i64>, &str), Sum)| {
        vec![step.map_or(Value::Null, Value::Int), text(class), int(count), int(sum)]
    };
    rows.into_iter().map(row).collect()
}

fn costliest_kernels(traces: &Traces) -> Rows {
    let facts = Facts::new(&traces[0]);
    let rows = facts.gpu().work.iter().take(10);
    rows.map(|row| vec![text(&row.name), int(row.count), int(row.total_ns), int(row.max_ns)])
        .collect()
}

/// Gaps of the only GPU that has work, as (start, length, next).
fn gaps(trace: &Trace) -> Vec<(String, i64, i64, SpanId)> {
    let mut work: Vec<SpanId> = gpu_work(trace).collect();
    work.sort_by_key(|&span| (trace.spans().start(span), span));
    let gpu = trace.tracks().get(trace.spans().track(work[0])).process;
    let zero = trace.window().expect("spans").0;
    let (mut reached, mut gaps) = (trace.spans().start(work[0]), Vec::new());
    for span in work {
        assert_eq!(trace.tracks().get(trace.spans().track(span)).process, gpu, "one GPU");
        let start = trace.spans().start(span);
        if start > reached {
            let gpu = trace.strings().get(gpu).to_owned();
            gaps.push((gpu, reached - zero, start - reached, span));
        }
        reached = reached.max(trace.spans().end(span));
    }
    gaps.sort_by_key(|&(_, start, dur, _)| (Reverse(dur), start));
    gaps
}

fn longest_gaps(traces: &Traces) -> Rows {
    let gaps = gaps(&traces[0]).into_iter().take(10);
    let name = |span| text(traces[0].name(span));
    gaps.map(|(gpu, start, dur, next)| vec![text(&gpu), int(start), int(dur), name(next)]).collect()
}

fn idle(traces: &Traces) -> Rows {
    let trace = &traces[0];
    let gaps = gaps(trace);
    let sum: i64 = gaps.iter().map(|gap| gap.2).sum();
    // The analysis counts the time before the first work and behind the last too.
    let facts = Facts::new(trace);
    let device = facts.gpu().devices.iter().find(|device| device.work_count > 0).expect("a GPU");
    let first = gpu_work(trace).map(|span| trace.spans().start(span)).min().expect("work");
    let last = gpu_work(trace).map(|span| trace.spans().end(span)).max().expect("work");
    assert_eq!(i128::from(last - first - sum), device.busy_ns);
    vec![vec![text(&device.id), int(gaps.len()), int(sum)]]
}

fn lines(traces: &Traces) -> Rows {
    let facts = Facts::new(&traces[0]);
    let lines = facts.gpu().lines.iter().filter(|row| row.line.is_some()).take(10);
    lines.map(|row| vec![known(row.line.as_deref()), int(row.count), int(row.total_ns)]).collect()
}

fn functions(traces: &Traces) -> Rows {
    let facts = Facts::new(&traces[0]);
    let trace = facts.trace();
    let own = |span: SpanId| facts.self_time().span_ns[span.index()];
    let is_on_thread =
        |span: &SpanId| trace.tracks().get(trace.spans().track(*span)).kind == TrackKind::Thread;
    let rows = by_name(trace, trace.spans().ids().filter(is_on_thread), own, |sum| Reverse(sum.1));
    // The analysis joins names that differ in the address of an object; the sum is the same.
    let sum: i64 = rows.iter().map(|(_, sum)| sum.1).sum();
    assert_eq!(i128::from(sum), hot_functions(&facts).self_ns);
    let row = |(name, sum): (&str, Sum)| vec![text(name), int(sum.0), int(sum.1)];
    rows.into_iter().take(20).map(row).collect()
}

fn delays(traces: &Traces) -> Rows {
    let (trace, spans) = (&*traces[0], traces[0].spans());
    let mut delays: BTreeMap<&str, Vec<i64>> = BTreeMap::new();
    for (work, call) in gpu_work(trace).filter_map(|work| Some((work, spans.launch(work)?))) {
        let delay = spans.start(work) - spans.start(call);
        delays.entry(trace.name(call)).or_default().push(delay);
    }
    let row = |(name, mut delays): (&str, Vec<i64>)| {
        delays.sort_unstable();
        let at = |percent: usize| int(delays[(delays.len() * percent).div_ceil(100) - 1]);
        vec![text(name), int(delays.len()), at(50), at(99), at(100)]
    };
    delays.into_iter().map(row).collect()
}

/// The name of the innermost operator around a span, or around its launch.
fn operator_of(trace: &Trace, span: SpanId) -> Option<&str> {
    let around =
        std::iter::successors(trace.spans().launch(span), |&inner| trace.spans().parent(inner));
    let mut operators = around.filter(|&outer| trace.kind(outer) == SpanKind::Operator);
    operators.next().map(|outer| trace.name(outer))
}

fn kernels_of_mm(traces: &Traces) -> Rows {
    let trace = &*traces[0];
    let kernels = of_kind(trace, SpanKind::Kernel)
        .filter(|&span| operator_of(trace, span) == Some("aten::mm"));
    let rows = by_name(trace, kernels, |span| trace.spans().dur(span), |sum| Reverse(sum.1));
    rows.into_iter().map(|(name, sum)| vec![text(name), int(sum.0), int(sum.1)]).collect()
}

fn slowest_step(traces: &Traces) -> Rows {
    let trace = &traces[0];
    let facts = Facts::new(trace);
    let steps = &facts.phase_use().steps;
    let slowest = steps.iter().min_by_key(|step| (Reverse(step.wall_ns), step.number));
    let slowest = slowest.expect("steps");
    let classes = facts.span_classes();
    let numbers = step_numbers(trace);
    let work: Vec<SpanId> =
        gpu_work(trace).filter(|span| numbers[span.index()] == Some(slowest.number)).collect();
    let dur = |span: &SpanId| trace.spans().dur(*span);
    let copies = |span: &&SpanId| {
        let class = classes.of_span[span.index()];
        class.is_some_and(|class| classes.classes[class as usize] == "copy")
    };
    let copied: Vec<i64> = work.iter().filter(copies).map(dur).collect();
    let copied = if copied.is_empty() { Value::Null } else { int(copied.iter().sum::<i64>()) };
    let gpu_ns: i64 = work.iter().map(dur).sum();
    vec![vec![int(slowest.number), int(slowest.wall_ns), int(work.len()), int(gpu_ns), copied]]
}

fn copies(traces: &Traces) -> Rows {
    let trace = &*traces[0];
    let mut rows: BTreeMap<&str, (i64, i64, i64)> = BTreeMap::new();
    for span in of_kind(trace, SpanKind::Memcpy) {
        let args = trace.args(span).expect("arguments");
        let bytes = args.iter().find(|(key, _)| key == "bytes").map(|(_, value)| value);
        let Some(&ArgValue::Int(bytes)) = bytes else { panic!("no bytes") };
        let row = rows.entry(trace.name(span)).or_default();
        *row = (row.0 + 1, row.1 + bytes, row.2 + trace.spans().dur(span));
    }
    let row =
        |(name, row): (&str, (i64, i64, i64))| vec![text(name), int(row.0), int(row.1), int(row.2)];
    rows.into_iter().map(row).collect()
}

fn streams_at_once(traces: &Traces) -> Rows {
    let (trace, spans) = (&*traces[0], traces[0].spans());
    let work: Vec<SpanId> = gpu_work(trace).collect();
    let mut sums: BTreeMap<(u32, u32), i64> = BTreeMap::new();
    for &a in &work {
        for &b in work.iter().filter(|&&b| spans.track(a) < spans.track(b)) {
            let both = spans.end(a).min(spans.end(b)) - spans.start(a).max(spans.start(b));
            if both > 0 {
                *sums.entry((spans.track(a).0, spans.track(b).0)).or_default() += both;
            }
        }
    }
    sums.into_iter().map(|((a, b), both)| vec![int(a), int(b), int(both)]).collect()
}

fn busy_threads(traces: &Traces) -> Rows {
    let facts = Facts::new(&traces[0]);
    let mut threads: Vec<_> = facts.threads().iter().filter(|thread| thread.spans > 0).collect();
    threads.sort_by_key(|thread| thread.track);
    let row = |thread: &&spanwise_analyze::ThreadTime| {
        vec![int(thread.track.0), text(&thread.thread_name), int(thread.busy_ns)]
    };
    threads.iter().map(row).collect()
}

fn tiny_kernels(traces: &Traces) -> Rows {
    let trace = &*traces[0];
    let dur = |span| trace.spans().dur(span);
    let tiny = of_kind(trace, SpanKind::Kernel).filter(|&span| dur(span) < 5_000);
    let rows = by_name(trace, tiny, dur, |sum| Reverse(sum.0));
    let row = |(name, sum): (&str, Sum)| vec![text(name), int(sum.0), int(sum.1)];
    rows.into_iter().take(10).map(row).collect()
}

fn operators_alone(traces: &Traces) -> Rows {
    let trace = &traces[0];
    let mut launchers: BTreeSet<SpanId> = BTreeSet::new();
    for work in gpu_work(trace) {
        let parent = |&inner: &SpanId| trace.spans().parent(inner);
        launchers.extend(std::iter::successors(trace.spans().launch(work), parent));
    }
    let facts = Facts::new(trace);
    let own = |span: SpanId| facts.self_time().span_ns[span.index()];
    let alone = of_kind(trace, SpanKind::Operator).filter(|operator| !launchers.contains(operator));
    let rows = by_name(trace, alone, own, |sum| Reverse(sum.1));
    let row = |(name, sum): (&str, Sum)| vec![text(name), int(sum.0), int(sum.1)];
    rows.into_iter().take(20).map(row).collect()
}

fn waiting_calls(traces: &Traces) -> Rows {
    let facts = Facts::new(&traces[0]);
    let trace = facts.trace();
    // What the analysis of waits takes for waiting on a GPU is what the names say.
    let calls = of_kind(trace, SpanKind::Runtime)
        .filter(|&span| facts.waits().kind(span) == Some(WaitKind::Gpu));
    let line = |span| facts.frames().line(span).map(|line| trace.name(line));
    let pairs = calls.map(|span| ((trace.name(span), line(span)), trace.spans().dur(span)));
    let mut rows: Vec<_> = sums(pairs).into_iter().collect();
    rows.sort_by_key(|&(key, (_, sum, _))| (Reverse(sum), key));
    let row = |((name, line), sum): ((&str, Option<&str>), Sum)| {
        vec![text(name), known(line), int(sum.0), int(sum.1), int(sum.2)]
    };
    rows.into_iter().map(row).collect()
}

fn counters(traces: &Traces) -> Rows {
    let trace = &*traces[0];
    let values = trace.counters();
    let mut rows: BTreeMap<u32, (i64, f64)> = BTreeMap::new();
    for (&track, &value) in values.track.iter().zip(values.value.iter()) {
        let row = rows.entry(track).or_insert((0, f64::NEG_INFINITY));
        *row = (row.0 + 1, row.1.max(value));
    }
    let name = |track: u32| text(trace.strings().get(trace.tracks().rows()[track as usize].thread));
    let row = |(track, (count, most))| vec![name(track), int(count), Value::Real(most)];
    rows.into_iter().map(row).collect()
}

fn marks(traces: &Traces) -> Rows {
    let (trace, marks) = (&*traces[0], traces[0].instants());
    let zero = trace.window().expect("spans").0;
    let mut rows: Vec<(i64, usize)> =
        marks.time.iter().enumerate().map(|(at, &time)| (time - zero, at)).collect();
    rows.sort_unstable();
    let name = |at: usize| text(trace.strings().get(StrId(marks.name[at])));
    rows.into_iter().map(|(time, at)| vec![int(time), name(at)]).collect()
}

fn backward(traces: &Traces) -> Rows {
    let (trace, links) = (&*traces[0], traces[0].links());
    let is_backward = |at: usize| {
        let category = trace.categories().rows()[links.category[at] as usize];
        trace.strings().get(category.name) == "fwdbwd"
    };
    let pairs = links.iter().enumerate().filter(|&(at, _)| is_backward(at));
    let pairs = pairs.map(|(_, (from, to))| ((trace.name(from), trace.name(to)), 0));
    let mut rows: Vec<_> = sums(pairs).into_iter().collect();
    rows.sort_by_key(|&(names, (count, ..))| (Reverse(count), names));
    rows.into_iter().map(|((a, b), sum)| vec![text(a), text(b), int(sum.0)]).collect()
}

fn changes(traces: &Traces) -> Rows {
    let mut rows: BTreeMap<&str, [i64; 2]> = BTreeMap::new();
    for (at, trace) in traces.iter().enumerate() {
        for span in gpu_work(trace) {
            rows.entry(trace.name(span)).or_default()[at] += trace.spans().dur(span);
        }
    }
    let mut rows: Vec<(&str, [i64; 2])> = rows.into_iter().collect();
    rows.sort_by_key(|&(name, [before, after])| (Reverse((after - before).abs()), name));
    let row = |(name, [before, after]): (&str, [i64; 2])| vec![text(name), int(before), int(after)];
    rows.into_iter().take(20).map(row).collect()
}

fn longest_kernel(traces: &Traces) -> Rows {
    let (trace, spans) = (&*traces[0], traces[0].spans());
    let longest = of_kind(trace, SpanKind::Kernel).min_by_key(|&span| Reverse(spans.dur(span)));
    let longest = longest.expect("a kernel");
    let mut stack = Vec::new();
    let mut inner = spans.launch(longest);
    while let Some(span) = inner {
        stack.insert(0, trace.name(span));
        inner = spans.parent(span);
    }
    vec![vec![text(trace.name(longest)), int(spans.dur(longest)), text(&stack.join(";"))]]
}

fn lengths(traces: &Traces) -> Rows {
    let dur = |span| traces[0].spans().dur(span);
    let kernels = of_kind(&traces[0], SpanKind::Kernel);
    let rows = sums(kernels.map(|span| (dur(span).to_string().len(), dur(span))));
    rows.into_iter().map(|(digits, sum)| vec![int(digits), int(sum.0), int(sum.1)]).collect()
}

fn in_the_gap(traces: &Traces) -> Rows {
    let (trace, spans) = (&*traces[0], traces[0].spans());
    let zero = trace.window().expect("spans").0;
    let (_, start, dur, _) = gaps(trace)[0].clone();
    let (from, to) = (start + zero, start + zero + dur);
    let operators = of_kind(trace, SpanKind::Operator);
    let operators = operators.filter(|&span| spans.start(span) < to && spans.end(span) > from);
    let within = |span: SpanId| spans.end(span).min(to) - spans.start(span).max(from);
    let mut rows: Vec<SpanId> = operators.collect();
    rows.sort_by_key(|&span| (Reverse(within(span)), span));
    let row = |span: SpanId| vec![text(trace.name(span)), int(within(span))];
    rows.into_iter().take(10).map(row).collect()
}

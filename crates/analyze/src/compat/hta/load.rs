//! A trace as HTA holds it: rounded to microseconds, without the last step.

use std::collections::{BTreeMap, BTreeSet};

use spanwise_model::{ArgValue, Nanos, SpanId, SpanKind, Trace};

/// What HTA takes a kernel for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum KernelType {
    Communication,
    Memory,
    Computation,
    Other,
}

/// One event; times are whole microseconds, and lengths may be negative.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    pub(super) span: SpanId,
    pub(super) ts: i64,
    pub(super) dur: i64,
    /// -1 for events of the host.
    pub(super) stream: i64,
    /// -1 where there is none.
    pub(super) correlation: i64,
    /// Of the event that shares the correlation, on the other side.
    pub(super) partner_ts: Option<i64>,
}

impl Row {
    pub(super) fn end(&self) -> i64 {
        self.ts + self.dur
    }
}

/// What HTA would keep of a trace, in the order of the source.
pub(super) struct Loaded<'a> {
    pub(super) trace: &'a Trace,
    pub(super) rank: i64,
    pub(super) cpu: Vec<Row>,
    pub(super) gpu: Vec<Row>,
    /// Waits of the host for the GPU, which have no stream.
    pub(super) syncs: Vec<Row>,
    /// Calls that are not joined with work.
    unjoined: u64,
}

/// So many calls with one correlation are joined with the work of that correlation. A recorder
/// gives it to one or two; every call with all work would be the square of a file where all
/// events have the same.
const CALLS_JOINED_MAX: usize = 8;

pub(super) const STEP: &str = "ProfilerStep";
/// Events of the host's side for HTA even where they have a stream.
pub(super) const SYNCS: [&str; 2] = ["Event Sync", "Context Sync"];

impl<'a> Loaded<'a> {
    pub(super) fn new(trace: &'a Trace) -> Self {
        let mut rows = rows(trace);
        let unjoined = part_repeated(&mut rows);
        join_partners(&mut rows);
        let is_gpu = |row: &Row| {
            (row.stream >= 0 && row.correlation >= 0) || SYNCS.contains(&trace.name(row.span))
        };
        let (mut gpu, mut cpu): (Vec<Row>, Vec<Row>) = rows.into_iter().partition(is_gpu);
        if let Some(last_step) = last_step(trace, &cpu) {
            cpu.retain(|row| row.ts < last_step);
            let mut kept: BTreeMap<i64, usize> = BTreeMap::new();
            for row in cpu.iter().filter(|row| row.correlation >= 0) {
                *kept.entry(row.correlation).or_default() += 1;
            }
            // Joined, so that two calls with one correlation repeat the work.
            let times = |row: &Row| kept.get(&row.correlation).copied().unwrap_or(0);
            gpu = gpu.iter().flat_map(|row| vec![*row; times(row)]).collect();
        }
        let (gpu, syncs) = gpu.into_iter().partition(|row| row.stream != -1);
        let rank = trace.info().rank.unwrap_or(0);
        Loaded { trace, rank, cpu, gpu, syncs, unjoined }
    }

    /// What of the trace is in none of the tables.
    pub(super) fn left_out(&self) -> Option<String> {
        let count = self.unjoined;
        (count > 0).then(|| {
            format!(
                "{count} calls not joined with work: more than {CALLS_JOINED_MAX} share a \
                 correlation"
            )
        })
    }

    pub(super) fn name(&self, row: &Row) -> &'a str {
        self.trace.name(row.span)
    }

    pub(super) fn kernels(&self, of: KernelType) -> Vec<Row> {
        let is_it = |row: &&Row| kernel_type(self.name(row)) == of;
        self.gpu.iter().filter(is_it).copied().collect()
    }
}

/// Where the last step begins, if there are several.
fn last_step(trace: &Trace, cpu: &[Row]) -> Option<i64> {
    let steps: Vec<&Row> =
        cpu.iter().filter(|row| trace.name(row.span).starts_with(STEP)).collect();
    let names: BTreeSet<&str> = steps.iter().map(|row| trace.name(row.span)).collect();
    if names.len() < 2 {
        return None;
    }
    steps.iter().map(|row| row.ts).max()
}

/// All complete events but the profiler's bar, in the order of the source.
fn rows(trace: &Trace) -> Vec<Row> {
    let spans = trace.spans();
    let mut ids: Vec<SpanId> =
        spans.ids().filter(|&span| trace.kind(span) != SpanKind::Window).collect();
    ids.sort_by_key(|&span| (spans.offset(span), span));
    ids.into_iter().map(|span| row(trace, span)).collect()
}

fn row(trace: &Trace, span: SpanId) -> Row {
    let kind = trace.kind(span);
    let (mut stream, mut correlation) = (-1, -1);
    if kind == SpanKind::Runtime || kind.is_gpu_work() || kind == SpanKind::Sync {
        // Unreadable arguments are absent ones, as everywhere.
        let args = trace.pick_args(span, &["stream", "correlation"]).unwrap_or_default();
        let int = |at: usize| args.get(at)?.as_ref().and_then(ArgValue::as_i64);
        stream = int(0).unwrap_or(-1);
        correlation = int(1).unwrap_or(-1);
    }
    let (ts, dur) = rounded(trace.spans().start(span), trace.spans().dur(span));
    Row { span, ts, dur, stream, correlation, partner_ts: None }
}

/// Start rounded up and end rounded down, in doubles as HTA does it: times since
/// 1970 lose their last digits in them, and that decides which way some go.
fn rounded(start: Nanos, dur: Nanos) -> (i64, i64) {
    let (start, dur) = (micros(start), micros(dur));
    let (ts, end) = (start.ceil(), (start + dur).floor());
    (ts as i64, (end - ts) as i64)
}

/// The double nearest to the decimal that the source wrote.
fn micros(ns: Nanos) -> f64 {
    let sign = if ns < 0 { "-" } else { "" };
    let digits = ns.unsigned_abs();
    let text = format!("{sign}{}.{:03}", digits / 1000, digits % 1000);
    text.parse().unwrap_or(0.0)
}

/// Takes the correlation from calls beyond [`CALLS_JOINED_MAX`]; says from how many.
fn part_repeated(rows: &mut [Row]) -> u64 {
    let mut calls: BTreeMap<i64, usize> = BTreeMap::new();
    let mut parted = 0;
    for row in rows.iter_mut().filter(|row| row.correlation >= 0 && row.stream < 0) {
        let count = calls.entry(row.correlation).or_default();
        *count += 1;
        if *count > CALLS_JOINED_MAX {
            row.correlation = -1;
            parted += 1;
        }
    }
    parted
}

/// Gives each event the start of the one that shares its correlation.
fn join_partners(rows: &mut [Row]) {
    let mut sides: BTreeMap<i64, [Option<i64>; 2]> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.correlation >= 0) {
        let side = usize::from(row.stream >= 0);
        // Of several the last one wins.
        sides.entry(row.correlation).or_default()[side] = Some(row.ts);
    }
    for row in rows.iter_mut() {
        let other = usize::from(row.stream < 0);
        row.partner_ts = sides.get(&row.correlation).and_then(|sides| sides[other]);
    }
}

pub(super) fn kernel_type(name: &str) -> KernelType {
    let begins = |starts: &[&str]| starts.iter().any(|start| name.starts_with(start));
    let contains = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
    if begins(&["nccl", "hccl"]) || name.contains("ncclKernel") {
        KernelType::Communication
    } else if begins(&["Memcpy", "Memset", "hipMemcpy", "hipMemset", "dma"]) {
        KernelType::Memory
    } else if contains(&["Memcpy", "Memset", "dma", "Sync", "Stream Wait Event"])
        || begins(&["hip"])
    {
        KernelType::Other
    } else {
        KernelType::Computation
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(start: Nanos, dur: Nanos, expected: (i64, i64)) {
        assert_eq!(rounded(start, dur), expected);
    }

    #[test]
    fn starts_round_up_and_ends_down() {
        check(1_000, 2_000, (1, 2));
        check(1_200, 2_000, (2, 1));
        // Shorter than a microsecond: a negative length.
        check(1_200, 300, (2, -1));
        check(-1_500, 1_000, (-1, 0));
    }

    #[test]
    fn few_calls_of_a_correlation_are_joined_with_its_work() {
        let row = |correlation, stream| Row {
            span: SpanId(0),
            ts: 0,
            dur: 1,
            stream,
            correlation,
            partner_ts: None,
        };
        let mut rows = vec![row(1, -1); 100];
        rows.extend([row(1, 7), row(2, -1), row(2, 7)]);
        assert_eq!(part_repeated(&mut rows), 92);
        let joined = rows.iter().filter(|row| row.correlation >= 0).count();
        assert_eq!(joined, CALLS_JOINED_MAX + 3);
    }

    #[test]
    fn times_since_1970_lose_their_last_digits() {
        // .010 µs is below what a double holds there, so nothing is rounded up.
        check(1_712_195_495_502_094_010, 0, (1_712_195_495_502_094, 0));
    }
}

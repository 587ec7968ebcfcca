//! Where the host waits for the GPU, on whose behalf, and what it costs.
//!
//! Two calls wait: those that say so (`cudaStreamSynchronize` and its kin), and
//! copies that return only when the data has arrived or, from pageable memory, has
//! been staged. While the host waits it launches nothing, so the queue runs dry: the
//! cost is the time that the host was blocked, and the time that the GPU then stood
//! idle until the next launch reached it.

use std::collections::{BTreeMap, BTreeSet};

use spanwise_model::{NO_ROW, Nanos, SpanId, SpanKind, StrId, Trace};

use crate::base::intervals::{IntervalSet, length};
use crate::gpu::device::{Device, devices};
use crate::{Facts, TotalNanos, WaitKind};

/// All synchronizations by one call from one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyncRow {
    /// The runtime call that waits.
    pub call: String,
    /// The outermost operator around it, below the Python line: what was asked for.
    pub operator: Option<String>,
    /// The Python line that caused it; `None` where the trace has no Python frames.
    pub line: Option<String>,
    pub count: u64,
    /// The host was inside the call.
    pub blocked_ns: TotalNanos,
    pub blocked_max_ns: Nanos,
    /// Calls in which the GPU ran out of work …
    pub drained: u64,
    /// … and for how long it then had none; each idle nanosecond counts once.
    pub idle_ns: TotalNanos,
}

/// How copies are named whose memory on the host the driver has to stage first.
const PAGEABLE: &str = "Pageable";

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct SyncSite {
    call: StrId,
    operator: Option<StrId>,
    line: Option<StrId>,
}

/// One call that waits, and how long the GPU then had nothing to do.
pub(crate) struct SyncCall {
    pub(crate) call: SpanId,
    pub(crate) idle_ns: TotalNanos,
}

/// Every call that waits for the GPU, in order of time.
pub(crate) fn sync_costs(facts: &Facts) -> Vec<SyncCall> {
    let idle = idle_sets(facts);
    let mut drained: BTreeSet<(usize, Nanos)> = BTreeSet::new();
    let mut cost = |call: SpanId| -> TotalNanos {
        let gaps = idle.iter().enumerate().filter_map(|(device, idle)| {
            let gap = drained_gap(facts, idle, call)?;
            // Two threads may wait for the same end.
            drained.insert((device, gap.0)).then_some(length(gap))
        });
        gaps.sum()
    };
    let calls = sync_calls(facts).into_iter();
    calls.map(|call| SyncCall { call, idle_ns: cost(call) }).collect()
}

/// Synchronizations by call, operator and line, the most expensive first.
pub fn syncs(facts: &Facts) -> Vec<SyncRow> {
    let mut rows: BTreeMap<SyncSite, SyncRow> = BTreeMap::new();
    for SyncCall { call, idle_ns } in sync_costs(facts) {
        let site = site(facts, call);
        let row = rows.entry(site).or_insert_with(|| empty_row(facts, site));
        let dur = facts.trace().spans().dur(call);
        row.count += 1;
        row.blocked_ns += i128::from(dur);
        row.blocked_max_ns = row.blocked_max_ns.max(dur);
        row.drained += u64::from(idle_ns > 0);
        row.idle_ns += idle_ns;
    }
    let mut rows: Vec<SyncRow> = rows.into_values().collect();
    let cost = |row: &SyncRow| row.blocked_ns + row.idle_ns;
    rows.sort_by(|a, b| {
        let keys = (&a.line, &a.operator, &a.call).cmp(&(&b.line, &b.operator, &b.call));
        cost(b).cmp(&cost(a)).then(keys)
    });
    rows
}

/// When each device was idle.
fn idle_sets(facts: &Facts) -> Vec<IntervalSet> {
    let idle = |device: &Device<'_>| device.busy(facts.trace()).gaps(facts.window());
    devices(facts.trace()).iter().map(idle).collect()
}

/// Calls that wait for the GPU, in order of time.
fn sync_calls(facts: &Facts) -> Vec<SpanId> {
    let (trace, spans) = (facts.trace(), facts.trace().spans());
    let says_so = spans.ids().filter(|&span| facts.waits().kind(span) == Some(WaitKind::Gpu));
    let waits = |&(copy, call): &(SpanId, SpanId)| {
        trace.kind(copy) == SpanKind::Memcpy
            && (trace.name(copy).contains(PAGEABLE) || spans.end(call) >= spans.end(copy))
    };
    let copies = spans.ids().filter_map(|span| Some((span, spans.launch(span)?)));
    let mut calls: Vec<SpanId> =
        says_so.chain(copies.filter(waits).map(|(_, call)| call)).collect();
    calls.sort_unstable();
    calls.dedup();
    calls.sort_by_key(|&call| (spans.start(call), call));
    calls
}

/// The idle time that began while the call waited and outlasted it.
fn drained_gap(facts: &Facts, idle: &IntervalSet, call: SpanId) -> Option<(Nanos, Nanos)> {
    let (from, to) = (facts.trace().spans().start(call), facts.trace().spans().end(call));
    // The last nanosecond of the call, whose duration may be 0.
    let last = to.checked_sub(1)?.max(from);
    idle.at(last).filter(|gap| gap.0 >= from && gap.0 > facts.window().0)
}

fn site(facts: &Facts, call: SpanId) -> SyncSite {
    let spans = facts.trace().spans();
    let name = |span: SpanId| facts.names().merged(spans.name(span));
    let operator = facts.asked_operators().around(spans.parent(call));
    let line = facts.frames().line(call).map(name);
    SyncSite { call: name(call), operator: operator.map(name), line }
}

/// By span: the outermost operator around it, itself included, below the Python line: what the
/// program asked for, rather than what that came down to.
pub(crate) struct AskedOperators(Vec<u32>);

impl AskedOperators {
    /// One forward pass: a parent always stands before its children (I3).
    pub(crate) fn new(trace: &Trace) -> Self {
        let spans = trace.spans();
        let mut asked = vec![NO_ROW; spans.len()];
        for (row, &parent) in spans.parent_column().iter().enumerate() {
            let outer = if parent == NO_ROW { NO_ROW } else { asked[parent as usize] };
            asked[row] = match trace.kind(SpanId(row as u32)) {
                SpanKind::Python => NO_ROW,
                SpanKind::Operator if outer == NO_ROW => row as u32,
                _ => outer,
            };
        }
        AskedOperators(asked)
    }

    pub(crate) fn around(&self, span: Option<SpanId>) -> Option<SpanId> {
        let row = self.0[span?.index()];
        (row != NO_ROW).then_some(SpanId(row))
    }
}

fn empty_row(facts: &Facts, site: SyncSite) -> SyncRow {
    let SyncSite { call, operator, line } = site;
    let text = |id: StrId| facts.names().text(id).into_owned();
    SyncRow {
        call: text(call),
        operator: operator.map(text),
        line: line.map(text),
        count: 0,
        blocked_ns: 0,
        blocked_max_ns: 0,
        drained: 0,
        idle_ns: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::sample::Sample;

    #[test]
    fn a_sync_costs_the_host_and_then_the_gpu() {
        let mut sample = Sample::default();
        sample.span("1", SpanKind::Python, "train.py(3): loop", 0, 200);
        sample.call("1", 0, 5, 1);
        sample.span("1", SpanKind::Operator, "aten::item", 10, 60);
        sample.span("1", SpanKind::Operator, "aten::_local_scalar_dense", 11, 58);
        sample.span("1", SpanKind::Runtime, "cudaStreamSynchronize", 12, 50);
        sample.call("1", 100, 5, 2);
        // Nothing runs: this one waits for nothing and drains nothing.
        sample.span("1", SpanKind::Runtime, "cudaStreamSynchronize", 150, 2);
        sample.work("7", SpanKind::Kernel, "a", (10, 50), 1);
        sample.work("7", SpanKind::Kernel, "b", (110, 10), 2);
        let trace = sample.finish();
        let rows = syncs(&Facts::new(&trace));
        let line = Some("train.py(3): loop".to_owned());
        assert_eq!((rows.len(), &rows[0].line), (2, &line));
        assert_eq!(rows[0].operator.as_deref(), Some("aten::item"));
        assert_eq!((rows[0].count, rows[0].blocked_ns), (1, 50));
        assert_eq!((rows[0].drained, rows[0].idle_ns), (1, 50));
        assert_eq!((rows[1].blocked_ns, rows[1].drained, rows[1].idle_ns), (2, 0, 0));
    }

    #[test]
    fn a_copy_that_returns_after_the_data_arrived_is_a_sync() {
        let mut sample = Sample::default();
        sample.call("1", 0, 40, 1);
        sample.call("1", 50, 5, 2);
        sample.work("7", SpanKind::Memcpy, "Memcpy DtoH (Device -> Pinned)", (10, 20), 1);
        sample.work("7", SpanKind::Memcpy, "Memcpy HtoD (Pinned -> Device)", (54, 20), 2);
        let trace = sample.finish();
        let rows = syncs(&Facts::new(&trace));
        assert_eq!(rows.len(), 1);
        assert_eq!((rows[0].count, rows[0].blocked_ns, rows[0].idle_ns), (1, 40, 24));
    }
}

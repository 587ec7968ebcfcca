//! How long each thread ran, was blocked, and waited for a processor.
//!
//! Read from the spans that stand for a thread's state ([`ThreadState`]), which are the
//! innermost ones of their thread: what is left of its time, it ran.

use std::collections::BTreeMap;

use spanwise_model::{
    BlockedOn, MIGRATION_CATEGORY, RunnableSince, SpanId, SpanKind, ThreadState, Trace, Track,
    TrackId, TrackKind,
};

use crate::{Facts, TotalNanos};

/// One thread. The times add up to all that is known of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffCpuRow {
    pub track: TrackId,
    pub process: String,
    pub thread: String,
    pub running_ns: TotalNanos,
    pub blocked_ns: BTreeMap<BlockedOn, TotalNanos>,
    /// It could have run, and had no processor.
    pub runnable_ns: TotalNanos,
    /// It may have run or not: an event is missing.
    pub unrecorded_ns: TotalNanos,
    /// How often it left its processor of its own accord …
    pub voluntary: u64,
    /// … and how often it had to.
    pub involuntary: u64,
    /// How often it came back to another processor.
    pub migrations: u64,
}

impl OffCpuRow {
    pub fn blocked_total_ns(&self) -> TotalNanos {
        self.blocked_ns.values().sum()
    }

    /// All that is known of the thread.
    pub fn known_ns(&self) -> TotalNanos {
        self.running_ns + self.blocked_total_ns() + self.runnable_ns + self.unrecorded_ns
    }
}

/// Every thread of which switches were recorded, the one that ran longest first.
pub fn off_cpu(facts: &Facts<'_>) -> Vec<OffCpuRow> {
    let trace = facts.trace();
    if !has_kind(trace, SpanKind::OffCpu) {
        return Vec::new();
    }
    let states = States::new(trace);
    let migrations = migrations(trace);
    let mut rows = Vec::new();
    for thread in &facts.self_time().threads {
        let track = trace.tracks().get(thread.track);
        let mut row = empty_row(trace, thread.track, track);
        row.migrations = migrations.get(&thread.track).copied().unwrap_or(0);
        let mut off_ns = 0;
        for period in off_periods(trace, track, &states) {
            match period[0].1 {
                ThreadState::Runnable(RunnableSince::Preempted) => row.involuntary += 1,
                ThreadState::Runnable(RunnableSince::Created) => {}
                _ => row.voluntary += 1,
            }
            for (span, state) in period {
                let ns = i128::from(facts.self_time().span_ns[span.index()]);
                off_ns += ns;
                match state {
                    ThreadState::Blocked(on) => *row.blocked_ns.entry(on).or_default() += ns,
                    ThreadState::Runnable(_) => row.runnable_ns += ns,
                    ThreadState::Running | ThreadState::Unrecorded => row.unrecorded_ns += ns,
                }
            }
        }
        row.running_ns = thread.busy_ns - off_ns;
        if off_ns > 0 {
            rows.push(row);
        }
    }
    rows.sort_by_key(|row| (std::cmp::Reverse(row.running_ns), row.track));
    rows
}

/// How often the threads changed their processor.
fn migrations(trace: &Trace) -> BTreeMap<TrackId, u64> {
    let categories = trace.categories().rows();
    let is_migration = |category: u16| {
        let row = categories.get(usize::from(category));
        row.is_some_and(|row| trace.strings().get(row.name) == MIGRATION_CATEGORY)
    };
    let is_one: Vec<bool> = (0..categories.len() as u16).map(is_migration).collect();
    let mut counts = BTreeMap::new();
    let instants = trace.instants();
    for (&category, &track) in instants.category.iter().zip(instants.track.iter()) {
        if is_one[usize::from(category)] {
            *counts.entry(TrackId(track)).or_default() += 1;
        }
    }
    counts
}

/// True where the trace may hold spans of a kind.
pub(crate) fn has_kind(trace: &Trace, kind: SpanKind) -> bool {
    trace.categories().rows().iter().any(|row| row.kind == kind)
}

/// The states of spans, each name looked at once.
pub(crate) struct States(Vec<Option<ThreadState>>);

impl States {
    pub(crate) fn new(trace: &Trace) -> Self {
        let names = (0..trace.strings().len() as u32).map(spanwise_model::StrId);
        States(names.map(|name| ThreadState::from_span_name(trace.strings().get(name))).collect())
    }

    /// True where some thread was in this state.
    pub(crate) fn has(&self, state: ThreadState) -> bool {
        self.0.contains(&Some(state))
    }

    /// What a span says about its thread; `None` for all that is no off-CPU time.
    pub(crate) fn of(&self, trace: &Trace, span: SpanId) -> Option<ThreadState> {
        let state = self.0[trace.spans().name(span).index()];
        state.filter(|_| trace.kind(span) == SpanKind::OffCpu)
    }
}

/// Spans from leaving the processor to coming back: blocked, then waiting for a processor.
pub(crate) type OffPeriod = Vec<(SpanId, ThreadState)>;

/// All such periods of a thread, in order of time.
pub(crate) fn off_periods(trace: &Trace, track: &Track, states: &States) -> Vec<OffPeriod> {
    let spans = trace.spans();
    let mut periods: Vec<OffPeriod> = Vec::new();
    if track.kind != TrackKind::Thread {
        return periods;
    }
    for span in track.span_ids() {
        let Some(state) = states.of(trace, span) else { continue };
        let goes_on = periods.last().and_then(|period| period.last()).is_some_and(|before| {
            matches!(before.1, ThreadState::Blocked(_))
                && state == ThreadState::Runnable(RunnableSince::Woken)
                && spans.end(before.0) == spans.start(span)
        });
        match periods.last_mut().filter(|_| goes_on) {
            Some(period) => period.push((span, state)),
            None => periods.push(vec![(span, state)]),
        }
    }
    periods
}

fn empty_row(trace: &Trace, id: TrackId, track: &Track) -> OffCpuRow {
    OffCpuRow {
        track: id,
        process: process_name(trace, track),
        thread: thread_name(trace, track),
        running_ns: 0,
        blocked_ns: BTreeMap::new(),
        runnable_ns: 0,
        unrecorded_ns: 0,
        voluntary: 0,
        involuntary: 0,
        migrations: 0,
    }
}

fn process_name(trace: &Trace, track: &Track) -> String {
    let text = |id| trace.strings().get(id);
    match text(track.process_name) {
        "" => text(track.process).to_owned(),
        name => format!("{name} {}", text(track.process)),
    }
}

/// The name of a thread with its number, since pools name all of theirs alike.
pub(crate) fn thread_name(trace: &Trace, track: &Track) -> String {
    let text = |id| trace.strings().get(id);
    match text(track.thread_name) {
        "" => format!("thread {}", text(track.thread)),
        name if name.contains(text(track.thread)) => name.to_owned(),
        name => format!("{name} {}", text(track.thread)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Sample;

    #[test]
    fn states_of_a_thread_add_up_and_switches_are_counted() {
        let mut sample = Sample::default();
        let mut span = |kind, name: &str, start, dur| {
            sample.span("7", kind, name, start, dur);
        };
        span(SpanKind::OffCpu, "[waiting for a CPU: new]", 0, 5);
        span(SpanKind::Other, "main", 5, 60);
        span(SpanKind::LockWait, "[mutex 0x40]", 10, 20);
        span(SpanKind::OffCpu, "[blocked: mutex]", 12, 8);
        span(SpanKind::OffCpu, "[waiting for a CPU]", 20, 6);
        span(SpanKind::OffCpu, "[waiting for a CPU: preempted]", 40, 10);
        span(SpanKind::OffCpu, "[off-CPU or running: not recorded]", 60, 3);
        // What only looks like one is not.
        span(SpanKind::Other, "[sleeping]", 63, 2);
        let trace = sample.finish();
        let rows = off_cpu(&Facts::new(&trace));
        let [row] = &rows[..] else { panic!("one thread, not {}", rows.len()) };
        assert_eq!(row.running_ns, 65 - 5 - 8 - 6 - 10 - 3);
        assert_eq!(row.blocked_ns, BTreeMap::from([(BlockedOn::Mutex, 8)]));
        assert_eq!((row.runnable_ns, row.unrecorded_ns), (5 + 6 + 10, 3));
        assert_eq!((row.voluntary, row.involuntary), (2, 1));
        assert_eq!(row.known_ns(), 65);
    }

    #[test]
    fn threads_without_switches_have_no_row() {
        let mut sample = Sample::default();
        sample.span("7", SpanKind::LockWait, "[mutex 0x40]", 10, 20);
        let trace = sample.finish();
        assert_eq!(off_cpu(&Facts::new(&trace)), []);
    }
}

//! The way from a launching call to the work on the GPU: how long it takes, and
//! whether the call costs more than the work.
//!
//! The delay of work is counted from the start of its call to its own start. Where
//! the stream had run dry when the call began, that is the latency of a launch;
//! where it had not, the work also stood in the queue, which is how it should be.

use std::collections::BTreeMap;

use spanwise_model::{Nanos, SpanId, StrId};

use crate::gpu::device::{Stream, devices};
use crate::{Facts, TotalNanos};

/// All launches by calls of one name; work without a known call has no name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchRow {
    /// `None` for work whose launch is not in the trace.
    pub call: Option<String>,
    /// Calls that launched something.
    pub calls: u64,
    pub call_ns: TotalNanos,
    /// Kernels, copies and fills that they launched.
    pub work: u64,
    pub work_ns: TotalNanos,
    /// Of one call at most: a graph launches many kernels at once.
    pub work_per_call_max: u64,
    /// Delay of work whose stream had run dry.
    pub latency: Percentiles,
    /// Delay of work that others on its stream went before.
    pub queued: Percentiles,
    /// Work that took less time than the call that launched it alone …
    pub shorter: u64,
    /// … and how much longer these calls took.
    pub shorter_by_ns: TotalNanos,
}

/// Nearest-rank percentiles: each is a value that occurred. All 0 where none did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Percentiles {
    pub count: u64,
    pub p50_ns: Nanos,
    pub p90_ns: Nanos,
    pub p99_ns: Nanos,
    pub max_ns: Nanos,
}

impl Percentiles {
    pub(crate) fn of(mut values: Vec<Nanos>) -> Self {
        values.sort_unstable();
        let at = |percent: usize| {
            let rank = (values.len() * percent).div_ceil(100);
            values.get(rank.saturating_sub(1)).copied().unwrap_or(0)
        };
        Percentiles {
            count: values.len() as u64,
            p50_ns: at(50),
            p90_ns: at(90),
            p99_ns: at(99),
            max_ns: at(100),
        }
    }
}

#[derive(Default)]
struct Group {
    calls: BTreeMap<SpanId, Vec<SpanId>>,
    latency: Vec<Nanos>,
    queued: Vec<Nanos>,
    unlaunched: Vec<SpanId>,
}

/// Launches by the name of the call, those that took most of the host's time first.
pub fn launches(facts: &Facts) -> Vec<LaunchRow> {
    let mut groups: BTreeMap<Option<StrId>, Group> = BTreeMap::new();
    for device in devices(facts.trace()) {
        for stream in &device.streams {
            add_stream(facts, stream, &mut groups);
        }
    }
    let mut rows: Vec<LaunchRow> =
        groups.into_iter().map(|(name, group)| row(facts, name, group)).collect();
    rows.sort_by(|a, b| (b.call_ns, &a.call).cmp(&(a.call_ns, &b.call)));
    rows
}

fn add_stream(facts: &Facts, stream: &Stream<'_>, groups: &mut BTreeMap<Option<StrId>, Group>) {
    let spans = facts.trace().spans();
    // When the stream had worked off what came before.
    let mut dry_since = Nanos::MIN;
    for &work in &stream.work {
        match spans.launch(work) {
            None => groups.entry(None).or_default().unlaunched.push(work),
            Some(call) => {
                let group = groups.entry(Some(facts.names().merged(spans.name(call)))).or_default();
                let of_call = group.calls.entry(call).or_default();
                let delay = spans.start(work).saturating_sub(spans.start(call)).max(0);
                // Within one graph each kernel waits for the one before it.
                match dry_since <= spans.start(call) && of_call.is_empty() {
                    true => group.latency.push(delay),
                    false => group.queued.push(delay),
                }
                of_call.push(work);
            }
        }
        dry_since = dry_since.max(spans.end(work));
    }
}

fn row(facts: &Facts, name: Option<StrId>, group: Group) -> LaunchRow {
    let spans = facts.trace().spans();
    let dur = |span: SpanId| i128::from(spans.dur(span));
    let launched = group.calls.values().flatten().chain(&group.unlaunched);
    let saved = group.calls.iter().filter_map(|(&call, work)| match work[..] {
        [only] => Some(dur(call) - dur(only)).filter(|&ns| ns > 0),
        _ => None,
    });
    let shorter: Vec<TotalNanos> = saved.collect();
    LaunchRow {
        call: name.map(|name| facts.names().text(name).into_owned()),
        calls: group.calls.len() as u64,
        call_ns: group.calls.keys().map(|&call| dur(call)).sum(),
        work: launched.clone().count() as u64,
        work_ns: launched.map(|&work| dur(work)).sum(),
        work_per_call_max: group.calls.values().map(Vec::len).max().unwrap_or(0) as u64,
        latency: Percentiles::of(group.latency),
        queued: Percentiles::of(group.queued),
        shorter: shorter.len() as u64,
        shorter_by_ns: shorter.iter().sum(),
    }
}

#[cfg(test)]
mod tests {
    use spanwise_model::SpanKind;

    use super::*;
    use crate::base::sample::Sample;

    #[track_caller]
    fn check(values: impl IntoIterator<Item = i64>, expected: [i64; 4]) {
        let found = Percentiles::of(values.into_iter().collect());
        assert_eq!([found.p50_ns, found.p90_ns, found.p99_ns, found.max_ns], expected);
    }

    #[test]
    fn percentiles_are_values_that_occurred() {
        check((1..=100).rev(), [50, 90, 99, 100]);
        check([7], [7, 7, 7, 7]);
        check([], [0, 0, 0, 0]);
        check([1, 2, 3], [2, 3, 3, 3]);
    }

    #[test]
    fn a_launch_to_a_dry_stream_is_distinguished_from_one_that_queues() {
        let mut sample = Sample::default();
        sample.call("1", 0, 10, 1);
        sample.call("1", 10, 10, 2);
        sample.call("1", 90, 10, 3);
        sample.work("7", SpanKind::Kernel, "a", (5, 50), 1);
        sample.work("7", SpanKind::Kernel, "b", (55, 4), 2);
        sample.work("7", SpanKind::Kernel, "graph", (97, 3), 3);
        sample.work("7", SpanKind::Kernel, "graph", (100, 3), 3);
        sample.work("7", SpanKind::Kernel, "before", (110, 3), 99);
        let trace = sample.finish();
        let rows = launches(&Facts::new(&trace));
        let row = &rows[0];
        assert_eq!((row.calls, row.call_ns, row.work, row.work_per_call_max), (3, 30, 4, 2));
        assert_eq!((row.latency.count, row.latency.p50_ns, row.latency.max_ns), (2, 5, 7));
        assert_eq!((row.queued.count, row.queued.p50_ns, row.queued.max_ns), (2, 10, 45));
        assert_eq!((row.shorter, row.shorter_by_ns), (1, 6));
        assert_eq!((rows[1].call.as_deref(), rows[1].work, rows[1].calls), (None, 1, 0));
    }
}

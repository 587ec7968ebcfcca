//! Why a GPU had nothing to do: each gap is cut into parts with one cause each.
//!
//! A gap lasts from the end of one piece of work to the start of the next, and it
//! is the next one that shows the cause: until the call that launched it began, the
//! GPU waited for the host; from then on the work was on its way. The parts of a gap
//! add up to the gap. A whole device is idle while none of its streams works; where
//! it has several streams, each is also analyzed alone.

use std::collections::BTreeMap;

use spanwise_model::{Nanos, SpanId, Trace};

use crate::base::intervals::{Interval, IntervalSet, length};
use crate::gpu::device::{Device, Stream, busy, devices, launch_before};
use crate::{Facts, TotalNanos};

/// Why there was no work for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum IdleCause {
    /// The thread that launched the next work was still working towards it.
    Host,
    /// That thread was inside a call that waits for the GPU.
    HostSync,
    /// That thread waited for something else: a lock, a queue, a file, a sleep.
    HostWaiting,
    /// That thread has no span there: nobody recorded what it did.
    HostUnrecorded,
    /// The launch had begun: the time it takes until the work starts.
    Latency,
    /// The launch was long in the queue, and other streams worked: the stream most
    /// likely waited for one of them.
    OtherStream,
    /// The next work has no launch in the trace.
    LaunchUnrecorded,
    /// Nothing came any more.
    NoMoreWork,
}

/// Idle time of one cause on one device, or on one of its streams.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdleRow {
    pub device: String,
    /// `None` for the device as a whole.
    pub stream: Option<String>,
    pub cause: IdleCause,
    pub total_ns: TotalNanos,
    /// Gaps with a part of this cause.
    pub gaps: u64,
    pub longest_ns: TotalNanos,
    /// All idle time there, of whatever cause.
    pub idle_ns: TotalNanos,
    pub window_ns: TotalNanos,
}

/// A launch that was under way for longer than this, while other streams worked, is
/// taken to have waited for them; the way of a launch to an idle GPU takes 5 to 10 µs.
const LATENCY_MAX_NS: TotalNanos = 20_000;

/// Idle time by cause: each device, then each of its streams where it has several.
pub fn idle(facts: &Facts) -> Vec<IdleRow> {
    let trace = facts.trace();
    let mut rows = Vec::new();
    for device in devices(trace) {
        let none = IntervalSet::default();
        let whole = Lane { facts, work: by_start(trace, &device), elsewhere: &none };
        rows.extend(whole.rows(device.id, None));
        if device.streams.len() < 2 {
            continue;
        }
        // Only gaps of the stream are held against it: there, all that is busy is another one.
        let elsewhere = device.busy(trace);
        for stream in &device.streams {
            let lane = Lane { facts, work: stream.work.clone(), elsewhere: &elsewhere };
            rows.extend(lane.rows(device.id, Some(stream.id)));
        }
    }
    rows
}

/// Time in which a stream was empty because the thread that feeds it still worked:
/// how often, in all, and at longest.
pub(crate) fn starved(facts: &Facts, stream: &Stream<'_>) -> (u64, TotalNanos, TotalNanos) {
    let none = IntervalSet::default();
    let lane = Lane { facts, work: stream.work.clone(), elsewhere: &none };
    let sums = lane.sums();
    sums.get(&IdleCause::Host).map_or((0, 0, 0), |sum| (sum.gaps, sum.total_ns, sum.longest_ns))
}

fn by_start(trace: &Trace, device: &Device<'_>) -> Vec<SpanId> {
    let mut work: Vec<SpanId> = device.work().collect();
    work.sort_by_key(|&span| (trace.spans().start(span), span));
    work
}

/// Work in order of time, whose gaps are to be explained.
struct Lane<'a> {
    facts: &'a Facts,
    work: Vec<SpanId>,
    /// When other streams of the device worked.
    elsewhere: &'a IntervalSet,
}

#[derive(Default)]
struct Sum {
    total_ns: TotalNanos,
    gaps: u64,
    longest_ns: TotalNanos,
}

impl Lane<'_> {
    fn rows(&self, device: &str, stream: Option<&str>) -> Vec<IdleRow> {
        let sums = self.sums();
        let idle_ns = sums.values().map(|sum| sum.total_ns).sum();
        let row = |(cause, sum): (IdleCause, Sum)| IdleRow {
            device: device.to_owned(),
            stream: stream.map(str::to_owned),
            cause,
            total_ns: sum.total_ns,
            gaps: sum.gaps,
            longest_ns: sum.longest_ns,
            idle_ns,
            window_ns: self.facts.window_ns(),
        };
        let mut rows: Vec<IdleRow> = sums.into_iter().map(row).collect();
        rows.sort_by_key(|row| (std::cmp::Reverse(row.total_ns), row.cause));
        rows
    }

    fn sums(&self) -> BTreeMap<IdleCause, Sum> {
        let mut sums: BTreeMap<IdleCause, Sum> = BTreeMap::new();
        let spans = self.facts.trace().spans();
        let busy = busy(self.facts.trace(), self.work.iter().copied());
        for gap in busy.gaps(self.facts.window()).iter() {
            let next = self.work.partition_point(|&span| spans.start(span) < gap.1);
            let mut parts: BTreeMap<IdleCause, TotalNanos> = BTreeMap::new();
            self.explain(gap, self.work.get(next).copied(), |cause, ns| {
                *parts.entry(cause).or_default() += ns;
            });
            for (cause, ns) in parts.into_iter().filter(|&(_, ns)| ns > 0) {
                let sum = sums.entry(cause).or_default();
                sum.total_ns += ns;
                sum.gaps += 1;
                sum.longest_ns = sum.longest_ns.max(ns);
            }
        }
        sums
    }

    /// Cuts a gap into parts; they add up to it.
    fn explain(
        &self,
        gap: Interval,
        next: Option<SpanId>,
        mut part: impl FnMut(IdleCause, TotalNanos),
    ) {
        let Some(next) = next else { return part(IdleCause::NoMoreWork, length(gap)) };
        let trace = self.facts.trace();
        let Some((call, launched)) = launch_before(trace, next) else {
            return part(IdleCause::LaunchUnrecorded, length(gap));
        };
        let launched: Nanos = launched.clamp(gap.0, gap.1);
        let before = (gap.0, launched);
        let mut rest_ns = length(before);
        if let Some(states) = self.facts.host_states().of(trace.spans().track(call)) {
            let known = [
                (IdleCause::Host, &states.working),
                (IdleCause::HostSync, &states.in_sync),
                (IdleCause::HostWaiting, &states.waiting),
            ];
            for (cause, set) in known {
                let ns = set.covered_ns(before);
                part(cause, ns);
                rest_ns -= ns;
            }
        }
        part(IdleCause::HostUnrecorded, rest_ns);
        let after = (launched, gap.1);
        let others_ns = match length(after) > LATENCY_MAX_NS {
            true => self.elsewhere.covered_ns(after),
            false => 0,
        };
        part(IdleCause::OtherStream, others_ns);
        part(IdleCause::Latency, length(after) - others_ns);
    }
}

#[cfg(test)]
mod tests {
    use spanwise_model::SpanKind;

    use super::*;
    use crate::base::sample::Sample;

    #[track_caller]
    fn check(sample: &mut Sample, stream: Option<&str>, expected: &[(IdleCause, TotalNanos)]) {
        let trace = sample.finish();
        let facts = Facts::new(&trace);
        let rows = idle(&facts);
        let asked: Vec<&IdleRow> =
            rows.iter().filter(|row| row.stream.as_deref() == stream).collect();
        let found: Vec<_> = asked.iter().map(|row| (row.cause, row.total_ns)).collect();
        assert_eq!(found, expected);
        let total: TotalNanos = asked.iter().map(|row| row.total_ns).sum();
        assert!(asked.iter().all(|row| row.idle_ns == total));
    }

    #[test]
    fn a_gap_is_the_hosts_until_it_launches() {
        let mut sample = Sample::default();
        sample.span("1", SpanKind::Python, "train.py(1): main", 0, 60);
        sample.span("1", SpanKind::Python, "<built-in function sleep>", 65, 10);
        sample.call("1", 0, 5, 1);
        sample.call("1", 80, 5, 2);
        sample.span("1", SpanKind::Python, "train.py(9): end", 85, 45);
        sample.work("7", SpanKind::Kernel, "a", (10, 20), 1);
        sample.work("7", SpanKind::Kernel, "b", (90, 10), 2);
        // 0–10 latency, 30–60 host, 65–75 asleep, 60–65 and 75–80 unknown, 80–90 latency.
        let expected = [
            (IdleCause::Host, 30),
            (IdleCause::NoMoreWork, 30),
            (IdleCause::Latency, 20),
            (IdleCause::HostWaiting, 10),
            (IdleCause::HostUnrecorded, 10),
        ];
        check(&mut sample, None, &expected);
    }

    #[test]
    fn a_stream_waits_for_another_when_its_launch_came_long_ago() {
        let expected = [(IdleCause::OtherStream, 100_000), (IdleCause::Latency, 100)];
        check(&mut two_streams(), Some("7"), &expected);
        check(&mut two_streams(), None, &[(IdleCause::Latency, 100)]);
    }

    fn two_streams() -> Sample {
        let mut sample = Sample::default();
        sample.call("1", 0, 10, 1);
        sample.call("1", 10, 10, 2);
        sample.call("1", 20, 10, 3);
        sample.work("7", SpanKind::Kernel, "a", (0, 100), 1);
        sample.work("8", SpanKind::Kernel, "slow", (100, 100_000), 2);
        sample.work("7", SpanKind::Kernel, "b", (100_200, 100), 3);
        sample
    }

    #[test]
    fn work_without_a_launch_explains_nothing() {
        let mut sample = Sample::default();
        sample.span("1", SpanKind::Python, "train.py(1): main", 0, 100);
        sample.work("7", SpanKind::Kernel, "a", (40, 60), 1);
        check(&mut sample, None, &[(IdleCause::LaunchUnrecorded, 40)]);
    }
}

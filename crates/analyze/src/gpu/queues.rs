//! How much work stood ready on each stream, over time.
//!
//! Work is in the queue from the start of the call that launches it until it starts
//! itself. A deep queue means that the host runs ahead, as it should; an empty one
//! that the stream lives from hand to mouth.

use spanwise_model::Nanos;

use crate::base::intervals::length;
use crate::gpu::device::{Stream, devices, launch_before};
use crate::gpu::idle::starved;
use crate::{Facts, TotalNanos};

/// Depths that the time is asked for at which the queue was at least so deep.
pub const QUEUE_DEPTHS: [u64; 4] = [1, 10, 100, 1000];

/// The queue of one stream, from its first launch to the end of its last work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueRow {
    pub device: String,
    pub stream: String,
    /// Work with a launch in the trace …
    pub launched: u64,
    /// … and without, which no queue can hold.
    pub unlaunched: u64,
    pub depth_max: u64,
    /// Sum of depth × time; divided by `over_ns` it is the mean depth.
    pub depth_ns: TotalNanos,
    pub over_ns: TotalNanos,
    /// Time at each of [`QUEUE_DEPTHS`] or deeper.
    pub at_least_ns: [TotalNanos; 4],
    /// Intervals in which the stream had nothing to do and nothing in the queue while
    /// the thread that feeds it worked: how many, in all, and the longest.
    pub starved: u64,
    pub starved_ns: TotalNanos,
    pub starved_longest_ns: TotalNanos,
}

/// One row a stream, in order of devices and streams.
pub fn queues(facts: &Facts) -> Vec<QueueRow> {
    let mut rows = Vec::new();
    for device in devices(facts.trace()) {
        rows.extend(device.streams.iter().map(|stream| row(facts, device.id, stream)));
    }
    rows
}

fn row(facts: &Facts, device: &str, stream: &Stream<'_>) -> QueueRow {
    let (trace, spans) = (facts.trace(), facts.trace().spans());
    let mut changes: Vec<(Nanos, i64)> = Vec::new();
    for &work in &stream.work {
        if let Some((_, launched)) = launch_before(trace, work) {
            changes.extend([(launched, 1), (spans.start(work), -1)]);
        }
    }
    let launched = changes.len() as u64 / 2;
    let last_end = stream.work.iter().map(|&work| spans.end(work)).max().unwrap_or(0);
    let (starved, starved_ns, starved_longest_ns) = starved(facts, stream);
    let mut row = QueueRow {
        device: device.to_owned(),
        stream: stream.id.to_owned(),
        launched,
        unlaunched: stream.work.len() as u64 - launched,
        depth_max: 0,
        depth_ns: 0,
        over_ns: 0,
        at_least_ns: [0; 4],
        starved,
        starved_ns,
        starved_longest_ns,
    };
    sum_depths(changes, last_end, &mut row);
    row
}

/// Takes the steps of the depth into `row`; arrivals stand before departures.
fn sum_depths(mut changes: Vec<(Nanos, i64)>, last_end: Nanos, row: &mut QueueRow) {
    changes.sort_unstable_by_key(|&(time, change)| (time, std::cmp::Reverse(change)));
    let mut depth = 0_u64;
    let ends = changes.iter().skip(1).map(|change| change.0).chain([last_end]);
    for (&(time, change), end) in changes.iter().zip(ends) {
        depth = depth.saturating_add_signed(change);
        let ns = length((time, end)).max(0);
        // What arrives and starts at one time was never in the queue.
        if ns > 0 {
            row.depth_max = row.depth_max.max(depth);
        }
        row.depth_ns += i128::from(depth) * ns;
        row.over_ns += ns;
        for (sum, least) in row.at_least_ns.iter_mut().zip(QUEUE_DEPTHS) {
            if depth >= least {
                *sum += ns;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use spanwise_model::SpanKind;

    use super::*;
    use crate::base::sample::Sample;

    #[test]
    fn depth_rises_with_launches_and_falls_with_starts() {
        let mut sample = Sample::default();
        sample.call("1", 0, 2, 1);
        sample.call("1", 2, 2, 2);
        sample.call("1", 4, 2, 3);
        sample.work("7", SpanKind::Kernel, "a", (10, 10), 1);
        sample.work("7", SpanKind::Kernel, "b", (20, 10), 2);
        sample.work("7", SpanKind::Kernel, "c", (30, 10), 3);
        sample.work("7", SpanKind::Kernel, "before", (45, 5), 9);
        let trace = sample.finish();
        let rows = queues(&Facts::new(&trace));
        let row = &rows[0];
        assert_eq!((row.launched, row.unlaunched, row.depth_max), (3, 1, 3));
        // 0–2: 1, 2–4: 2, 4–10: 3, 10–20: 2, 20–30: 1, 30–50: 0.
        assert_eq!((row.depth_ns, row.over_ns), (2 + 4 + 18 + 20 + 10, 50));
        assert_eq!(row.at_least_ns, [30, 0, 0, 0]);
    }

    #[test]
    fn a_stream_starves_while_its_thread_works() {
        let mut sample = Sample::default();
        sample.span("1", SpanKind::Python, "train.py(1): main", 0, 100);
        sample.call("1", 0, 5, 1);
        sample.call("1", 60, 5, 2);
        sample.work("7", SpanKind::Kernel, "a", (10, 10), 1);
        sample.work("7", SpanKind::Kernel, "b", (70, 10), 2);
        let trace = sample.finish();
        let rows = queues(&Facts::new(&trace));
        assert_eq!((rows[0].starved, rows[0].starved_ns, rows[0].starved_longest_ns), (1, 40, 40));
    }
}

//! Which work a recorded event of CUDA stands for, and which work waits for it.
//!
//! A wait names the call that recorded the event. The event has happened when the
//! work launched last before that call, on the stream of the event, is done. A stream
//! that waits holds back the work that the same thread launches next on it.

use std::collections::BTreeMap;

use super::queue::is_queued;
use super::window::Events;

/// When work was launched, and which, in this order.
type Launched = Vec<(i64, usize)>;

#[derive(Default)]
pub(super) struct StreamWaits {
    before: BTreeMap<usize, usize>,
    after: BTreeMap<usize, usize>,
}

impl StreamWaits {
    pub(super) fn new(events: &Events<'_>) -> Self {
        let mut launches: Vec<(usize, usize)> = (0..events.rows.len())
            .filter(|&event| is_queued(events, event))
            .filter_map(|call| Some((call, events.partner[call]?)))
            .filter(|&(_, work)| events.rows[work].stream != -1)
            .collect();
        launches.sort_by_key(|&(call, _)| events.rows[call].ts);
        let mut waits = StreamWaits::default();
        waits.find_before(events, &launches);
        waits.find_after(events, &launches);
        waits
    }

    /// The work that this wait waits for.
    pub(super) fn work_before(&self, wait: usize) -> Option<usize> {
        self.before.get(&wait).copied()
    }

    /// The work that waits since this call.
    pub(super) fn work_after(&self, call: usize) -> Option<usize> {
        self.after.get(&call).copied()
    }

    fn find_before(&mut self, events: &Events<'_>, launches: &[(usize, usize)]) {
        let mut by_stream: BTreeMap<(&str, i64), Launched> = BTreeMap::new();
        for &(call, work) in launches {
            let key = (events.process(work), events.rows[work].stream);
            by_stream.entry(key).or_default().push((events.rows[call].ts, work));
        }
        let all = || 0..events.rows.len();
        let records: BTreeMap<i64, i64> = all()
            .filter(|&event| events.name(event) == "cudaEventRecord")
            .map(|event| (events.rows[event].correlation, events.rows[event].ts))
            .collect();
        for wait in all().filter(|&event| events.is_sync(event)) {
            let keys = ["wait_on_stream", "wait_on_cuda_event_record_corr_id"];
            let [Some(stream), Some(record)] = events.int_args(wait, keys) else { continue };
            let (Some(&time), 0..) = (records.get(&record), stream) else { continue };
            let Some(works) = by_stream.get(&(events.process(wait), stream)) else { continue };
            let so_far = works.partition_point(|&(ts, _)| ts <= time);
            if let Some(place) = so_far.checked_sub(1) {
                self.before.insert(wait, works[place].1);
            }
        }
    }

    fn find_after(&mut self, events: &Events<'_>, launches: &[(usize, usize)]) {
        let key = |call: usize, work: usize| {
            (events.process(call), events.thread(call), events.rows[work].stream)
        };
        let mut by_stream: BTreeMap<(&str, &str, i64), Launched> = BTreeMap::new();
        for &(call, work) in launches {
            by_stream.entry(key(call, work)).or_default().push((events.rows[call].ts, work));
        }
        for (call, work) in events.partner.iter().enumerate() {
            let Some(work) = work.filter(|_| events.name(call) == "cudaStreamWaitEvent") else {
                continue;
            };
            let Some(works) = by_stream.get(&key(call, work)) else { continue };
            let so_far = works.partition_point(|&(ts, _)| ts <= events.rows[call].ts);
            if let Some(&(_, work)) = works.get(so_far) {
                self.after.insert(call, work);
            }
        }
    }
}

//! Threads whose CPU time is divided together.
//!
//! A thread that ran shorter than a few intervals of the clock has a sample or none by
//! chance. Taken by itself, its time would go to one function, or to none; taken with
//! threads like it, each sample stands for as much time as any other. Which threads are
//! taken together depends on how long they ran alone, never on how many samples they have:
//! otherwise those that were sampled by chance would count for too much.

use std::collections::BTreeMap;

use spanwise_model::{Nanos, Trace, TrackId};

/// Time of so many samples is enough to be divided by itself.
const ENOUGH_SAMPLES: Nanos = 20;

/// A thread that ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RunningThread {
    pub(super) track: TrackId,
    pub(super) ns: Nanos,
    /// Rows of samples, with the CPU time that the thread had had by then.
    pub(super) samples: Vec<(usize, Nanos)>,
}

/// Places in `ran`, by pool: long threads alone, others by process, by name, or all together.
pub(super) fn pools(trace: &Trace, ran: &[RunningThread], interval_ns: Nanos) -> Vec<Vec<usize>> {
    let enough = interval_ns.saturating_mul(ENOUGH_SAMPLES);
    let text = |id| trace.strings().get(id);
    let process = |at: usize| text(trace.tracks().get(ran[at].track).process).to_owned();
    let name = |at: usize| {
        let track = trace.tracks().get(ran[at].track);
        match text(track.process_name) {
            "" => text(track.thread_name).to_owned(),
            name => name.to_owned(),
        }
    };
    let some = (0..ran.len()).filter(|&at| ran[at].ns > 0 || !ran[at].samples.is_empty());
    let mut pools = Vec::new();
    let mut left: Vec<usize> = some.collect();
    let alone: [&dyn Fn(usize) -> String; 3] = [&|at| at.to_string(), &process, &name];
    for key in alone {
        let mut groups: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for at in left.drain(..) {
            groups.entry(key(at)).or_default().push(at);
        }
        for group in groups.into_values() {
            let ns: i128 = group.iter().map(|&at| i128::from(ran[at].ns)).sum();
            match ns >= i128::from(enough) {
                true => pools.push(group),
                false => left.extend(group),
            }
        }
        left.sort_unstable();
    }
    pools.extend((!left.is_empty()).then_some(left));
    pools.sort_unstable();
    pools
}

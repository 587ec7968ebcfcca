//! Which calls of different ranks are one collective, and how far clocks differ.
//!
//! Calls with the same key are matched by their number: the n-th of one rank meets
//! the n-th of the others. Where ranks have different numbers of them (a recording
//! began or ended in between), the last ones are matched, since recordings mostly end
//! together; what is left over is counted.
//!
//! A collective ends at about the same time on all its ranks, so the median of how
//! much later a rank sees them end is how much its clock is ahead. It is taken into
//! account only where it is larger than what collectives themselves differ by.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::collective::CollectiveKey;
use super::digest::RankDigest;

/// One collective, as the ranks that took part in it saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CollectiveInstance {
    pub(super) key: Arc<CollectiveKey>,
    /// In order of ranks; times on the common clock.
    pub(super) calls: Vec<Arrival>,
}

/// How one rank took part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Arrival {
    /// Row of the rank.
    pub(super) rank: usize,
    pub(super) start: i128,
    pub(super) end: i128,
}

impl Arrival {
    /// How long it waited for the last one; who left before that came did not wait for it.
    pub(super) fn waited_ns(&self, last: Arrival) -> i128 {
        last.start.min(self.end) - self.start
    }
}

impl CollectiveInstance {
    /// The rank that came first; of equals the first.
    pub(super) fn first(&self) -> Arrival {
        *self.calls.iter().min_by_key(|call| call.start).expect("two or more meet")
    }

    /// The rank that all others had to wait for; of equals the first.
    pub(super) fn last(&self) -> Arrival {
        *self.calls.iter().rev().max_by_key(|call| call.start).expect("two or more meet")
    }

    pub(super) fn last_end(&self) -> i128 {
        self.calls.iter().map(|call| call.end).max().unwrap_or(0)
    }

    /// From when all were there until the first was done: what the bytes took.
    pub(super) fn transfer_ns(&self) -> i128 {
        let first_end = self.calls.iter().map(|call| call.end).min().unwrap_or(0);
        (first_end - self.last().start).max(0)
    }
}

/// Collectives of all ranks, on one clock.
pub(super) struct CollectiveInstances {
    pub(super) rows: Vec<CollectiveInstance>,
    /// Calls that met no other.
    pub(super) unmatched: Vec<u64>,
    /// How much each rank's clock is ahead, where that is sure; already taken off.
    pub(super) ahead_ns: Vec<Option<i128>>,
}

impl CollectiveInstances {
    pub(super) fn new(ranks: &[RankDigest]) -> Self {
        let mut instances = matched(ranks);
        let later = ends_later(&instances.rows, ranks.len());
        let ahead_ns: Vec<Option<i128>> = later.into_iter().map(ahead).collect();
        for instance in &mut instances.rows {
            for call in &mut instance.calls {
                let ahead_ns = ahead_ns[call.rank].unwrap_or(0);
                call.start -= ahead_ns;
                call.end -= ahead_ns;
            }
        }
        instances.rows.sort_by_key(|instance| (instance.first().start, instance.key.clone()));
        instances.ahead_ns = ahead_ns;
        instances
    }
}

fn matched(ranks: &[RankDigest]) -> CollectiveInstances {
    // Ranks that take part, with the rows of their calls. Most of thousands of ranks take part
    // in few groups, so only those that do are listed.
    let mut by_key: BTreeMap<&Arc<CollectiveKey>, Vec<(usize, Vec<u32>)>> = BTreeMap::new();
    for (rank, digest) in ranks.iter().enumerate() {
        for (row, call) in digest.collectives.iter().enumerate() {
            let of_ranks = by_key.entry(&call.key).or_default();
            match of_ranks.last_mut() {
                Some((last, rows)) if *last == rank => rows.push(row as u32),
                _ => of_ranks.push((rank, vec![row as u32])),
            }
        }
    }
    let arrival = |rank: usize, row: u32| {
        let digest = &ranks[rank];
        let call = &digest.collectives[row as usize];
        let on_calendar = |time: i64| digest.base_ns + i128::from(time);
        Arrival { rank, start: on_calendar(call.start), end: on_calendar(call.end) }
    };
    let mut instances =
        CollectiveInstances { rows: vec![], unmatched: vec![0; ranks.len()], ahead_ns: vec![] };
    for (key, of_ranks) in by_key {
        let shortest = of_ranks.iter().map(|(_, calls)| calls.len()).min().unwrap_or(0);
        let common = if of_ranks.len() < 2 { 0 } else { shortest };
        for (rank, calls) in &of_ranks {
            instances.unmatched[*rank] += (calls.len() - common) as u64;
        }
        for nth in (1..=common).rev() {
            let nth_last = |calls: &[u32]| calls[calls.len() - nth];
            let calls = of_ranks.iter().map(|(rank, calls)| arrival(*rank, nth_last(calls)));
            let calls = calls.collect();
            instances.rows.push(CollectiveInstance { key: Arc::clone(key), calls });
        }
    }
    instances
}

/// How much later than the others (median) each rank sees each of its collectives end.
fn ends_later(instances: &[CollectiveInstance], ranks: usize) -> Vec<Vec<i128>> {
    let mut later = vec![Vec::new(); ranks];
    for instance in instances {
        let mut ends: Vec<i128> = instance.calls.iter().map(|call| call.end).collect();
        ends.sort_unstable();
        let Some(middle) = ends.len().checked_sub(2).map(|others| others / 2) else { continue };
        for call in &instance.calls {
            // The middle of the others: behind the own end, they are one place further on.
            let own = ends.partition_point(|&end| end < call.end);
            let others = ends[middle + usize::from(own <= middle)];
            later[call.rank].push(call.end - others);
        }
    }
    later
}

/// How much later than the others' a rank's clock sees collectives end: the median,
/// where it exceeds three times the usual deviation from it.
fn ahead(mut later: Vec<i128>) -> Option<i128> {
    if later.len() < MEETINGS_MIN {
        return None;
    }
    let middle = median(&mut later)?;
    let mut deviations: Vec<i128> = later.iter().map(|later| (later - middle).abs()).collect();
    let usual = median(&mut deviations)?;
    (middle.abs() > 3 * usual.max(CLOCK_NOISE_NS)).then_some(middle)
}

/// Fewer collectives say nothing about clocks.
const MEETINGS_MIN: usize = 3;

/// Ends closer than this are at the same time.
const CLOCK_NOISE_NS: i128 = 100_000;

/// The middle value; of an even number the lower of the two.
pub(super) fn median(values: &mut [i128]) -> Option<i128> {
    values.sort_unstable();
    values.get(values.len().checked_sub(1)? / 2).copied()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ranks::CollectiveOp;

    fn instance(ends: &[i128]) -> CollectiveInstance {
        let op = CollectiveOp::Barrier;
        let key = Arc::new(CollectiveKey { op, group: String::new(), bytes: None });
        let calls = ends.iter().enumerate();
        let calls = calls.map(|(rank, &end)| Arrival { rank, start: 0, end }).collect();
        CollectiveInstance { key, calls }
    }

    proptest! {
        #[test]
        fn others_are_all_but_the_rank_itself(ends in prop::collection::vec(0_i128..6, 2..9)) {
            let later = ends_later(&[instance(&ends)], ends.len());
            for (rank, later) in later.iter().enumerate() {
                let others = ends.iter().enumerate().filter(|(other, _)| *other != rank);
                let mut others: Vec<i128> = others.map(|(_, &end)| end).collect();
                let expected = ends[rank] - median(&mut others).expect("one or more");
                prop_assert_eq!(later, &vec![expected]);
            }
        }
    }
}

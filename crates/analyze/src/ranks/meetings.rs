//! Which calls of different ranks are one collective, and how far clocks differ.
//!
//! Calls with the same key are matched by their number: the n-th of one rank meets
//! the n-th of the others. Where ranks have different numbers of them (a recording
//! began or ended in between), the last ones are matched, since recordings mostly end
//! together; what is left over is counted.
//!
//! A collective ends at about the same moment on all its ranks, so the median of how
//! much later a rank sees them end is how much its clock is ahead. It is taken into
//! account only where it is larger than what collectives themselves differ by.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::collective::CollectiveKey;
use super::digest::RankDigest;

/// One collective, as the ranks that took part in it saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Meeting {
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

impl Meeting {
    pub(super) fn first_start(&self) -> i128 {
        self.calls.iter().map(|call| call.start).min().unwrap_or(0)
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
pub(super) struct Meetings {
    pub(super) rows: Vec<Meeting>,
    /// Calls that met no other.
    pub(super) unmatched: Vec<u64>,
    /// How much each rank's clock is ahead, where that is sure; already taken off.
    pub(super) ahead_ns: Vec<Option<i128>>,
}

impl Meetings {
    pub(super) fn new(ranks: &[RankDigest]) -> Self {
        let mut meetings = matched(ranks);
        let ahead_ns: Vec<Option<i128>> =
            (0..ranks.len()).map(|rank| ahead(&meetings.rows, rank)).collect();
        for meeting in &mut meetings.rows {
            for call in &mut meeting.calls {
                let ahead_ns = ahead_ns[call.rank].unwrap_or(0);
                call.start -= ahead_ns;
                call.end -= ahead_ns;
            }
        }
        meetings.rows.sort_by_key(|meeting| (meeting.first_start(), meeting.key.clone()));
        meetings.ahead_ns = ahead_ns;
        meetings
    }
}

fn matched(ranks: &[RankDigest]) -> Meetings {
    // Rows of calls, rank by rank.
    let mut by_key: BTreeMap<&Arc<CollectiveKey>, Vec<Vec<u32>>> = BTreeMap::new();
    for (rank, digest) in ranks.iter().enumerate() {
        for (row, call) in digest.collectives.iter().enumerate() {
            let of_ranks = by_key.entry(&call.key).or_insert_with(|| vec![vec![]; ranks.len()]);
            of_ranks[rank].push(row as u32);
        }
    }
    let arrival = |rank: usize, row: u32| {
        let digest = &ranks[rank];
        let call = &digest.collectives[row as usize];
        let on_calendar = |time: i64| digest.base_ns + i128::from(time);
        Arrival { rank, start: on_calendar(call.start), end: on_calendar(call.end) }
    };
    let mut meetings = Meetings { rows: vec![], unmatched: vec![0; ranks.len()], ahead_ns: vec![] };
    for (key, of_ranks) in by_key {
        let with_calls = || of_ranks.iter().enumerate().filter(|(_, calls)| !calls.is_empty());
        let shortest = with_calls().map(|(_, calls)| calls.len()).min().unwrap_or(0);
        let common = if with_calls().count() < 2 { 0 } else { shortest };
        for (rank, calls) in of_ranks.iter().enumerate() {
            meetings.unmatched[rank] += (calls.len().max(common) - common) as u64;
        }
        for nth in (1..=common).rev() {
            let nth_last = |calls: &[u32]| calls[calls.len() - nth];
            let calls = with_calls().map(|(rank, calls)| arrival(rank, nth_last(calls))).collect();
            meetings.rows.push(Meeting { key: Arc::clone(key), calls });
        }
    }
    meetings
}

/// How much later than the others' a rank's clock sees collectives end: the median,
/// where it exceeds three times the usual deviation from it.
fn ahead(meetings: &[Meeting], rank: usize) -> Option<i128> {
    let mut later: Vec<i128> = meetings
        .iter()
        .filter_map(|meeting| {
            let own = meeting.calls.iter().find(|call| call.rank == rank)?.end;
            let others = meeting.calls.iter().filter(|call| call.rank != rank);
            Some(own - median(&mut others.map(|call| call.end).collect::<Vec<_>>())?)
        })
        .collect();
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

/// Ends closer than this are the same moment.
const CLOCK_NOISE_NS: i128 = 100_000;

/// The middle value; of an even number the lower of the two.
pub(super) fn median(values: &mut [i128]) -> Option<i128> {
    values.sort_unstable();
    values.get(values.len().checked_sub(1)? / 2).copied()
}

//! Many ranks of one run: who is late, who waits for whom, what collectives cost.
//!
//! Each rank is reduced to a digest, so that any number of them fits into memory and
//! they can be read one by one. The digests are put together here.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::TotalNanos;
use crate::base::cover::covered_ns;

mod collective;
mod digest;
mod instances;
#[cfg(test)]
mod tests;

pub use collective::{CollectiveCall, CollectiveKey, CollectiveOp};
pub use digest::{Activity, RankDigest, RankDigester};
use instances::{CollectiveInstance, CollectiveInstances, median};

/// What the ranks of a run show together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ranks {
    /// By number.
    pub ranks: Vec<RankRow>,
    pub collectives: Vec<CollectiveRow>,
    /// Who waited for whom, most time first.
    pub waits: Vec<RankWait>,
    pub straggler: Option<Straggler>,
    /// Collectives that were found on two ranks or more.
    pub matched: u64,
    /// Each of them, in order of time.
    pub instances: Vec<CollectiveInstanceRow>,
}

/// One collective of several ranks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectiveInstanceRow {
    pub key: Arc<CollectiveKey>,
    pub ranks: u64,
    /// Who came first and last; of equals the first rank.
    pub first_rank: Option<i64>,
    pub last_rank: Option<i64>,
    /// When the first came, on the common clock.
    pub start_ns: i128,
    /// Between the first arrival and the last.
    pub skew_ns: TotalNanos,
    /// What all ranks together waited for the last one.
    pub waited_ns: TotalNanos,
    /// While all were there.
    pub transfer_ns: TotalNanos,
    /// From the first arrival to the last end.
    pub total_ns: TotalNanos,
}

/// One rank beside the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RankRow {
    pub digest: RankDigest,
    pub window_ns: TotalNanos,
    /// In collectives, before the last rank came.
    pub waited_ns: TotalNanos,
    /// What others waited for this one.
    pub made_wait_ns: TotalNanos,
    /// Collectives in which it came last.
    pub last_count: u64,
    /// Calls that no other rank has.
    pub unmatched: u64,
    /// How much its clock was ahead and has been set back, where that is sure.
    pub clock_ahead_ns: Option<i128>,
}

/// Collectives of one kind and size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectiveRow {
    pub key: CollectiveKey,
    pub count: u64,
    pub ranks: u64,
    /// From the first arrival to the last end, summed.
    pub total_ns: TotalNanos,
    /// Between the first and the last arrival, summed, and at most.
    pub skew_ns: TotalNanos,
    pub skew_max_ns: TotalNanos,
    /// While all were there.
    pub transfer_ns: TotalNanos,
    /// Who came last most often, and how often.
    pub last_rank: Option<i64>,
    pub last_count: u64,
}

impl CollectiveRow {
    /// Bytes of the message a second, and on the wire: (algorithm, bus).
    pub fn bytes_per_second(&self) -> Option<(u128, u128)> {
        let bytes = u128::from(self.key.bytes?) * u128::from(self.count);
        let ns = u128::try_from(self.transfer_ns).ok().filter(|&ns| ns > 0)?;
        let (times, of) = self.key.op.wire_factor(self.ranks);
        let algorithm = bytes.saturating_mul(1_000_000_000) / ns;
        Some((algorithm, algorithm.saturating_mul(times.into()) / u128::from(of.max(1))))
    }
}

/// Time that one rank waited for another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RankWait {
    pub rank: Option<i64>,
    pub waited_for: Option<i64>,
    pub total_ns: TotalNanos,
    pub count: u64,
}

/// The rank that the others wait for, and what it does meanwhile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Straggler {
    pub rank: Option<i64>,
    /// Collectives in which it came last, of all.
    pub last_count: u64,
    pub matched: u64,
    /// While all others were there already, in one collective or more: what the run
    /// would gain at most.
    pub late_ns: TotalNanos,
    /// The length of the run.
    pub window_ns: TotalNanos,
    /// How long its GPUs compute, and those of the others (median).
    pub compute_ns: TotalNanos,
    pub others_compute_ns: TotalNanos,
    /// What it spends more time on than the others, most first.
    pub excess: Vec<Excess>,
}

/// Something that a rank spends more time on than the other ranks do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excess {
    pub activity: Activity,
    pub own_ns: TotalNanos,
    /// The median of the other ranks.
    pub others_ns: TotalNanos,
}

/// A rank is a straggler if the others lost this part of the run by it.
const LATE_PERCENT: i128 = 2;
/// What is named as a cause explains at least this part of the delay.
const EXCESS_PERCENT: i128 = 10;
const EXCESS_SHOWN: usize = 5;

pub fn ranks(mut digests: Vec<RankDigest>) -> Ranks {
    digests.sort_by(|a, b| (a.rank, &a.file).cmp(&(b.rank, &b.file)));
    let instances = CollectiveInstances::new(&digests);
    let waits = RankWaits::new(&instances.rows);
    let straggler = straggler(&digests, &instances.rows, &waits);
    let numbers: Vec<Option<i64>> = digests.iter().map(|digest| digest.rank).collect();
    let number = |row: usize| numbers[row];
    let collectives = collective_rows(&instances.rows, number);
    let wait_rows = waits.rows(number);
    let (waited, made_wait) = waits.sums(digests.len());
    let instance_rows =
        instances.rows.iter().map(|instance| instance_row(instance, number)).collect();
    let rows = digests.into_iter().enumerate().map(|(row, digest)| RankRow {
        window_ns: digest.window_ns(),
        waited_ns: waited[row],
        made_wait_ns: made_wait[row],
        last_count: waits.last_count.get(&row).copied().unwrap_or(0),
        unmatched: instances.unmatched[row],
        clock_ahead_ns: instances.ahead_ns[row],
        digest,
    });
    Ranks {
        ranks: rows.collect(),
        collectives,
        waits: wait_rows,
        straggler,
        matched: instances.rows.len() as u64,
        instances: instance_rows,
    }
}

fn instance_row(
    instance: &CollectiveInstance,
    number: impl Fn(usize) -> Option<i64>,
) -> CollectiveInstanceRow {
    let (first, last) = (instance.first(), instance.last());
    let others = instance.calls.iter().filter(|call| call.rank != last.rank);
    CollectiveInstanceRow {
        key: Arc::clone(&instance.key),
        ranks: instance.calls.len() as u64,
        first_rank: number(first.rank),
        last_rank: number(last.rank),
        start_ns: first.start,
        skew_ns: last.start - first.start,
        waited_ns: others.map(|call| call.waited_ns(last)).sum(),
        transfer_ns: instance.transfer_ns(),
        total_ns: instance.last_end() - first.start,
    }
}

/// Who waited for whom, by rows.
struct RankWaits {
    /// (who waited, for whom) → (time, how often).
    pairs: BTreeMap<(usize, usize), (TotalNanos, u64)>,
    last_count: BTreeMap<usize, u64>,
    /// While all others were there already, by who was last.
    late: BTreeMap<usize, Vec<(i128, i128)>>,
}

impl RankWaits {
    fn new(instances: &[CollectiveInstance]) -> Self {
        let mut waits = RankWaits {
            pairs: BTreeMap::new(),
            last_count: BTreeMap::new(),
            late: BTreeMap::new(),
        };
        for instance in instances {
            let last = instance.last();
            *waits.last_count.entry(last.rank).or_default() += 1;
            let others = instance.calls.iter().filter(|call| call.rank != last.rank);
            let before = others.clone().map(|call| call.start).max().unwrap_or(last.start);
            waits.late.entry(last.rank).or_default().push((before, last.start));
            for call in others {
                let waited_ns = call.waited_ns(last);
                let pair = waits.pairs.entry((call.rank, last.rank)).or_default();
                pair.0 += waited_ns;
                pair.1 += u64::from(waited_ns > 0);
            }
        }
        waits
    }

    /// What each rank waited, and what others waited for it.
    fn sums(&self, ranks: usize) -> (Vec<TotalNanos>, Vec<TotalNanos>) {
        let (mut waited, mut made_wait) = (vec![0; ranks], vec![0; ranks]);
        for (&(rank, late), &(ns, _)) in &self.pairs {
            waited[rank] += ns;
            made_wait[late] += ns;
        }
        (waited, made_wait)
    }

    fn rows(&self, number: impl Fn(usize) -> Option<i64>) -> Vec<RankWait> {
        let row = |(&(rank, late), &(total_ns, count)): (&(usize, usize), &(TotalNanos, u64))| {
            RankWait { rank: number(rank), waited_for: number(late), total_ns, count }
        };
        let mut rows: Vec<RankWait> = self.pairs.iter().map(row).collect();
        rows.retain(|row| row.total_ns > 0);
        rows.sort_by_key(|row| (Reverse(row.total_ns), row.rank, row.waited_for));
        rows
    }
}

fn collective_rows(
    instances: &[CollectiveInstance],
    number: impl Fn(usize) -> Option<i64>,
) -> Vec<CollectiveRow> {
    let mut groups: BTreeMap<&Arc<CollectiveKey>, Vec<&CollectiveInstance>> = BTreeMap::new();
    for instance in instances {
        groups.entry(&instance.key).or_default().push(instance);
    }
    let mut rows: Vec<CollectiveRow> = groups
        .into_iter()
        .map(|(key, group)| {
            let skew =
                |instance: &&CollectiveInstance| instance.last().start - instance.first().start;
            let mut last: BTreeMap<usize, u64> = BTreeMap::new();
            group.iter().for_each(|instance| *last.entry(instance.last().rank).or_default() += 1);
            let most = last.iter().max_by_key(|&(&rank, &count)| (count, Reverse(rank)));
            let total =
                |instance: &&CollectiveInstance| instance.last_end() - instance.first().start;
            CollectiveRow {
                key: CollectiveKey::clone(key),
                count: group.len() as u64,
                ranks: group.iter().map(|instance| instance.calls.len()).max().unwrap_or(0) as u64,
                total_ns: group.iter().map(total).sum(),
                skew_ns: group.iter().map(skew).sum(),
                skew_max_ns: group.iter().map(skew).max().unwrap_or(0),
                transfer_ns: group.iter().map(|instance| instance.transfer_ns()).sum(),
                last_rank: most.and_then(|(&rank, _)| number(rank)),
                last_count: most.map_or(0, |(_, &count)| count),
            }
        })
        .collect();
    rows.sort_by(|a, b| (Reverse(a.total_ns), &a.key).cmp(&(Reverse(b.total_ns), &b.key)));
    rows
}

fn straggler(
    digests: &[RankDigest],
    instances: &[CollectiveInstance],
    waits: &RankWaits,
) -> Option<Straggler> {
    let covered = |times: &[(i128, i128)]| {
        let mut times = times.to_vec();
        times.sort_unstable();
        covered_ns(times)
    };
    let late = waits.late.iter().map(|(&row, times)| (row, covered(times)));
    let (row, late_ns) = late.rev().max_by_key(|&(_, ns)| ns)?;
    let digest = &digests[row];
    let is_late = late_ns * 100 >= digest.window_ns() * LATE_PERCENT;
    let others = digests.iter().enumerate().filter(|&(other, _)| other != row);
    let mut others_compute: Vec<i128> = others.map(|(_, digest)| digest.compute_ns).collect();
    is_late.then(|| Straggler {
        rank: digest.rank,
        last_count: waits.last_count[&row],
        matched: instances.len() as u64,
        late_ns,
        window_ns: digest.window_ns(),
        compute_ns: digest.compute_ns,
        others_compute_ns: median(&mut others_compute).unwrap_or(0),
        excess: excess(digests, row, late_ns),
    })
}

/// What a rank spends more time on than the median of the others.
fn excess(digests: &[RankDigest], row: usize, late_ns: TotalNanos) -> Vec<Excess> {
    let others = || digests.iter().enumerate().filter(|&(other, _)| other != row);
    let mut rows: Vec<Excess> = digests[row]
        .doing
        .iter()
        .map(|(activity, own_ns)| {
            let times = others().map(|(_, digest)| digest.time_of(activity));
            let others_ns = median(&mut times.collect::<Vec<_>>()).unwrap_or(0);
            let own_ns = TotalNanos::from(*own_ns);
            Excess { activity: Activity::clone(activity), own_ns, others_ns }
        })
        .filter(|row| (row.own_ns - row.others_ns) * 100 >= late_ns * EXCESS_PERCENT)
        .collect();
    rows.sort_by(|a, b| {
        let more = |row: &Excess| Reverse(row.own_ns - row.others_ns);
        (more(a), &a.activity).cmp(&(more(b), &b.activity))
    });
    rows.truncate(EXCESS_SHOWN);
    rows
}

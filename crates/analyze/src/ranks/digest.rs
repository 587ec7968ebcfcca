//! What is kept of one rank: little, however large its trace.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use spanwise_model::{Nanos, SpanId, SpanKind, StrId};

use super::collective::{CollectiveCall, CollectiveKey, collective_calls, sort_calls};
use crate::gpu::device::is_communication;
use crate::gpu::launching_frame::Launchers;
use crate::gpu::usage::gpu_work;
use crate::training::steps::Steps;
use crate::{BreakdownRow, Facts, TotalNanos, WaitKind, breakdown, main_thread};

/// Functions and kernels kept for comparing ranks, most time first.
const KEPT: usize = 400;

/// One rank, as far as others compare with it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RankDigest {
    /// As the user named it.
    pub file: String,
    /// What the trace says, or else its file's name.
    pub rank: Option<i64>,
    pub world_size: Option<i64>,
    /// On the calendar where the trace has it, so that ranks share a clock.
    pub window: (i128, i128),
    pub steps: u64,
    /// What the main thread did, and how long it waited.
    pub host_working_ns: TotalNanos,
    pub host_waiting_ns: TotalNanos,
    /// Summed over the rank's devices, as in the breakdown: adds up to the window of each.
    pub compute_ns: TotalNanos,
    pub exposed_communication_ns: TotalNanos,
    pub exposed_copy_ns: TotalNanos,
    pub idle_ns: TotalNanos,
    pub gpu_work_ns: TotalNanos,
    /// Time in collectives, where several run at once counted once.
    pub collective_ns: TotalNanos,
    /// From a time of the trace to the calendar.
    pub base_ns: i128,
    pub(super) collectives: Box<[CollectiveCall]>,
    /// By activity. Boxed, so that nothing is kept for what was sorted out.
    pub(super) doing: Box<[(Arc<Activity>, Nanos)]>,
}

/// Something that a rank spends time on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Activity {
    /// On the GPU, or on the main thread.
    pub is_gpu: bool,
    pub name: String,
    /// The line it runs under, or was launched from.
    pub line: Option<String>,
}

impl RankDigest {
    /// All its collectives, in order of time.
    pub fn calls(&self) -> &[CollectiveCall] {
        &self.collectives
    }

    /// What it spends time on, by activity.
    pub fn activities(&self) -> impl ExactSizeIterator<Item = (&Activity, Nanos)> {
        self.doing.iter().map(|(activity, ns)| (&**activity, *ns))
    }

    pub(super) fn window_ns(&self) -> TotalNanos {
        self.window.1 - self.window.0
    }

    pub(super) fn time_of(&self, activity: &Activity) -> TotalNanos {
        let place = self.doing.binary_search_by(|row| (*row.0).cmp(activity));
        place.map_or(0, |place| i128::from(self.doing[place].1))
    }
}

/// Makes digests, on any number of threads. The ranks of a run mostly do the same, so
/// what is called the same is kept once for all of them.
#[derive(Debug, Default)]
pub struct RankDigester {
    activities: Once<Activity>,
    collectives: Once<CollectiveKey>,
}

/// Equal things are one.
#[derive(Debug)]
pub(super) struct Once<T>(Mutex<HashSet<Arc<T>>>);

impl<T> Default for Once<T> {
    fn default() -> Self {
        Once(Mutex::default())
    }
}

impl<T: Eq + Hash> Once<T> {
    pub(super) fn of(&self, value: T) -> Arc<T> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known.get(&value) {
            return Arc::clone(found);
        }
        let value = Arc::new(value);
        known.insert(Arc::clone(&value));
        value
    }
}

impl RankDigester {
    /// What is kept of a rank. `rank` counts where the trace names none.
    pub fn digest(&self, facts: &Facts, file: &str, rank: Option<i64>) -> RankDigest {
        digest(self, facts, file, rank)
    }

    /// A digest that was taken apart elsewhere, put together again: `digest` with these calls
    /// and activities, in any order.
    pub fn assemble(
        &self,
        digest: RankDigest,
        calls: impl Iterator<Item = (CollectiveKey, Nanos, Nanos)>,
        activities: impl Iterator<Item = (Activity, Nanos)>,
    ) -> RankDigest {
        let call = |(key, start, end)| CollectiveCall { key: self.collectives.of(key), start, end };
        let mut collectives: Box<[CollectiveCall]> = calls.map(call).collect();
        sort_calls(&mut collectives);
        let once = |(activity, ns)| (self.activities.of(activity), ns);
        let mut doing: Box<[(Arc<Activity>, Nanos)]> = activities.map(once).collect();
        doing.sort_unstable();
        RankDigest { collectives, doing, ..digest }
    }
}

fn digest(digester: &RankDigester, facts: &Facts, file: &str, rank: Option<i64>) -> RankDigest {
    let info = facts.trace().info();
    let base_ns = i128::from(info.base_time_ns.unwrap_or(0));
    let (from, to) = facts.window();
    let main = main_thread(facts.threads());
    let collectives = collective_calls(facts, &digester.collectives);
    let mut breakdown = breakdown(facts);
    breakdown.retain(|row| row.step.is_none());
    let gpu = |part: fn(&BreakdownRow) -> TotalNanos| breakdown.iter().map(part).sum();
    let intervals = collectives.iter().map(|call| (call.start, call.end));
    RankDigest {
        file: file.to_owned(),
        rank: info.rank.or(rank),
        world_size: info.world_size,
        window: (base_ns + i128::from(from), base_ns + i128::from(to)),
        steps: Steps::new(facts.trace()).rows().len() as u64,
        host_working_ns: main.map_or(0, |thread| thread.working_ns()),
        host_waiting_ns: main.map_or(0, |thread| thread.waiting_ns),
        compute_ns: gpu(|row| row.compute_ns),
        exposed_communication_ns: gpu(|row| row.exposed_communication_ns),
        exposed_copy_ns: gpu(|row| row.exposed_copy_ns),
        idle_ns: gpu(|row| row.idle_ns),
        gpu_work_ns: facts.gpu().work_ns,
        collective_ns: crate::base::cover::covered_ns(intervals),
        base_ns,
        collectives,
        doing: doing(facts, &digester.activities),
    }
}

/// An activity in the trace's own numbers.
type ActivityKey = (bool, StrId, Option<StrId>);

/// Self time of threads by function and line, and GPU work by kernel and line. What
/// waits for others is left out, so that an innocent rank has nothing to show for it;
/// sleeping waits for nobody.
fn doing(facts: &Facts, activities: &Once<Activity>) -> Box<[(Arc<Activity>, Nanos)]> {
    let mut sums: BTreeMap<ActivityKey, TotalNanos> = BTreeMap::new();
    let (trace, names) = (facts.trace(), facts.names());
    let spans = trace.spans();
    for (row, &self_ns) in facts.self_time().span_ns.iter().enumerate() {
        let span = SpanId(row as u32);
        if self_ns > 0 && is_own_doing(facts, span) {
            let line = facts.frames().line(span).map(|line| names.merged(spans.name(line)));
            let name = names.merged(spans.name(span));
            *sums.entry((false, name, line)).or_default() += i128::from(self_ns);
        }
    }
    let launchers = Launchers::new(trace, facts.frames(), names);
    for span in gpu_work(trace) {
        let name = names.merged(spans.name(span));
        if !is_communication(trace.name(span)) {
            let line = launchers.of(span).line;
            *sums.entry((true, name, line)).or_default() += i128::from(spans.dur(span));
        }
    }
    let mut rows: Vec<(ActivityKey, TotalNanos)> = sums.into_iter().collect();
    rows.sort_by_key(|&(key, ns)| (Reverse(ns), key));
    rows.truncate(KEPT);
    let text = |id: StrId| names.text(id).into_owned();
    let named = |((is_gpu, name, line), ns): (ActivityKey, TotalNanos)| {
        let line = line.filter(|&line| line != name).map(text);
        let ns = Nanos::try_from(ns).unwrap_or(Nanos::MAX);
        (activities.of(Activity { is_gpu, name: text(name), line }), ns)
    };
    let mut rows: Box<[(Arc<Activity>, Nanos)]> = rows.into_iter().map(named).collect();
    rows.sort_unstable();
    rows
}

fn is_own_doing(facts: &Facts, span: SpanId) -> bool {
    let is_waiting = facts.waits().kind(span).is_some_and(|kind| kind != WaitKind::Sleep);
    !is_waiting && facts.trace().kind(span) != SpanKind::Annotation
}

//! Cuts threads into time slices, so that all cores can walk one long thread.
//!
//! A time slice begins with what is open where it was cut; so each is walked as if the
//! thread had been walked from its beginning, and what comes of them adds up to the same.

use std::ops::Range;

use spanwise_model::{
    NO_ROW, Nanos, ProfileBuilder, SpanId, Trace, Track, TrackId, TrackKind, WAKEUP_CATEGORY,
    map_indices, threads_available,
};

use super::memory::Allocated;
use super::sweep::{DEPTH_MAX, Launch, Launches, SweepContext, Walked, walk};
use super::{Backward, ProfileOptions};
use crate::Names;
use crate::cpu::self_time::on_stack_by_category;
use crate::training::steps::Steps;

/// How the work is shared out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shares {
    pub(super) max: usize,
    /// Fewer rows than this are not worth a share.
    pub(super) rows_min: usize,
}

impl Shares {
    pub(super) fn for_this_machine() -> Self {
        Shares { max: threads_available(), rows_min: 1 << 15 }
    }
}

/// Some rows of a thread, one after the other.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TimeSlice {
    pub(super) thread: TrackId,
    pub(super) rows: Range<u32>,
    /// From its first row to that of the next slice; the whole of time at the ends.
    pub(super) time: Range<Nanos>,
    /// Earlier rows that are open when it begins.
    pub(super) open: Vec<u32>,
}

/// Where the launching calls of all threads stood.
pub(super) struct AllLaunches(Vec<Launches>);

impl AllLaunches {
    pub(super) fn get(&self, call: SpanId) -> Option<Launch> {
        self.0.iter().find_map(|launches| launches.get(call))
    }
}

/// What came of walking all threads.
pub(super) struct AllWalked {
    pub(super) builder: ProfileBuilder,
    pub(super) launches: AllLaunches,
    /// What a reader of the profile has to know.
    pub(super) comments: Vec<String>,
}

/// Walks all threads, in as many shares as there is room for.
pub(super) fn threads(
    trace: &Trace,
    options: &ProfileOptions,
    names: &Names,
    allocations: &[Allocated],
    shares: Shares,
) -> AllWalked {
    let (wanted, forward) = wanted(trace, options);
    let ground = SweepContext {
        trace,
        options,
        names,
        allocations,
        // A server runs thousands of batches: a label for each would make the profile as
        // large as the trace. The phase distinguishes them.
        steps: Steps::of_profiler(trace),
        on_stack: on_stack_by_category(trace),
        wanted,
        forward,
    };
    // Backward operators may ask for the stack of any other one.
    if options.backward == Backward::ForwardStack || shares.max < 2 {
        return in_one_share(&ground);
    }
    let shares = shared_out(&ground, shares);
    let walked = map_indices(shares.len(), shares.len(), |share| {
        let slices = &shares[share];
        let first = slices.first().map_or(0, |slice| slice.rows.start as usize);
        let after = slices.last().map_or(0, |slice| slice.rows.end as usize);
        walk(&ground, slices, first..after)
    });
    // What is beyond a limit is not known where a slice begins.
    let remade: usize = walked.iter().map(|walked| walked.remade).sum();
    if walked.iter().any(|walked| walked.deep > 0) || remade > ground.remade_max() {
        return in_one_share(&ground);
    }
    joined(walked)
}

fn in_one_share(ground: &SweepContext) -> AllWalked {
    let mut tracks = threads_of(ground.trace);
    let is_target = |track: &Track| {
        !ground.forward.is_empty() && track.rows().any(|row| ground.forward[row] != NO_ROW)
    };
    // Forward operators first: backward ones may ask for their stacks.
    tracks.sort_by_key(|(_, track)| is_target(track));
    let slices: Vec<TimeSlice> = tracks.iter().map(|&(id, track)| whole(id, track)).collect();
    joined(vec![walk(ground, &slices, 0..ground.trace.spans().len())])
}

fn joined(walked: Vec<Walked>) -> AllWalked {
    let comments = comments(&walked);
    let mut parts = walked.into_iter();
    let first = parts.next().expect("there is at least one share");
    let (mut builder, mut launches) = (first.builder, vec![first.launches]);
    for mut part in parts {
        let stacks = builder.absorb(part.builder);
        for launch in &mut part.launches.launches {
            launch.stack = stacks[launch.stack.index()];
        }
        launches.push(part.launches);
    }
    AllWalked { builder, launches: AllLaunches(launches), comments }
}

fn comments(walked: &[Walked]) -> Vec<String> {
    let deep: u64 = walked.iter().map(|walked| walked.deep).sum();
    let enclosed: u64 = walked.iter().map(|walked| walked.enclosed).sum();
    let deep = (deep > 0)
        .then(|| format!("{deep} spans have no stack of their own: {DEPTH_MAX} others were open"));
    let enclosed = (enclosed > 0).then(|| {
        format!(
            "{enclosed} spans stand only on those that enclose them: too many overlap without \
             nesting"
        )
    });
    deep.into_iter().chain(enclosed).collect()
}

/// The rows whose stacks will be asked for; and those of forward operators by the rows of
/// backward ones, where the options ask for them.
fn wanted(trace: &Trace, options: &ProfileOptions) -> (Vec<bool>, Vec<u32>) {
    let spans = trace.spans();
    let mut wanted = vec![false; spans.len()];
    for &launch in spans.launch_column().iter().filter(|&&launch| launch != NO_ROW) {
        wanted[launch as usize] = true;
    }
    let mut forward = Vec::new();
    if options.backward == Backward::ForwardStack {
        forward = vec![NO_ROW; spans.len()];
        let links = trace.links();
        for ((from, to), &category) in links.iter().zip(links.category.iter()) {
            let name = trace.categories().get(category.into()).name;
            if trace.strings().get(name) == WAKEUP_CATEGORY {
                continue;
            }
            wanted[from.index()] = true;
            forward[to.index()] = from.0;
        }
    }
    (wanted, forward)
}

fn threads_of(trace: &Trace) -> Vec<(TrackId, &Track)> {
    trace.tracks().iter().filter(|(_, track)| track.kind == TrackKind::Thread).collect()
}

fn whole(thread: TrackId, track: &Track) -> TimeSlice {
    let rows = track.rows();
    let time = Nanos::MIN..Nanos::MAX;
    TimeSlice { thread, rows: rows.start as u32..rows.end as u32, time, open: Vec::new() }
}

/// About equally many rows for each share.
fn shared_out(ground: &SweepContext, shares: Shares) -> Vec<Vec<TimeSlice>> {
    let tracks = threads_of(ground.trace);
    let total: usize = tracks.iter().map(|(_, track)| track.rows().len()).sum();
    let rows_a_share = total.div_ceil(shares.max).max(shares.rows_min).max(1);
    let mut shares = vec![Vec::new()];
    let mut room = rows_a_share;
    for (thread, track) in tracks {
        let mut rest = whole(thread, track);
        while rest.rows.len() > room {
            let (before, after) = cut(ground, rest, room);
            shares.last_mut().expect("not empty").push(before);
            shares.push(Vec::new());
            (rest, room) = (after, rows_a_share);
        }
        room -= rest.rows.len();
        shares.last_mut().expect("not empty").push(rest);
    }
    shares
}

/// The first `rows` of a slice, and the rest of it.
fn cut(ground: &SweepContext, slice: TimeSlice, rows: usize) -> (TimeSlice, TimeSlice) {
    let spans = ground.trace.spans();
    let at = slice.rows.start + rows as u32;
    let time = spans.start(SpanId(at));
    let is_open = |row: &u32| spans.end(SpanId(*row)) > time && ground.takes_part(SpanId(*row));
    let earlier = slice.open.iter().copied().chain(slice.rows.start..at);
    let after = TimeSlice {
        thread: slice.thread,
        rows: at..slice.rows.end,
        time: time..slice.time.end,
        open: earlier.filter(is_open).collect(),
    };
    let before = TimeSlice { rows: slice.rows.start..at, time: slice.time.start..time, ..slice };
    (before, after)
}

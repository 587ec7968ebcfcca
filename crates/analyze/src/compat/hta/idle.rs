//! Gaps on each stream by cause, as HTA distinguishes them.

use std::collections::BTreeMap;

use super::Rows;
use super::load::{Loaded, Row};
use super::stats::{Described, rounded, sum};
use crate::CompatValue;

/// A gap shorter than this, in microseconds, is the GPU's own.
const KERNEL_WAIT_MAX_US: i64 = 30;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Cause {
    HostWait,
    KernelWait,
    Other,
}

impl Cause {
    fn name(self) -> &'static str {
        match self {
            Cause::HostWait => "host_wait",
            Cause::KernelWait => "kernel_wait",
            Cause::Other => "other",
        }
    }
}

type Gaps = BTreeMap<Cause, Vec<f64>>;

/// Gaps of each stream by cause, in the order in which streams first work.
fn gaps(loaded: &Loaded<'_>) -> Vec<(i64, Gaps)> {
    // Synchronizations are rows of the GPU for HTA, but end no gap.
    let is_work = |row: &&Row| loaded.trace.kind(row.span).is_gpu_work();
    let work: Vec<Row> = loaded.gpu.iter().filter(is_work).copied().collect();
    let mut places: BTreeMap<i64, usize> = BTreeMap::new();
    let mut streams: Vec<(i64, Vec<Row>)> = Vec::new();
    for row in &work {
        let place = *places.entry(row.stream).or_insert_with(|| {
            streams.push((row.stream, Vec::new()));
            streams.len() - 1
        });
        streams[place].1.push(*row);
    }
    let of_stream = |(stream, mut rows): (i64, Vec<Row>)| {
        rows.sort_by_key(|row| row.ts);
        (stream, stream_gaps(&rows))
    };
    streams.into_iter().map(of_stream).collect()
}

fn stream_gaps(rows: &[Row]) -> Gaps {
    let mut gaps = Gaps::new();
    // Before the first there is no gap, yet its cause is listed.
    gaps.insert(Cause::Other, Vec::new());
    for pair in rows.windows(2) {
        let gap = pair[1].ts - pair[0].end();
        let cause = match pair[1].partner_ts {
            Some(launched) if launched > pair[0].end() => Cause::HostWait,
            _ if gap < KERNEL_WAIT_MAX_US => Cause::KernelWait,
            _ => Cause::Other,
        };
        gaps.entry(cause).or_default().push(gap as f64);
    }
    gaps
}

pub(super) fn idle_time(loaded: &Loaded<'_>) -> Rows {
    let columns = vec!["rank", "stream", "idle_category", "idle_time", "idle_time_ratio"];
    let mut rows = Vec::new();
    for (stream, gaps) in gaps(loaded) {
        let all: f64 = gaps.values().map(|gaps| sum(gaps)).sum();
        for (cause, gaps) in gaps {
            let idle = sum(&gaps);
            rows.push(vec![
                loaded.rank.into(),
                stream.into(),
                cause.name().into(),
                idle.into(),
                rounded(idle / all, 2).into(),
            ]);
        }
    }
    (columns, rows)
}

pub(super) fn idle_intervals(loaded: &Loaded<'_>) -> Rows {
    let columns = vec![
        "idle_category",
        "rank",
        "stream",
        "count",
        "mean",
        "std",
        "min",
        "25%",
        "50%",
        "75%",
        "max",
    ];
    let mut rows = Vec::new();
    for (stream, gaps) in gaps(loaded) {
        for (cause, gaps) in gaps {
            let mut row: Vec<CompatValue> =
                vec![cause.name().into(), loaded.rank.into(), stream.into()];
            row.extend(Described::of(&gaps).values().map(|value| rounded(value, 2).into()));
            rows.push(row);
        }
    }
    (columns, rows)
}

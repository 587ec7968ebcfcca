//! Time by type of kernel: HTA's temporal breakdown, overlap and kernel breakdown.

use std::collections::BTreeMap;

use super::Rows;
use super::load::{KernelType, Loaded, Row};
use super::stats::{mean, quantile, rounded, std, sum};

/// Intervals that overlap or touch become one. Lengths may be negative, and such an
/// interval stays as it is.
fn merged(rows: &[Row]) -> Vec<(i64, i64)> {
    let mut rows: Vec<&Row> = rows.iter().collect();
    rows.sort_by_key(|row| row.ts);
    let mut groups: Vec<(i64, i64)> = Vec::new();
    let mut reached = i64::MIN;
    for row in rows {
        match groups.last_mut() {
            Some(group) if row.ts <= reached => group.1 = group.1.max(row.end()),
            _ => groups.push((row.ts, row.end())),
        }
        reached = reached.max(row.end());
    }
    groups
}

fn total(groups: &[(i64, i64)]) -> i64 {
    groups.iter().map(|(ts, end)| end - ts).sum()
}

pub(super) fn temporal(loaded: &Loaded<'_>) -> Rows {
    let columns = vec![
        "rank",
        "idle_time(us)",
        "compute_time(us)",
        "non_compute_time(us)",
        "kernel_time(us)",
        "idle_time_pctg",
        "compute_time_pctg",
        "non_compute_time_pctg",
    ];
    let all = merged(&loaded.gpu);
    let (Some(first), Some(last)) = (all.first(), all.last()) else { return (columns, vec![]) };
    let kernel_time = last.1 - first.0;
    let idle = kernel_time - total(&all);
    let compute = total(&merged(&loaded.kernels(KernelType::Computation)));
    let rest = kernel_time - compute - idle;
    let share = |part: i64| rounded(100.0 * (part as f64 / kernel_time as f64), 2).into();
    let times = [idle, compute, rest, kernel_time].map(Into::into);
    let mut row = vec![loaded.rank.into()];
    row.extend(times);
    row.extend([idle, compute, rest].map(share));
    (columns, vec![row])
}

/// What ran when: for each interval the kernel types that ran, as bits, and how long.
fn running_types(loaded: &Loaded<'_>, types: &[KernelType]) -> Vec<(i64, i64)> {
    let mut changes: Vec<(i64, i64)> = Vec::new();
    for (place, &of) in types.iter().enumerate() {
        let bit = 1 << place;
        let groups = merged(&loaded.kernels(of));
        changes.extend(groups.iter().map(|group| (group.0, bit)));
        changes.extend(groups.iter().map(|group| (group.1, -bit)));
    }
    changes.sort_by_key(|change| change.0);
    let mut running = 0;
    let mut found = Vec::with_capacity(changes.len());
    for pair in changes.windows(2) {
        running += pair[0].1;
        found.push((running, pair[1].0 - pair[0].0));
    }
    found
}

pub(super) fn overlap(loaded: &Loaded<'_>) -> Rows {
    let types = [KernelType::Communication, KernelType::Computation];
    let both: i64 = running_types(loaded, &types)
        .iter()
        .filter(|&&(running, _)| running == 3)
        .map(|&(_, dur)| dur)
        .sum();
    let communication = total(&merged(&loaded.kernels(KernelType::Communication)));
    // Without communication there is no share: 0 / 0.
    let share = rounded(100.0 * (both as f64 / communication as f64), 2);
    (vec!["rank", "comp_comm_overlap_pctg"], vec![vec![loaded.rank.into(), share.into()]])
}

const TYPES: [(KernelType, &str); 3] = [
    (KernelType::Computation, "COMPUTATION"),
    (KernelType::Communication, "COMMUNICATION"),
    (KernelType::Memory, "MEMORY"),
];

pub(super) fn kernel_types(loaded: &Loaded<'_>) -> Rows {
    let mut sums: BTreeMap<String, i64> = BTreeMap::new();
    for (running, dur) in running_types(loaded, &TYPES.map(|(of, _)| of)) {
        let is_in = |&place: &usize| running & (1 << place) != 0;
        let names: Vec<&str> = (0..TYPES.len()).filter(is_in).map(|place| TYPES[place].1).collect();
        if running > 0 {
            *sums.entry(names.join(" overlapping ")).or_default() += dur;
        }
    }
    let all: i64 = sums.values().sum();
    let mut sums: Vec<(String, i64)> = sums.into_iter().collect();
    sums.sort_by_key(|&(_, sum)| std::cmp::Reverse(sum));
    let row = |(name, sum): (String, i64)| {
        let share = rounded(sum as f64 / all as f64 * 100.0, 1);
        vec![name.as_str().into(), sum.into(), share.into()]
    };
    (vec!["kernel_type", "sum", "percentage"], sums.into_iter().map(row).collect())
}

/// Sum, greatest, least, mean and deviation of the events of one name.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Aggregate {
    pub(super) name: String,
    pub(super) sum: f64,
    max: f64,
    min: f64,
    mean: f64,
    std: f64,
}

impl Aggregate {
    fn of(name: String, values: &[f64]) -> Self {
        Aggregate {
            name,
            sum: sum(values),
            max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            min: values.iter().copied().fold(f64::INFINITY, f64::min),
            mean: mean(values),
            std: Some(std(values)).filter(|std| !std.is_nan()).unwrap_or(0.0),
        }
    }

    pub(super) fn numbers(&self) -> [f64; 5] {
        [self.sum, self.max, self.min, self.std, self.mean]
    }
}

const OTHERS: &str = "others";
/// Beyond this part of the summed-up time …
const DURATION_RATIO: f64 = 0.8;

fn grouped(values: impl Iterator<Item = (String, f64)>) -> Vec<Aggregate> {
    let mut by_name: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for (name, value) in values {
        by_name.entry(name).or_default().push(value);
    }
    by_name.into_iter().map(|(name, values)| Aggregate::of(name, &values)).collect()
}

/// Events by name; where there are more names than `most`, the small ones become
/// "others", and the numbers of all are then those of sums, not of events.
pub(super) fn aggregated(loaded: &Loaded<'_>, rows: &[Row], most: usize) -> Vec<Aggregate> {
    let events = rows.iter().map(|row| (loaded.name(row).to_owned(), row.dur as f64));
    let mut all = grouped(events);
    all.sort_by(|a, b| b.sum.total_cmp(&a.sum));
    if all.len() <= most {
        return all;
    }
    let mut reached = 0.0;
    let sums: Vec<f64> = all
        .iter()
        .map(|row| {
            reached += row.sum;
            reached
        })
        .collect();
    let mut sorted = sums.clone();
    sorted.sort_by(f64::total_cmp);
    let limit = quantile(&sorted, DURATION_RATIO);
    let named = all.into_iter().zip(sums).enumerate().map(|(place, (row, reached))| {
        let is_small = reached > limit || place >= most;
        (if is_small { OTHERS.to_owned() } else { row.name }, row.sum)
    });
    grouped(named)
}

pub(super) fn kernels(loaded: &Loaded<'_>) -> Rows {
    const MOST: usize = 10;
    let columns = vec![
        "name",
        "sum (us)",
        "max (us)",
        "min (us)",
        "stddev",
        "mean (us)",
        "kernel_type",
        "rank",
    ];
    let mut types = TYPES;
    types.sort_by_key(|&(_, name)| name);
    let mut rows = Vec::new();
    for (of, type_name) in types {
        let mut named = aggregated(loaded, &loaded.kernels(of), MOST);
        named.sort_by(|a, b| a.name.cmp(&b.name));
        for aggregate in named {
            let mut row = vec![aggregate.name.as_str().into()];
            row.extend(aggregate.numbers().map(Into::into));
            row.extend([type_name.into(), loaded.rank.into()]);
            rows.push(row);
        }
    }
    (columns, rows)
}

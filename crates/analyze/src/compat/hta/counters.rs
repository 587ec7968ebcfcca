//! HTA's counters over time, summed up: queue length and memory bandwidth.

use std::collections::{BTreeMap, BTreeSet};

use spanwise_model::ArgValue;

use super::Rows;
use super::launch::is_launch;
use super::load::{KernelType, Loaded, Row};
use super::stats::Described;
use crate::CompatValue;

/// Work launched and not begun, at each change.
pub(super) fn queue_length(loaded: &Loaded<'_>) -> Rows {
    let columns = vec![
        "rank",
        "stream",
        "queue_length_count",
        "queue_length_mean",
        "queue_length_std",
        "queue_length_min",
        "queue_length_25%",
        "queue_length_50%",
        "queue_length_75%",
        "queue_length_max",
    ];
    let calls: Vec<&Row> = loaded
        .cpu
        .iter()
        .filter(|row| is_launch(loaded.name(row)) && row.partner_ts.is_some())
        .collect();
    let launched: BTreeSet<i64> = calls.iter().map(|row| row.correlation).collect();
    let work: Vec<&Row> =
        loaded.gpu.iter().filter(|row| launched.contains(&row.correlation)).collect();
    let mut stream_of: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
    for row in &work {
        stream_of.entry(row.correlation).or_default().push(row.stream);
    }
    // (time, stream, change): calls stand before work of the same time.
    let mut changes: Vec<(i64, i64, i64)> = Vec::new();
    for row in calls {
        let streams = stream_of.get(&row.correlation).into_iter().flatten();
        changes.extend(streams.map(|&stream| (row.ts, stream, 1)));
    }
    changes.extend(work.iter().map(|row| (row.ts, row.stream, -1)));
    changes.sort_by_key(|change| change.0);
    let mut lengths: BTreeMap<i64, Vec<f64>> = BTreeMap::new();
    for (_, stream, change) in changes {
        let series = lengths.entry(stream).or_default();
        series.push(series.last().copied().unwrap_or(0.0) + change as f64);
    }
    let rows = lengths
        .into_iter()
        .map(|(stream, series)| described(vec![loaded.rank.into(), stream.into()], &series));
    (columns, rows.collect())
}

fn described(mut row: Vec<CompatValue>, series: &[f64]) -> Vec<CompatValue> {
    row.extend(Described::of(series).values().map(CompatValue::from));
    row
}

/// Bandwidth of copies and fills under way, at each change, where there is any.
pub(super) fn memory_bandwidth(loaded: &Loaded<'_>) -> Rows {
    let columns = vec![
        "rank",
        "name",
        "memory_bw_gbps_count",
        "memory_bw_gbps_mean",
        "memory_bw_gbps_std",
        "memory_bw_gbps_min",
        "memory_bw_gbps_25%",
        "memory_bw_gbps_50%",
        "memory_bw_gbps_75%",
        "memory_bw_gbps_max",
    ];
    let copies = loaded.kernels(KernelType::Memory);
    let mut changes: Vec<(i64, &str, f64)> = Vec::new();
    let mut ends: Vec<(i64, &str, f64)> = Vec::new();
    for copy in &copies {
        let (name, speed) = (memory_name(loaded.name(copy)), bandwidth(loaded, copy));
        // One without length counts as one microsecond.
        let dur = if copy.dur == 0 { 1 } else { copy.dur };
        changes.push((copy.ts, name, speed));
        ends.push((copy.ts + dur, name, -speed));
    }
    changes.append(&mut ends);
    changes.sort_by_key(|change| change.0);
    let mut series: BTreeMap<&str, (f64, Vec<f64>)> = BTreeMap::new();
    for (_, name, change) in changes {
        let (speed, values) = series.entry(name).or_default();
        *speed += change;
        // Sums of doubles leave crumbs, which HTA counts where they are above 0.
        if *speed > 0.0 {
            values.push(*speed);
        }
    }
    let rows = series
        .into_iter()
        .filter(|(_, (_, values))| !values.is_empty())
        .map(|(name, (_, values))| described(vec![loaded.rank.into(), name.into()], &values));
    (columns, rows.collect())
}

/// "Memcpy DtoH" of "Memcpy DtoH (Device -> Pageable)".
fn memory_name(name: &str) -> &str {
    match name {
        fill if fill.starts_with("Memset") => "Memset",
        copy if copy.starts_with("Memcpy") => copy.get(..11).unwrap_or(copy),
        _ => "Memcpy Unknown",
    }
}

fn bandwidth(loaded: &Loaded<'_>, copy: &Row) -> f64 {
    let args = loaded.trace.pick_args(copy.span, &["memory bandwidth (GB/s)"]).unwrap_or_default();
    match args.into_iter().next().flatten() {
        Some(ArgValue::Int(value)) => value as f64,
        Some(ArgValue::Number(text)) => text.parse().unwrap_or(0.0),
        // What HTA fills in where the argument is missing.
        _ => 0.0,
    }
}

//! The launch path: calls, queues, synchronisations.

use spanwise_analyze::{LaunchRow, QueueRow, SyncRow};

use crate::Top;
use crate::document::sectioned::Section;
use crate::document::table::{Cell, Column, Table, Unit};
use crate::document::units::decimal;
use crate::sections::gpu::breakdown::NO_GPU;
use crate::sections::report::section;

pub fn launches_section(rows: &[LaunchRow], top: Top) -> Section {
    let count = |key, title| Column::new(key, title, Unit::Count);
    let nanos = |key, title| Column::new(key, title, Unit::Nanos);
    let has_graphs = rows.iter().any(|row| row.work_per_call_max > 1);
    let mut table = Table::new([
        count("calls", "calls"),
        nanos("call_total", "in calls"),
        nanos("call_mean", "mean"),
        count("work", "GPU work").optional(),
        Column::hidden("work_total", Unit::Nanos),
        Column { in_text: has_graphs, ..count("work_per_call_max", "most a call") },
        Column::hidden("latency_count", Unit::Count),
        nanos("latency_p50", "latency p50"),
        Column::hidden("latency_p90", Unit::Nanos),
        nanos("latency_p99", "p99"),
        Column::hidden("latency_max", Unit::Nanos),
        Column::hidden("queued_count", Unit::Count),
        nanos("queued_p50", "queued p50").optional(),
        Column::hidden("queued_p90", Unit::Nanos),
        nanos("queued_p99", "p99").optional(),
        Column::hidden("queued_max", Unit::Nanos),
        count("shorter", "longer than work"),
        Column::hidden("shorter_by", Unit::Nanos),
        Column::new("call", "call", Unit::Text),
    ]);
    for row in top.of(rows) {
        table.push(launch_cells(row));
    }
    let shown = section("launches", "Launches by call", table, rows.len());
    Section { when_empty: Some(NO_GPU), ..shown }
}

fn launch_cells(row: &LaunchRow) -> Vec<Cell> {
    // What no work had is unknown, not 0.
    let known = |count: u64, ns: i64| Some(ns).filter(|_| count > 0).into();
    let (latency, queued) = (row.latency, row.queued);
    let has_calls = row.calls > 0;
    vec![
        row.calls.into(),
        row.call_ns.into(),
        has_calls.then(|| row.call_ns / i128::from(row.calls)).into(),
        row.work.into(),
        row.work_ns.into(),
        row.work_per_call_max.into(),
        latency.count.into(),
        known(latency.count, latency.p50_ns),
        known(latency.count, latency.p90_ns),
        known(latency.count, latency.p99_ns),
        known(latency.count, latency.max_ns),
        queued.count.into(),
        known(queued.count, queued.p50_ns),
        known(queued.count, queued.p90_ns),
        known(queued.count, queued.p99_ns),
        known(queued.count, queued.max_ns),
        row.shorter.into(),
        row.shorter_by_ns.into(),
        row.call.as_deref().unwrap_or("[launch not recorded]").into(),
    ]
}

pub fn queue_section(rows: &[QueueRow], top: Top) -> Section {
    let nanos = |key, title| Column::new(key, title, Unit::Nanos);
    let count = |key, title| Column::new(key, title, Unit::Count);
    let mut table = Table::new([
        Column::new("device", "GPU", Unit::Text),
        Column::new("stream", "stream", Unit::Text),
        count("launched", "launched"),
        Column::hidden("unlaunched", Unit::Count),
        count("depth_max", "deepest"),
        Column::new("depth_mean", "mean", Unit::Count),
        nanos("over", "over"),
        nanos("at_least_1", "≥ 1").optional(),
        nanos("at_least_10", "≥ 10").optional(),
        nanos("at_least_100", "≥ 100").optional(),
        Column::hidden("at_least_1000", Unit::Nanos),
        count("starved", "starved"),
        nanos("starved_total", "in all"),
        nanos("starved_longest", "longest"),
    ]);
    for row in top.of(rows) {
        let [one, ten, hundred, thousand] = row.at_least_ns;
        let mean = (row.over_ns > 0).then(|| Cell::Decimal(decimal(row.depth_ns, row.over_ns, 3)));
        table.push([
            row.device.as_str().into(),
            row.stream.as_str().into(),
            row.launched.into(),
            row.unlaunched.into(),
            row.depth_max.into(),
            mean.unwrap_or(Cell::None),
            row.over_ns.into(),
            one.into(),
            ten.into(),
            hundred.into(),
            thousand.into(),
            row.starved.into(),
            row.starved_ns.into(),
            row.starved_longest_ns.into(),
        ]);
    }
    let title = "Launched work waiting to start, by stream; starved: no work while the host works";
    let shown = section("queue", title, table, rows.len());
    Section { when_empty: Some(NO_GPU), ..shown }
}

pub fn syncs_section(rows: &[SyncRow], top: Top) -> Section {
    let nanos = |key, title| Column::new(key, title, Unit::Nanos);
    let count = |key, title| Column::new(key, title, Unit::Count);
    let mut table = Table::new([
        count("count", "count"),
        nanos("blocked", "host blocked"),
        nanos("blocked_max", "longest").optional(),
        count("drained", "GPU ran dry"),
        nanos("idle", "GPU idle then"),
        Column::new("call", "call", Unit::Text),
        Column::hidden("operator", Unit::Text),
        Column::hidden("line", Unit::Text),
        Column::new("place", "asked for by", Unit::Text),
    ]);
    for row in top.of(rows) {
        table.push([
            row.count.into(),
            row.blocked_ns.into(),
            row.blocked_max_ns.into(),
            row.drained.into(),
            row.idle_ns.into(),
            row.call.as_str().into(),
            row.operator.clone().into(),
            row.line.clone().into(),
            sync_place(row).into(),
        ]);
    }
    let shown = section("syncs", "Where the host waits for the GPU", table, rows.len());
    Section { when_empty: Some("the host never waits for a GPU in this trace"), ..shown }
}

fn sync_place(row: &SyncRow) -> String {
    match (&row.operator, &row.line) {
        (Some(operator), Some(line)) => format!("{operator} in {line}"),
        (None, Some(line)) => line.clone(),
        (Some(operator), None) => format!("{operator} [no Python frame]"),
        (None, None) => "[no Python frame]".to_owned(),
    }
}

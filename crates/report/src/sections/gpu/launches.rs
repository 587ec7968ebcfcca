//! The launch path: calls, queues, synchronizations.

use spanwise_analyze::{LaunchRow, Percentiles, QueueRow, SyncRow, launches, queues, syncs};
use spanwise_model::Nanos;
use spanwise_write::{Cell, Column, Columns, Content, Top, Unit, decimal};

use crate::sections::gpu::breakdown::NO_GPU;
use crate::sections::{SectionDef, Shown};

pub(in crate::sections) const LAUNCHES: SectionDef = SectionDef {
    key: "launches",
    title: "Launches by call",
    about: "launching calls: latency, queueing, calls longer than their work",
    shown: Shown::OnRequest,
    method: "launches",
    content: |request| launches_by_call(&launches(request.facts), request.top),
};

fn launches_by_call(rows: &[LaunchRow], top: Top) -> Content {
    let has_graphs = rows.iter().any(|row| row.work_per_call_max > 1);
    // What no work had is unknown, not 0.
    let known = |of: Percentiles, ns: Nanos| Cell::from((of.count > 0).then_some(ns));
    Columns::<LaunchRow>::new()
        .add(Column::count("calls", "calls"), |row| row.calls.into())
        .add(Column::nanos("call_total", "in calls"), |row| row.call_ns.into())
        .add(Column::nanos("call_mean", "mean"), |row| {
            (row.calls > 0).then(|| row.call_ns / i128::from(row.calls)).into()
        })
        .add(Column::count("work", "GPU work").optional(), |row| row.work.into())
        .add(Column::hidden("work_total", Unit::Nanos), |row| row.work_ns.into())
        .add(Column::count("work_per_call_max", "most a call").in_text_if(has_graphs), |row| {
            row.work_per_call_max.into()
        })
        .add(Column::hidden("latency_count", Unit::Count), |row| row.latency.count.into())
        .add(Column::nanos("latency_p50", "latency p50"), |row| {
            known(row.latency, row.latency.p50_ns)
        })
        .add(Column::hidden("latency_p90", Unit::Nanos), |row| {
            known(row.latency, row.latency.p90_ns)
        })
        .add(Column::nanos("latency_p99", "p99"), |row| known(row.latency, row.latency.p99_ns))
        .add(Column::hidden("latency_max", Unit::Nanos), |row| {
            known(row.latency, row.latency.max_ns)
        })
        .add(Column::hidden("queued_count", Unit::Count), |row| row.queued.count.into())
        .add(Column::nanos("queued_p50", "queued p50").optional(), |row| {
            known(row.queued, row.queued.p50_ns)
        })
        .add(Column::hidden("queued_p90", Unit::Nanos), |row| known(row.queued, row.queued.p90_ns))
        .add(Column::nanos("queued_p99", "p99").optional(), |row| {
            known(row.queued, row.queued.p99_ns)
        })
        .add(Column::hidden("queued_max", Unit::Nanos), |row| known(row.queued, row.queued.max_ns))
        .add(Column::count("shorter", "longer than work"), |row| row.shorter.into())
        .add(Column::hidden("shorter_by", Unit::Nanos), |row| row.shorter_by_ns.into())
        .add(Column::text("call", "call"), |row| {
            row.call.as_deref().unwrap_or("[launch not recorded]").into()
        })
        .content(rows, top)
        .when_empty(NO_GPU)
}

pub(in crate::sections) const QUEUE: SectionDef = SectionDef {
    key: "queue",
    title: "Launched work waiting to start, by stream; starved: no work while the host works",
    about: "launched work waiting to start, by stream",
    shown: Shown::OnRequest,
    method: "queue",
    content: |request| queue(&queues(request.facts), request.top),
};

fn queue(rows: &[QueueRow], top: Top) -> Content {
    Columns::<QueueRow>::new()
        .add(Column::text("device", "GPU"), |row| row.device.as_str().into())
        .add(Column::text("stream", "stream"), |row| row.stream.as_str().into())
        .add(Column::count("launched", "launched"), |row| row.launched.into())
        .add(Column::hidden("unlaunched", Unit::Count), |row| row.unlaunched.into())
        .add(Column::count("depth_max", "deepest"), |row| row.depth_max.into())
        .add(Column::count("depth_mean", "mean"), depth_mean)
        .add(Column::nanos("over", "over"), |row| row.over_ns.into())
        .add(Column::nanos("at_least_1", "≥ 1").optional(), |row| row.at_least_ns[0].into())
        .add(Column::nanos("at_least_10", "≥ 10").optional(), |row| row.at_least_ns[1].into())
        .add(Column::nanos("at_least_100", "≥ 100").optional(), |row| row.at_least_ns[2].into())
        .add(Column::hidden("at_least_1000", Unit::Nanos), |row| row.at_least_ns[3].into())
        .add(Column::count("starved", "starved"), |row| row.starved.into())
        .add(Column::nanos("starved_total", "in all"), |row| row.starved_ns.into())
        .add(Column::nanos("starved_longest", "longest"), |row| row.starved_longest_ns.into())
        .content(rows, top)
        .when_empty(NO_GPU)
}

fn depth_mean(row: &QueueRow) -> Cell {
    match row.over_ns > 0 {
        true => Cell::Decimal(decimal(row.depth_ns, row.over_ns, 3)),
        false => Cell::None,
    }
}

pub(in crate::sections) const SYNCS: SectionDef = SectionDef {
    key: "syncs",
    title: "Where the host waits for the GPU",
    about: "where the host waits for the GPU, and what that costs",
    shown: Shown::OnRequest,
    method: "syncs",
    content: |request| synchronizations(&syncs(request.facts), request.top),
};

fn synchronizations(rows: &[SyncRow], top: Top) -> Content {
    Columns::<SyncRow>::new()
        .add(Column::count("count", "count"), |row| row.count.into())
        .add(Column::nanos("blocked", "host blocked"), |row| row.blocked_ns.into())
        .add(Column::nanos("blocked_max", "longest").optional(), |row| row.blocked_max_ns.into())
        .add(Column::count("drained", "GPU ran dry"), |row| row.drained.into())
        .add(Column::nanos("idle", "GPU idle then"), |row| row.idle_ns.into())
        .add(Column::text("call", "call"), |row| row.call.as_str().into())
        .add(Column::hidden("operator", Unit::Text), |row| row.operator.clone().into())
        .add(Column::hidden("line", Unit::Text), |row| row.line.clone().into())
        .add(Column::text("place", "asked for by"), |row| sync_place(row).into())
        .content(rows, top)
        .when_empty("the host never waits for a GPU in this trace")
}

fn sync_place(row: &SyncRow) -> String {
    match (&row.operator, &row.line) {
        (Some(operator), Some(line)) => format!("{operator} in {line}"),
        (None, Some(line)) => line.clone(),
        (Some(operator), None) => format!("{operator} [no Python frame]"),
        (None, None) => "[no Python frame]".to_owned(),
    }
}

//! What GPUs spent their time on, and why they spent it on nothing.

use spanwise_analyze::{BreakdownRow, IdleCause, IdleRow};

use crate::Top;
use crate::document::sectioned::{Body, Section};
use crate::document::table::{Cell, Column, Table, Unit};
use crate::sections::report::section;

/// What to say where a trace has no GPU work at all.
pub(crate) const NO_GPU: &str = "the trace holds no GPU work";

pub fn breakdown_section(rows: &[BreakdownRow], top: Top) -> Section {
    let has_steps = rows.iter().any(|row| row.step.is_some());
    let has = |ns: fn(&BreakdownRow) -> i128| rows.iter().any(|row| ns(row) > 0);
    let nanos = |key, title| Column::new(key, title, Unit::Nanos);
    let percent = |key, title| Column::new(key, title, Unit::Percent);
    let if_any = |column: Column, any: bool| Column { in_text: any, ..column };
    let has_communication = has(|row| row.communication_ns);
    let has_copies = has(|row| row.copy_ns);
    let mut table = Table::new([
        Column::new("device", "GPU", Unit::Text),
        Column::hidden("rank", Unit::Count),
        if_any(Column::new("step", "step", Unit::Text), has_steps),
        nanos("window", "time"),
        nanos("compute", "compute"),
        percent("compute_share", ""),
        if_any(nanos("exposed_communication", "exposed comm."), has_communication),
        if_any(percent("exposed_communication_share", ""), has_communication),
        if_any(nanos("exposed_copy", "exposed copies"), has_copies),
        if_any(percent("exposed_copy_share", ""), has_copies),
        nanos("idle", "idle"),
        percent("idle_share", ""),
        Column::hidden("busy", Unit::Nanos),
        Column::hidden("busy_share", Unit::Percent),
        Column::hidden("communication", Unit::Nanos),
        if_any(percent("communication_hidden_share", "comm. hidden").optional(), has_communication),
        Column::hidden("copy", Unit::Nanos),
        Column::hidden("host_and_device", Unit::Nanos),
        nanos("host_only", "host alone").optional(),
        nanos("device_only", "GPU alone").optional(),
        Column::hidden("neither", Unit::Nanos),
    ]);
    for row in top.of(rows) {
        table.push(breakdown_cells(row));
    }
    let title = "GPU time: compute, exposed communication and copies, idle";
    let shown = section("breakdown", title, table, rows.len());
    Section { when_empty: Some(NO_GPU), ..shown }
}

fn breakdown_cells(row: &BreakdownRow) -> Vec<Cell> {
    let share = |ns| Cell::Share(ns, row.window_ns);
    let step = row.step.map_or("all".to_owned(), |step| step.to_string());
    vec![
        row.device.as_str().into(),
        row.rank.into(),
        step.into(),
        row.window_ns.into(),
        row.compute_ns.into(),
        share(row.compute_ns),
        row.exposed_communication_ns.into(),
        share(row.exposed_communication_ns),
        row.exposed_copy_ns.into(),
        share(row.exposed_copy_ns),
        row.idle_ns.into(),
        share(row.idle_ns),
        row.busy_ns().into(),
        share(row.busy_ns()),
        row.communication_ns.into(),
        Cell::Share(row.hidden_communication_ns(), row.communication_ns),
        row.copy_ns.into(),
        row.balance.map(|balance| balance.both_ns).into(),
        row.balance.map(|balance| balance.host_only_ns).into(),
        row.balance.map(|balance| balance.device_only_ns).into(),
        row.balance.map(|balance| balance.neither_ns).into(),
    ]
}

pub fn idle_section(rows: &[IdleRow], top: Top) -> Section {
    let has_streams = rows.iter().any(|row| row.stream.is_some());
    let mut table = Table::new([
        Column::new("device", "GPU", Unit::Text),
        Column { in_text: has_streams, ..Column::new("stream", "stream", Unit::Text) },
        Column::new("idle", "idle", Unit::Nanos),
        Column::new("idle_share", "of idle", Unit::Percent),
        Column::new("window_share", "of time", Unit::Percent),
        Column::new("gaps", "gaps", Unit::Count),
        Column::new("longest", "longest", Unit::Nanos),
        Column::hidden("cause", Unit::Text),
        Column::new("about", "cause", Unit::Text),
    ]);
    for row in top.of(rows) {
        let (cause, about) = cause_words(row.cause);
        table.push([
            row.device.as_str().into(),
            row.stream.as_deref().unwrap_or("all").into(),
            row.total_ns.into(),
            Cell::Share(row.total_ns, row.idle_ns),
            Cell::Share(row.total_ns, row.window_ns),
            row.gaps.into(),
            row.longest_ns.into(),
            cause.into(),
            about.into(),
        ]);
    }
    let left_out = rows.len() - table.rows().len();
    Section {
        key: "idle",
        title: "Idle GPU time by cause".to_owned(),
        body: Body::Rows(table),
        when_empty: Some("no GPU was idle, or the trace holds no GPU work"),
        left_out,
    }
}

/// A word for programs and a few for people.
fn cause_words(cause: IdleCause) -> (&'static str, &'static str) {
    match cause {
        IdleCause::Host => ("host", "host: still working towards the next launch"),
        IdleCause::HostSync => ("host-sync", "host: inside a call that waits for the GPU"),
        IdleCause::HostWaiting => ("host-waiting", "host: waiting for something else"),
        IdleCause::HostUnrecorded => ("host-unrecorded", "host: nothing recorded there"),
        IdleCause::Latency => ("latency", "launched, not started yet: launch latency"),
        IdleCause::OtherStream => ("other-stream", "launched, waiting for another stream"),
        IdleCause::LaunchUnrecorded => ("launch-unrecorded", "launch of the next work unknown"),
        IdleCause::NoMoreWork => ("no-more-work", "nothing came after"),
    }
}

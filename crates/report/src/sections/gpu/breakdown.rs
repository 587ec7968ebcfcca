//! What GPUs spent their time on, and why they were idle.

use spanwise_analyze::{BreakdownRow, HostBalance, IdleCause, IdleRow, breakdown, idle};
use spanwise_write::{Cell, Column, Columns, Content, Top, Unit, count_text};

use crate::sections::{SectionDef, Shown};

/// What to say where a trace has no GPU work at all.
pub(super) const NO_GPU: &str = "the trace holds no GPU work";

pub(in crate::sections) const BREAKDOWN: SectionDef = SectionDef {
    key: "breakdown",
    title: "GPU time: compute, exposed communication and copies, idle",
    about: "compute, exposed communication and copies, idle; by step",
    shown: Shown::WhereRecorded,
    method: "breakdown",
    content: |request| parts(&breakdown(request.facts), request.top),
};

fn parts(rows: &[BreakdownRow], top: Top) -> Content {
    let has_steps = rows.iter().any(|row| row.step.is_some());
    let has_communication = rows.iter().any(|row| row.communication_ns > 0);
    let has_copies = rows.iter().any(|row| row.copy_ns > 0);
    let share = |row: &BreakdownRow, ns: i128| Cell::Share(ns, row.window_ns);
    Columns::<BreakdownRow>::new()
        .add(Column::text("device", "GPU"), |row| row.device.as_str().into())
        .add(Column::hidden("rank", Unit::Count), |row| row.rank.into())
        .add(Column::text("step", "step").in_text_if(has_steps), |row| {
            row.step.map_or("all".to_owned(), |step| step.to_string()).into()
        })
        .add(Column::nanos("window", "time"), |row| row.window_ns.into())
        .add(Column::nanos("compute", "compute"), |row| row.compute_ns.into())
        .add(Column::percent("compute_share", ""), |row| share(row, row.compute_ns))
        .add(
            Column::nanos("exposed_communication", "exposed comm.").in_text_if(has_communication),
            |row| row.exposed_communication_ns.into(),
        )
        .add(
            Column::percent("exposed_communication_share", "").in_text_if(has_communication),
            |row| share(row, row.exposed_communication_ns),
        )
        .add(Column::nanos("exposed_copy", "exposed copies").in_text_if(has_copies), |row| {
            row.exposed_copy_ns.into()
        })
        .add(Column::percent("exposed_copy_share", "").in_text_if(has_copies), |row| {
            share(row, row.exposed_copy_ns)
        })
        .add(Column::nanos("idle", "idle"), |row| row.idle_ns.into())
        .add(Column::percent("idle_share", ""), |row| share(row, row.idle_ns))
        .add(Column::hidden("busy", Unit::Nanos), |row| row.busy_ns().into())
        .add(Column::hidden("busy_share", Unit::Percent), |row| share(row, row.busy_ns()))
        .add(Column::hidden("communication", Unit::Nanos), |row| row.communication_ns.into())
        .add(
            Column::percent("communication_hidden_share", "comm. hidden")
                .optional()
                .in_text_if(has_communication),
            |row| Cell::Share(row.hidden_communication_ns(), row.communication_ns),
        )
        .add(Column::hidden("copy", Unit::Nanos), |row| row.copy_ns.into())
        .add(Column::hidden("host_and_device", Unit::Nanos), |row| {
            row.balance.known().map(|balance| balance.both_ns).into()
        })
        .add(Column::nanos("host_only", "host alone").optional(), |row| {
            row.balance.known().map(|balance| balance.host_only_ns).into()
        })
        .add(Column::nanos("device_only", "GPU alone").optional(), |row| {
            row.balance.known().map(|balance| balance.device_only_ns).into()
        })
        .add(Column::hidden("neither", Unit::Nanos), |row| {
            row.balance.known().map(|balance| balance.neither_ns).into()
        })
        .add(Column::hidden("host_skipped_threads", Unit::Count), |row| {
            row.balance.skipped_threads().into()
        })
        .note(skipped_note)
        .content(rows, top)
        .when_empty(NO_GPU)
}

/// Why the cells about the host are empty, once for each GPU.
fn skipped_note(row: &BreakdownRow) -> String {
    match (row.step, row.balance) {
        (None, HostBalance::Skipped { threads }) => format!(
            "host columns are empty: too many threads ({}) launched its work to combine them",
            count_text(threads.into())
        ),
        _ => String::new(),
    }
}

pub(in crate::sections) const IDLE: SectionDef = SectionDef {
    key: "idle",
    title: "Idle GPU time by cause",
    about: "idle GPU time by cause",
    shown: Shown::OnRequest,
    method: "idle",
    content: |request| causes(&idle(request.facts), request.top),
};

fn causes(rows: &[IdleRow], top: Top) -> Content {
    let has_streams = rows.iter().any(|row| row.stream.is_some());
    Columns::<IdleRow>::new()
        .add(Column::text("device", "GPU"), |row| row.device.as_str().into())
        .add(Column::text("stream", "stream").in_text_if(has_streams), |row| {
            row.stream.as_deref().unwrap_or("all").into()
        })
        .add(Column::nanos("idle", "idle"), |row| row.total_ns.into())
        .add(Column::percent("idle_share", "of idle"), |row| Cell::Share(row.total_ns, row.idle_ns))
        .add(Column::percent("window_share", "of time"), |row| {
            Cell::Share(row.total_ns, row.window_ns)
        })
        .add(Column::count("gaps", "gaps"), |row| row.gaps.into())
        .add(Column::nanos("longest", "longest"), |row| row.longest_ns.into())
        .add(Column::hidden("cause", Unit::Text), |row| cause_words(row.cause).0.into())
        .add(Column::text("about", "cause"), |row| cause_words(row.cause).1.into())
        .content(rows, top)
        .when_empty("no GPU was idle, or the trace holds no GPU work")
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

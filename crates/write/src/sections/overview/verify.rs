//! Checks as a table, a section a file.

use spanwise_analyze::{Check, CheckKind, CheckStatus};

use crate::document::sectioned::{Body, Document, Section};
use crate::document::table::{Cell, Column, Table, Unit};

/// The checks of several files as one table, for programs.
pub fn verify_table(files: &[(String, Vec<Check>)]) -> Table {
    let mut table = Table::new(columns());
    for (file, checks) in files {
        push_checks(&mut table, file, checks.iter());
    }
    table
}

/// A section a file, for people.
pub fn verify_document(files: &[(String, Vec<Check>)]) -> Document {
    let section = |(file, checks): &(String, Vec<Check>)| {
        let mut table = Table::new(columns());
        push_checks(&mut table, file, checks.iter());
        Section {
            key: "checks",
            title: format!("{file}: {}", verdict(checks)),
            body: Body::Rows(table),
            when_empty: None,
            left_out: 0,
        }
    };
    Document { sections: files.iter().map(section).collect(), hints: Vec::new() }
}

fn columns() -> [Column; 8] {
    [
        Column::hidden("file", Unit::Text),
        Column::new("status", "status", Unit::Status),
        Column::new("count", "count", Unit::Count),
        Column::new("of", "of", Unit::Count),
        Column::new("total", "time", Unit::Nanos),
        Column::hidden("check", Unit::Text),
        Column::new("description", "check", Unit::Text),
        Column::hidden("detail", Unit::Text),
    ]
}

fn push_checks<'a>(table: &mut Table, file: &str, checks: impl Iterator<Item = &'a Check>) {
    for check in checks {
        let row = [
            file.into(),
            status_text(check.status).into(),
            check.count.into(),
            check.of.into(),
            check.total_ns.map_or(Cell::None, Cell::Int),
            key(check.kind).into(),
            what(check).into(),
            check.detail.clone().into(),
        ];
        table.push_with_note(row, check.detail.clone().unwrap_or_default());
    }
}

fn verdict(checks: &[Check]) -> String {
    let count = |status| checks.iter().filter(|check| check.status == status).count();
    match (count(CheckStatus::Violated), count(CheckStatus::Note)) {
        (0, 0) => "fine".to_owned(),
        (0, 1) => "fine, 1 note".to_owned(),
        (0, notes) => format!("fine, {notes} notes"),
        (violated, _) => format!("{violated} violated"),
    }
}

fn status_text(status: CheckStatus) -> &'static str {
    match status {
        CheckStatus::Ok => "ok",
        CheckStatus::Note => "note",
        CheckStatus::Violated => "violated",
    }
}

fn key(kind: CheckKind) -> &'static str {
    match kind {
        CheckKind::Model => "model",
        CheckKind::SelfTimeAddsUp => "self-time-adds-up",
        CheckKind::GpuTimeAddsUp => "gpu-time-adds-up",
        CheckKind::NothingLost | CheckKind::Lost(_) => "nothing-lost",
        CheckKind::GpuWorkUnlinked => "gpu-work-linked",
        CheckKind::GpuWorkBeforeLaunch => "gpu-work-after-launch",
        CheckKind::GpuStreamOverlap => "gpu-streams-in-order",
        CheckKind::TimestampLost => "timestamps-kept",
        CheckKind::SpansNotNested => "spans-nested",
        CheckKind::ZeroDuration => "spans-with-length",
        CheckKind::AbsurdDuration => "durations-plausible",
    }
}

fn what(check: &Check) -> String {
    let text = match check.kind {
        CheckKind::Model => "columns, ids, order and parents of spans are sound",
        CheckKind::SelfTimeAddsUp => "threads: self times add up to the time covered by spans",
        CheckKind::GpuTimeAddsUp => "GPU: time by launching line adds up to all GPU work",
        CheckKind::NothingLost => "events of the file that are not in the trace",
        CheckKind::Lost(kind) => return kind.to_string(),
        CheckKind::GpuWorkUnlinked => "GPU work without a launching call in the trace",
        CheckKind::GpuWorkBeforeLaunch => "GPU work that began before its launching call",
        CheckKind::GpuStreamOverlap => "GPU work that overlaps the work before it on its stream",
        CheckKind::TimestampLost => "GPU work whose timestamp the recorder lost",
        CheckKind::SpansNotNested => "spans that outlive the span they began in",
        CheckKind::ZeroDuration => "spans without length",
        CheckKind::AbsurdDuration => "spans longer than a year",
    };
    text.to_owned()
}

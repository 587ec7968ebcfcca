//! The critical path: by kind, and by what lies on it.

use spanwise_analyze::{CriticalPath, PathKind};

use crate::Top;
use crate::document::sectioned::Section;
use crate::document::table::{Cell, Column, Table, Unit};
use crate::sections::report::section;

pub fn critical_path_section(path: &CriticalPath, top: Top) -> Section {
    let mut table = Table::new([
        Column::new("total", "time", Unit::Nanos),
        Column::new("share", "of time", Unit::Percent),
        Column::new("links", "stretches", Unit::Count),
        Column::hidden("kind", Unit::Text),
        Column::new("about", "the end of the window waited for", Unit::Text),
    ]);
    for row in top.of(&path.kinds) {
        let (kind, about) = kind_words(row.kind);
        table.push([
            row.total_ns.into(),
            Cell::Share(row.total_ns, path.window_ns),
            row.links.into(),
            kind.into(),
            about.into(),
        ]);
    }
    let shown = section("critical-path", "Critical path by kind", table, path.kinds.len());
    Section { when_empty: Some("the trace holds no spans"), ..shown }
}

pub fn critical_items_section(path: &CriticalPath, top: Top) -> Section {
    let mut table = Table::new([
        Column::new("path", "on the path", Unit::Nanos),
        Column::new("share", "of time", Unit::Percent),
        Column::new("gain", "gain at most", Unit::Nanos),
        Column::new("links", "stretches", Unit::Count).optional(),
        Column::new("kind", "kind", Unit::Text),
        Column::hidden("line", Unit::Text),
        Column::new("name", "function or kernel, and the line it is under", Unit::Text),
    ]);
    for row in top.of(&path.items) {
        let cells = [
            row.path_ns.into(),
            Cell::Share(row.path_ns, path.window_ns),
            row.gain_ns.into(),
            row.links.into(),
            kind_words(row.kind).0.into(),
            row.line.clone().into(),
            row.name.as_str().into(),
        ];
        table.push_with_note(cells, row.line.clone().unwrap_or_default());
    }
    let title = "Critical path: what lies on it, and what it would gain to make it free";
    let shown = section("critical-items", title, table, path.items.len());
    Section { when_empty: Some("the trace holds no spans"), ..shown }
}

/// A word for programs and a few for people.
fn kind_words(kind: PathKind) -> (&'static str, &'static str) {
    match kind {
        PathKind::Host => ("host", "host: a thread at work"),
        PathKind::HostWaiting => ("host-waiting", "host: waiting, nobody knows for whom"),
        PathKind::HostUnrecorded => ("host-unrecorded", "host: nothing recorded there"),
        PathKind::Launch => ("launch", "launch: from the call to the start of its work"),
        PathKind::GpuGap => ("gpu-gap", "GPU: from one piece of work to the next"),
        PathKind::StreamWait => ("stream-wait", "GPU: waiting for another stream"),
        PathKind::Compute => ("compute", "GPU: computing"),
        PathKind::Communication => ("communication", "GPU: communicating"),
        PathKind::Copy => ("copy", "GPU: copying"),
        PathKind::SyncReturn => ("sync-return", "host: return from waiting for the GPU"),
        PathKind::Handoff => ("handoff", "host: one thread passing on to another"),
        PathKind::Unknown => ("unknown", "before anything that explains it"),
    }
}

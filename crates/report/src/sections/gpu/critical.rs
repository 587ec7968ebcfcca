//! The critical path: by kind, and by what lies on it.

use spanwise_analyze::{CriticalPath, PathItem, PathKind, PathKindTime};
use spanwise_write::{Cell, Column, Columns, Content, Top, Unit};

use crate::sections::{SectionDef, Shown};

pub(in crate::sections) const CRITICAL_PATH: SectionDef = SectionDef {
    key: "critical-path",
    title: "Critical path by kind",
    about: "the chain that the end of the window waited for, by kind",
    shown: Shown::OnRequest,
    method: "critical_path",
    content: |request| kinds(&request.critical_path(), request.top),
};

fn kinds(path: &CriticalPath, top: Top) -> Content {
    Columns::<PathKindTime>::new()
        .add(Column::nanos("total", "time"), |row| row.total_ns.into())
        .add(Column::percent("share", "of time"), |row| Cell::Share(row.total_ns, path.window_ns))
        .add(Column::count("links", "stretches"), |row| row.links.into())
        .add(Column::hidden("kind", Unit::Text), |row| kind_words(row.kind).0.into())
        .add(Column::text("about", "the end of the window waited for"), |row| {
            kind_words(row.kind).1.into()
        })
        .content(&path.kinds, top)
        .when_empty("the trace holds no spans")
}

pub(in crate::sections) const CRITICAL_ITEMS: SectionDef = SectionDef {
    key: "critical-items",
    title: "Critical path: what lies on it, and what it would gain to make it free",
    about: "functions and kernels on that chain, and what each could gain",
    shown: Shown::OnRequest,
    method: "critical_items",
    content: |request| items(&request.critical_path(), request.top),
};

fn items(path: &CriticalPath, top: Top) -> Content {
    Columns::<PathItem>::new()
        .add(Column::nanos("path", "on the path"), |row| row.path_ns.into())
        .add(Column::percent("share", "of time"), |row| Cell::Share(row.path_ns, path.window_ns))
        .add(Column::nanos("gain", "gain at most"), |row| row.gain_ns.into())
        .add(Column::count("links", "stretches").optional(), |row| row.links.into())
        .add(Column::text("kind", "kind"), |row| kind_words(row.kind).0.into())
        .add(Column::hidden("line", Unit::Text), |row| row.line.clone().into())
        .add(Column::text("name", "function or kernel, and the line it is under"), |row| {
            row.name.as_str().into()
        })
        .note(|row| row.line.clone().unwrap_or_default())
        .content(&path.items, top)
        .when_empty("the trace holds no spans")
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

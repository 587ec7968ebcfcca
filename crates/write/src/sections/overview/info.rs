//! What a trace is: source, devices, categories, tracks, notices.

use spanwise_model::{Device, NO_OFFSET, Notice, SourceInfo, Summary, TrackKind, TrackSummary};

use crate::document::civil::utc_text;
use crate::document::sectioned::{Body, Document, Section};
use crate::document::table::{Cell, Column, Table, Unit};
use crate::{Source, Top};

pub fn info_document(file: &str, summary: &Summary, top: Top) -> Document {
    let sections = vec![
        trace_section(file, summary),
        devices_section(&summary.info.devices),
        categories_section(summary),
        tracks_section(summary, top),
        properties_section(&summary.info),
        notices_section(&summary.notices),
    ];
    Document { sections, hints: Vec::new() }
}

/// Facts that both `info` and `report` begin with.
pub fn source_fields(source: &Source<'_>) -> Vec<(Column, Cell)> {
    let info = source.info;
    let wall = source.window.map(|(from, to)| i128::from(to) - i128::from(from));
    let recorded = source.window.zip(info.base_time_ns).map(|((from, _), base)| {
        // A trace without a base carries absolute times itself; only the reader knows.
        utc_text(i128::from(from) + i128::from(base))
    });
    let names: Vec<&str> = info.devices.iter().map(|device| device.name.as_str()).collect();
    let text = |text: &str| match text {
        "" => Cell::None,
        text => text.into(),
    };
    vec![
        (Column::new("file", "file", Unit::Text), source.file.into()),
        (Column::new("format", "format", Unit::Text), text(&info.format)),
        (Column::new("devices", "devices", Unit::Text), text(&counted_names(&names))),
        (Column::new("rank", "rank", Unit::Count), info.rank.into()),
        (Column::new("world_size", "ranks", Unit::Count), info.world_size.into()),
        (Column::new("backend", "backend", Unit::Text), info.backend.clone().into()),
        (Column::new("recorded", "recorded", Unit::Text), recorded.into()),
        (Column::new("wall", "wall time", Unit::Nanos), wall.into()),
    ]
}

/// "2 × A, B": equal names once, in order of first appearance.
fn counted_names(names: &[&str]) -> String {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for name in names.iter().filter(|name| !name.is_empty()) {
        match counts.iter_mut().find(|(known, _)| known == name) {
            Some((_, count)) => *count += 1,
            None => counts.push((name, 1)),
        }
    }
    let texts = counts.iter().map(|&(name, count)| match count {
        1 => name.to_owned(),
        count => format!("{count} × {name}"),
    });
    texts.collect::<Vec<_>>().join(", ")
}

/// One row out of fields.
pub(crate) fn record(fields: Vec<(Column, Cell)>) -> Table {
    let (columns, row): (Vec<Column>, Vec<Cell>) = fields.into_iter().unzip();
    let mut table = Table::new(columns);
    table.push(row);
    table
}

fn section(key: &'static str, title: &str, table: Table) -> Section {
    let title = title.to_owned();
    Section { key, title, body: Body::Rows(table), when_empty: None, left_out: 0 }
}

fn trace_section(file: &str, summary: &Summary) -> Section {
    let info = &summary.info;
    let source = Source { file, info, window: summary.window };
    let mut fields = source_fields(&source);
    let compression = match info.compression.as_str() {
        "" => Cell::None,
        name => name.into(),
    };
    fields.extend([
        (Column::new("compression", "compression", Unit::Text), compression),
        (Column::new("text", "text", Unit::Bytes), info.text_bytes.into()),
        (Column::new("events", "events", Unit::Count), info.events().into()),
        (Column::new("spans", "spans", Unit::Count), summary.spans.into()),
        (Column::new("instants", "instants", Unit::Count), summary.instants.into()),
        (
            Column::new("counter_values", "counter values", Unit::Count),
            summary.counter_values.into(),
        ),
        (Column::new("links", "arrows", Unit::Count), summary.links.into()),
        (Column::new("samples", "samples", Unit::Count), present(summary.samples)),
        (
            Column::new("thread_states", "thread states", Unit::Count),
            present(summary.thread_states),
        ),
        (Column::new("tracks", "tracks", Unit::Count), summary.tracks_total.into()),
        (Column::new("gpu_work", "GPU work", Unit::Count), summary.gpu_work.into()),
        (
            Column::new("gpu_work_launched", "  launch known", Unit::Count),
            summary.gpu_work_launched.into(),
        ),
    ]);
    Section { body: Body::Record(record(fields)), ..section("trace", "Trace", Table::new([])) }
}

/// A count that most traces have none of.
fn present(count: u64) -> Cell {
    match count {
        0 => Cell::None,
        count => count.into(),
    }
}

fn devices_section(devices: &[Device]) -> Section {
    let mut table = Table::new([
        Column::new("device", "device", Unit::Text),
        Column::new("name", "name", Unit::Text),
        Column::new("memory", "memory", Unit::Bytes),
        Column::new("multiprocessors", "multiprocessors", Unit::Count),
        Column::new("compute_capability", "capability", Unit::Text),
        Column::new("warp_size", "warp", Unit::Count),
    ]);
    for device in devices {
        table.push([
            device.id.to_string().into(),
            device.name.as_str().into(),
            device.memory_bytes.into(),
            device.multiprocessors.into(),
            device.compute_capability.clone().into(),
            device.warp_size.into(),
        ]);
    }
    section("devices", "Devices", table)
}

fn categories_section(summary: &Summary) -> Section {
    let mut table = Table::new([
        Column::new("spans", "spans", Unit::Count),
        Column::new("instants", "instants", Unit::Count),
        Column::new("total", "total time", Unit::Nanos),
        Column::new("kind", "kind", Unit::Text),
        Column::new("category", "category", Unit::Text),
    ]);
    let mut rows: Vec<_> = summary.categories.iter().collect();
    rows.retain(|row| row.spans + row.instants > 0);
    rows.sort_by_key(|row| std::cmp::Reverse(row.spans + row.instants));
    for row in rows {
        table.push([
            row.spans.into(),
            row.instants.into(),
            row.total_ns.into(),
            row.kind.text().into(),
            row.name.as_str().into(),
        ]);
    }
    section("categories", "Categories", table)
}

fn tracks_section(summary: &Summary, top: Top) -> Section {
    let mut table = Table::new([
        Column::new("spans", "spans", Unit::Count),
        Column::new("instants", "instants", Unit::Count),
        Column::new("counter_values", "values", Unit::Count),
        Column::new("kind", "kind", Unit::Text),
        Column::new("process", "process", Unit::Text),
        Column::hidden("process_name", Unit::Text),
        Column::new("thread", "thread", Unit::Text),
        Column::new("thread_name", "name", Unit::Text),
    ]);
    // Sources name processes that never did anything: labels, no rows.
    let has_events =
        |row: &&TrackSummary| row.spans + row.instants + row.counter_values + row.samples > 0;
    let rows: Vec<&TrackSummary> = summary.tracks.iter().filter(has_events).collect();
    for row in top.of(&rows) {
        table.push([
            row.spans.into(),
            row.instants.into(),
            row.counter_values.into(),
            track_kind_key(row.kind).into(),
            row.process.as_str().into(),
            row.process_name.as_str().into(),
            row.thread.as_str().into(),
            row.thread_name.trim().into(),
        ]);
    }
    // A summary lists the busiest tracks only.
    let unlisted = summary.tracks_total as usize - summary.tracks.len();
    let left_out = rows.len() + unlisted - table.rows().len();
    Section { left_out, ..section("tracks", "Tracks", table) }
}

fn track_kind_key(kind: TrackKind) -> &'static str {
    match kind {
        TrackKind::Thread => "thread",
        TrackKind::GpuStream => "gpu_stream",
        TrackKind::Async => "async",
        TrackKind::Counter => "counter",
        TrackKind::Profiler => "profiler",
    }
}

/// What the source says about the machine and the program beside the events.
pub fn properties_section(info: &SourceInfo) -> Section {
    let mut table = Table::new([
        Column::new("property", "property", Unit::Text),
        Column::new("value", "value", Unit::Text),
    ]);
    for (property, value) in &info.properties {
        table.push([property.as_str().into(), value.as_str().into()]);
    }
    section("properties", "Properties", table)
}

fn notices_section(notices: &[Notice]) -> Section {
    let mut table = Table::new([
        Column::new("count", "count", Unit::Count),
        Column::new("first_offset", "first at byte", Unit::Count),
        Column::new("is_loss", "lost", Unit::Flag),
        Column::new("notice", "what", Unit::Text),
        Column::hidden("example", Unit::Text),
    ]);
    for notice in notices {
        let offset = Some(notice.first_offset).filter(|&offset| offset != NO_OFFSET);
        let row = [
            notice.count.into(),
            offset.into(),
            Cell::Flag(notice.kind.is_loss()),
            notice.kind.to_string().into(),
            notice.example.as_str().into(),
        ];
        table.push_with_note(row, notice.example.clone());
    }
    let when_empty = Some("nothing was skipped, nothing repaired");
    Section { when_empty, ..section("notices", "Notices", table) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_devices_are_counted() {
        assert_eq!(counted_names(&["A", "A", "", "B"]), "2 × A, B");
        assert_eq!(counted_names(&[]), "");
    }
}

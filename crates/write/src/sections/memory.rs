//! Memory: by device, by who held it or asked for it, over time.

use spanwise_analyze::{MemoryPlace, MemorySlice, MemoryUse};

use crate::Top;
use crate::document::sectioned::Section;
use crate::document::table::{Cell, Column, Table, Unit};
use crate::document::units::{bytes_text, count_text};
use crate::sections::report::section;

/// What to say where there is nothing to show; `unread` events say too little.
fn when_empty(unread: u64) -> Option<&'static str> {
    Some(match unread {
        0 => "no memory events: record with profile_memory=True",
        _ => "memory events without arguments: read the trace as it was recorded",
    })
}

const fn bytes(key: &'static str, title: &'static str) -> Column {
    Column::new(key, title, Unit::Bytes)
}

const fn count(key: &'static str, title: &'static str) -> Column {
    Column::new(key, title, Unit::Count)
}

const fn nanos(key: &'static str, title: &'static str) -> Column {
    Column::new(key, title, Unit::Nanos)
}

const USE_COLUMNS: [Column; 23] = [
    Column::new("device", "device", Unit::Text),
    bytes("peak", "peak"),
    nanos("peak_at", "at"),
    Column::hidden("at_start", Unit::Bytes),
    bytes("at_end", "at the end"),
    bytes("reserved_at_peak", "reserved"),
    bytes("unused_at_peak", "unused").optional(),
    bytes("unused_most", "unused at most"),
    Column::hidden("unused_most_at", Unit::Nanos),
    count("allocations", "allocations"),
    count("frees", "frees").optional(),
    Column::hidden("early_frees", Unit::Count),
    Column::hidden("early_freed", Unit::Bytes),
    bytes("allocated", "in all"),
    Column::hidden("largest", Unit::Bytes),
    Column::hidden("short_lived", Unit::Count),
    Column::new("short_lived_share", "freed within 1 ms", Unit::Percent),
    Column::hidden("short_lived", Unit::Bytes),
    Column::hidden("held_at_end", Unit::Count),
    Column::hidden("held_at_end", Unit::Bytes),
    Column::hidden("before_at_end", Unit::Bytes),
    Column::hidden("without_address", Unit::Count),
    Column::hidden("contradictions", Unit::Count),
];

/// A part that may not be known.
fn share(part: Option<u64>, whole: u64) -> Cell {
    part.map_or(Cell::None, |part| Cell::Share(part.into(), whole.into()))
}

/// One row a device; below it what its numbers leave open.
pub fn memory_section(rows: &[MemoryUse], unread: u64) -> Section {
    let mut table = Table::new(USE_COLUMNS);
    for (at, row) in rows.iter().enumerate() {
        let mut notes = use_notes(row);
        if unread > 0 && at + 1 == rows.len() {
            let events = count_text(unread.into());
            notes.push(format!("{events} more events do not say how many bytes of which device"));
        }
        table.push_with_note(use_cells(row), notes.join("; "));
    }
    let shown = section("memory", "Memory", table, rows.len());
    Section { when_empty: when_empty(unread), ..shown }
}

fn use_cells(row: &MemoryUse) -> [Cell; 23] {
    [
        row.device.as_str().into(),
        row.peak.into(),
        row.peak_at.into(),
        row.at_start.into(),
        row.at_end.into(),
        row.reserved_at_peak.into(),
        row.unused_at_peak.into(),
        row.unused_most.into(),
        row.unused_most_at.into(),
        row.allocations.into(),
        row.frees.into(),
        row.early_frees.into(),
        row.early_freed.into(),
        row.allocated.into(),
        row.largest.into(),
        row.short_lived.into(),
        share(row.short_lived, row.allocations),
        row.short_lived_bytes.into(),
        row.held_at_end.into(),
        row.held_at_end_bytes.into(),
        row.held_at_end_bytes.map(|held| row.at_end - held).into(),
        row.unpaired.into(),
        row.contradictions.into(),
    ]
}

fn use_notes(row: &MemoryUse) -> Vec<String> {
    let mut notes = Vec::new();
    if row.early_frees > 0 {
        notes.push(format!(
            "from before the recording: {} of the frees, {}",
            count_text(row.early_frees.into()),
            bytes_text(row.early_freed)
        ));
    }
    if let (Some(held @ 1..), Some(bytes)) = (row.held_at_end, row.held_at_end_bytes) {
        notes.push(format!(
            "still held: {} of the allocations, {}",
            count_text(held.into()),
            bytes_text(bytes)
        ));
    }
    if row.unpaired > 0 {
        let events = count_text(row.unpaired.into());
        notes.push(format!("{events} events without an address: who held what is not known"));
    }
    if row.contradictions > 0 {
        let events = count_text(row.contradictions.into());
        notes.push(format!("{events} recorded totals contradict the events before them"));
    }
    notes
}

/// Who held each device's peak.
pub fn memory_peak_section(rows: &[MemoryPlace], unread: u64, top: Top) -> Section {
    let mut table = Table::new([
        Column::new("device", "device", Unit::Text),
        bytes("held", "held"),
        Column::new("share", "of the peak", Unit::Percent),
        count("allocations", "allocations"),
        Column::new("operator", "operator", Unit::Text),
        Column::new("line", "line", Unit::Text),
    ]);
    for row in top.of(rows) {
        table.push([
            row.device.as_str().into(),
            row.bytes.into(),
            Cell::Share(row.bytes, row.of_bytes),
            row.count.into(),
            row.operator.clone().into(),
            row.line.clone().into(),
        ]);
    }
    let shown = section("memory-peak", "Memory at the peak", table, rows.len());
    Section { when_empty: when_empty(unread), ..shown }
}

/// Who asked for memory, and how often.
pub fn memory_churn_section(rows: &[MemoryPlace], unread: u64, top: Top) -> Section {
    let mut table = Table::new([
        Column::new("device", "device", Unit::Text),
        count("allocations", "allocations"),
        bytes("allocated", "in all"),
        Column::new("share", "of all", Unit::Percent),
        bytes("mean", "mean").optional(),
        Column::hidden("short_lived", Unit::Count),
        Column::new("short_lived_share", "freed within 1 ms", Unit::Percent),
        Column::new("operator", "operator", Unit::Text),
        Column::new("line", "line", Unit::Text),
    ]);
    for row in top.of(rows) {
        let count = row.count.unwrap_or(0);
        table.push([
            row.device.as_str().into(),
            row.count.into(),
            row.bytes.into(),
            Cell::Share(row.bytes, row.of_bytes),
            row.bytes.checked_div(count.into()).into(),
            row.short_lived.into(),
            share(row.short_lived, count),
            row.operator.clone().into(),
            row.line.clone().into(),
        ]);
    }
    let shown = section("memory-churn", "Memory asked for", table, rows.len());
    Section { when_empty: when_empty(unread), ..shown }
}

/// The most that was held in each slice of time.
pub fn memory_timeline_section(rows: &[MemorySlice], unread: u64) -> Section {
    let mut table = Table::new([
        Column::new("device", "device", Unit::Text),
        nanos("from", "from"),
        nanos("to", "to"),
        bytes("allocated", "allocated at most"),
        bytes("reserved", "reserved at most"),
        count("events", "events"),
    ]);
    for row in rows {
        table.push([
            row.device.as_str().into(),
            row.from.into(),
            row.to.into(),
            row.allocated.into(),
            row.reserved.into(),
            row.events.into(),
        ]);
    }
    let shown = section("memory-timeline", "Memory over time", table, rows.len());
    Section { when_empty: when_empty(unread), ..shown }
}

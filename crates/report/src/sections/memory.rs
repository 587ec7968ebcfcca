//! Memory: by device, by who held it or requested it, over time.

use spanwise_analyze::{
    MemoryPlace, MemorySlice, MemoryUse, memory_churn, memory_peak, memory_timeline, memory_use,
};
use spanwise_write::{Cell, Column, Columns, Content, Top, Unit, bytes_text, count_text};

use crate::sections::{SectionDef, Shown};

/// What to say where there is nothing to show; `unread` events say too little.
fn when_empty(unread: u64) -> &'static str {
    match unread {
        0 => "no memory events: record with profile_memory=True",
        _ => "memory events without arguments: read the trace as it was recorded",
    }
}

/// A part that may not be known.
fn share(part: Option<u64>, whole: u64) -> Cell {
    part.map_or(Cell::None, |part| Cell::Share(part.into(), whole.into()))
}

pub(in crate::sections) const MEMORY: SectionDef = SectionDef {
    key: "memory",
    title: "Memory",
    about: "each device, where recorded: peak, end, unused, how much was asked for",
    shown: Shown::WhereRecorded,
    method: "memory",
    content: |request| devices(&memory_use(request.facts), request.unread_memory()),
};

/// One row per device; below it what its numbers leave open.
fn devices(rows: &[MemoryUse], unread: u64) -> Content {
    let rows: Vec<(usize, &MemoryUse)> = rows.iter().enumerate().collect();
    Columns::<(usize, &MemoryUse)>::new()
        .add(Column::text("device", "device"), |(_, row)| row.device.as_str().into())
        .add(Column::bytes("peak", "peak"), |(_, row)| row.peak.into())
        .add(Column::nanos("peak_at", "at"), |(_, row)| row.peak_at.into())
        .add(Column::hidden("at_start", Unit::Bytes), |(_, row)| row.at_start.into())
        .add(Column::bytes("at_end", "at the end"), |(_, row)| row.at_end.into())
        .add(Column::bytes("reserved_at_peak", "reserved"), |(_, row)| row.reserved_at_peak.into())
        .add(Column::bytes("unused_at_peak", "unused").optional(), |(_, row)| {
            row.unused_at_peak.into()
        })
        .add(Column::bytes("unused_most", "unused at most"), |(_, row)| row.unused_most.into())
        .add(Column::hidden("unused_most_at", Unit::Nanos), |(_, row)| row.unused_most_at.into())
        .add(Column::count("allocations", "allocations"), |(_, row)| row.allocations.into())
        .add(Column::count("frees", "frees").optional(), |(_, row)| row.frees.into())
        .add(Column::hidden("early_frees", Unit::Count), |(_, row)| row.early_frees.into())
        .add(Column::hidden("early_freed", Unit::Bytes), |(_, row)| row.early_freed.into())
        .add(Column::bytes("allocated", "in all"), |(_, row)| row.allocated.into())
        .add(Column::hidden("largest", Unit::Bytes), |(_, row)| row.largest.into())
        .add(Column::hidden("short_lived", Unit::Count), |(_, row)| row.short_lived.into())
        .add(Column::percent("short_lived_share", "freed within 1 ms"), |(_, row)| {
            share(row.short_lived, row.allocations)
        })
        .add(Column::hidden("short_lived", Unit::Bytes), |(_, row)| row.short_lived_bytes.into())
        .add(Column::hidden("held_at_end", Unit::Count), |(_, row)| row.held_at_end.into())
        .add(Column::hidden("held_at_end", Unit::Bytes), |(_, row)| row.held_at_end_bytes.into())
        .add(Column::hidden("before_at_end", Unit::Bytes), |(_, row)| {
            row.held_at_end_bytes.map(|held| row.at_end - held).into()
        })
        .add(Column::hidden("without_address", Unit::Count), |(_, row)| row.unpaired.into())
        .add(Column::hidden("contradictions", Unit::Count), |(_, row)| row.contradictions.into())
        .note(|&(at, row)| {
            let mut notes = use_notes(row);
            if unread > 0 && at + 1 == rows.len() {
                let events = count_text(unread.into());
                notes.push(format!(
                    "{events} more events do not say how many bytes of which device"
                ));
            }
            notes.join("; ")
        })
        .content(&rows, Top::All)
        .when_empty(when_empty(unread))
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

pub(in crate::sections) const MEMORY_PEAK: SectionDef = SectionDef {
    key: "memory-peak",
    title: "Memory at the peak",
    about: "who held the memory at the peak, by line and operator",
    shown: Shown::OnRequest,
    method: "memory_peak",
    content: |request| peak(&memory_peak(request.facts), request.unread_memory(), request.top),
};

fn peak(rows: &[MemoryPlace], unread: u64, top: Top) -> Content {
    Columns::<MemoryPlace>::new()
        .add(Column::text("device", "device"), |row| row.device.as_str().into())
        .add(Column::bytes("held", "held"), |row| row.bytes.into())
        .add(Column::percent("share", "of the peak"), |row| Cell::Share(row.bytes, row.of_bytes))
        .add(Column::count("allocations", "allocations"), |row| row.count.into())
        .add(Column::text("operator", "operator"), |row| row.operator.clone().into())
        .add(Column::text("line", "line"), |row| row.line.clone().into())
        .content(rows, top)
        .when_empty(when_empty(unread))
}

pub(in crate::sections) const MEMORY_CHURN: SectionDef = SectionDef {
    key: "memory-churn",
    title: "Memory asked for",
    about: "who asked for memory how often, by line and operator",
    shown: Shown::OnRequest,
    method: "memory_churn",
    content: |request| churn(&memory_churn(request.facts), request.unread_memory(), request.top),
};

fn churn(rows: &[MemoryPlace], unread: u64, top: Top) -> Content {
    let count = |row: &MemoryPlace| row.count.unwrap_or(0);
    Columns::<MemoryPlace>::new()
        .add(Column::text("device", "device"), |row| row.device.as_str().into())
        .add(Column::count("allocations", "allocations"), |row| row.count.into())
        .add(Column::bytes("allocated", "in all"), |row| row.bytes.into())
        .add(Column::percent("share", "of all"), |row| Cell::Share(row.bytes, row.of_bytes))
        .add(Column::bytes("mean", "mean").optional(), |row| {
            row.bytes.checked_div(count(row).into()).into()
        })
        .add(Column::hidden("short_lived", Unit::Count), |row| row.short_lived.into())
        .add(Column::percent("short_lived_share", "freed within 1 ms"), |row| {
            share(row.short_lived, count(row))
        })
        .add(Column::text("operator", "operator"), |row| row.operator.clone().into())
        .add(Column::text("line", "line"), |row| row.line.clone().into())
        .content(rows, top)
        .when_empty(when_empty(unread))
}

pub(in crate::sections) const MEMORY_TIMELINE: SectionDef = SectionDef {
    key: "memory-timeline",
    title: "Memory over time",
    about: "memory over time, the most in each of --top slices",
    shown: Shown::OnRequest,
    method: "memory_timeline",
    content: |request| {
        let slices = match request.top {
            Top::All => None,
            Top::First(slices) => Some(slices),
        };
        timeline(&memory_timeline(request.facts, slices), request.unread_memory())
    },
};

/// The most that was held in each slice of time.
fn timeline(rows: &[MemorySlice], unread: u64) -> Content {
    Columns::<MemorySlice>::new()
        .add(Column::text("device", "device"), |row| row.device.as_str().into())
        .add(Column::nanos("from", "from"), |row| row.from.into())
        .add(Column::nanos("to", "to"), |row| row.to.into())
        .add(Column::bytes("allocated", "allocated at most"), |row| row.allocated.into())
        .add(Column::bytes("reserved", "reserved at most"), |row| row.reserved.into())
        .add(Column::count("events", "events"), |row| row.events.into())
        .content(rows, Top::All)
        .when_empty(when_empty(unread))
}

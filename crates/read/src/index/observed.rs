//! Frames, stacks, samples and thread states in an index. A trace that was not observed from
//! outside has none of these tables: each one costs a file to open.

use std::sync::Arc;

use arrow_array::{Int32Array, Int64Array, UInt8Array, UInt16Array, UInt32Array, UInt64Array};
use spanwise_model::{
    Frames, Nanos, ObservedTables, SampleEvent, SampleEvents, Samples, Stacks, StrId, ThreadStates,
    Trace,
};

use super::tables::{NamedColumns, Table};

/// Stands for an interval that is not known.
const NO_INTERVAL: Nanos = -1;

/// The first of the tables: where it is missing, all are.
const FRAMES: &str = "frames";

pub(super) fn tables(trace: &Trace) -> Vec<(&'static str, NamedColumns)> {
    if trace.observed().is_empty() {
        return Vec::new();
    }
    vec![
        (FRAMES, frames_table(trace.frames())),
        ("stacks", stacks_table(trace.stacks())),
        ("sample_events", events_table(trace.sample_events())),
        ("samples", samples_table(trace.samples())),
        ("thread_states", states_table(trace.thread_states())),
    ]
}

/// Reads them back. `table` gives a table by its name, or `None` where there is none.
pub(super) fn read<'m>(
    table: impl Fn(&str) -> Result<Option<Table<'m>>, String>,
) -> Result<ObservedTables, String> {
    let Some(frames) = table(FRAMES)? else { return Ok(ObservedTables::default()) };
    let needed = |name: &str| table(name)?.ok_or_else(|| format!("it has no table {name}"));
    let (stacks, events) = (needed("stacks")?, needed("sample_events")?);
    let (samples, states) = (needed("samples")?, needed("thread_states")?);
    Ok(ObservedTables {
        frames: Frames {
            function: frames.column("function", 0)?,
            file: frames.column("file", 0)?,
            line: frames.column("line", 0)?,
            mapping: frames.column("mapping", 0)?,
            address: frames.column("address", 0)?,
            kind: frames.column("kind", 0)?,
            inlined: frames.column("inlined", 0)?,
        },
        stacks: Stacks { parent: stacks.column("parent", 0)?, frame: stacks.column("frame", 0)? },
        events: read_events(&events)?,
        samples: Samples {
            time: samples.column("time_ns", 0)?,
            track: samples.column("track", 0)?,
            cpu: samples.column("cpu", 0)?,
            stack: samples.column("stack", 0)?,
            event: samples.column("event", 0)?,
            weight: samples.column("weight", 0)?,
        },
        states: ThreadStates {
            start: states.column("start_ns", 0)?,
            dur: states.column("dur_ns", 0)?,
            track: states.column("track", 0)?,
            cpu: states.column("cpu", 0)?,
            state: states.column("state", 0)?,
            stack: states.column("stack", 0)?,
            waker: states.column("waker", 0)?,
            waker_stack: states.column("waker_stack", 0)?,
            lock: states.column("lock", 0)?,
            stand_in: states.column("stand_in", 0)?,
        },
    })
}

fn read_events(table: &Table<'_>) -> Result<SampleEvents, String> {
    let names = table.column::<u32>("name", 0)?;
    let units = table.column::<u32>("unit", 0)?;
    let intervals = table.column::<i64>("interval_ns", 0)?;
    let row = |row: usize| SampleEvent {
        name: StrId(names[row]),
        unit: StrId(units[row]),
        interval_ns: Some(intervals[row]).filter(|&interval| interval > 0),
    };
    Ok(SampleEvents::new((0..names.len()).map(row).collect()))
}

fn frames_table(frames: &Frames) -> NamedColumns {
    vec![
        ("function", Arc::new(UInt32Array::new(frames.function.clone(), None))),
        ("file", Arc::new(UInt32Array::new(frames.file.clone(), None))),
        ("line", Arc::new(UInt32Array::new(frames.line.clone(), None))),
        ("mapping", Arc::new(UInt32Array::new(frames.mapping.clone(), None))),
        ("address", Arc::new(UInt64Array::new(frames.address.clone(), None))),
        ("kind", Arc::new(UInt8Array::new(frames.kind.clone(), None))),
        ("inlined", Arc::new(UInt8Array::new(frames.inlined.clone(), None))),
    ]
}

fn stacks_table(stacks: &Stacks) -> NamedColumns {
    vec![
        ("parent", Arc::new(UInt32Array::new(stacks.parent.clone(), None))),
        ("frame", Arc::new(UInt32Array::new(stacks.frame.clone(), None))),
    ]
}

fn events_table(events: &SampleEvents) -> NamedColumns {
    let rows = events.rows();
    let name: UInt32Array = rows.iter().map(|row| Some(row.name.0)).collect();
    let unit: UInt32Array = rows.iter().map(|row| Some(row.unit.0)).collect();
    let intervals = rows.iter().map(|row| Some(row.interval_ns.unwrap_or(NO_INTERVAL)));
    let interval: Int64Array = intervals.collect();
    vec![("name", Arc::new(name)), ("unit", Arc::new(unit)), ("interval_ns", Arc::new(interval))]
}

fn samples_table(samples: &Samples) -> NamedColumns {
    vec![
        ("time_ns", Arc::new(Int64Array::new(samples.time.clone(), None))),
        ("track", Arc::new(UInt32Array::new(samples.track.clone(), None))),
        ("cpu", Arc::new(UInt16Array::new(samples.cpu.clone(), None))),
        ("stack", Arc::new(UInt32Array::new(samples.stack.clone(), None))),
        ("event", Arc::new(UInt16Array::new(samples.event.clone(), None))),
        ("weight", Arc::new(Int64Array::new(samples.weight.clone(), None))),
    ]
}

fn states_table(states: &ThreadStates) -> NamedColumns {
    vec![
        ("start_ns", Arc::new(Int64Array::new(states.start.clone(), None))),
        ("dur_ns", Arc::new(Int64Array::new(states.dur.clone(), None))),
        ("track", Arc::new(UInt32Array::new(states.track.clone(), None))),
        ("cpu", Arc::new(UInt16Array::new(states.cpu.clone(), None))),
        ("state", Arc::new(UInt16Array::new(states.state.clone(), None))),
        ("stack", Arc::new(UInt32Array::new(states.stack.clone(), None))),
        ("waker", Arc::new(UInt32Array::new(states.waker.clone(), None))),
        ("waker_stack", Arc::new(UInt32Array::new(states.waker_stack.clone(), None))),
        ("lock", Arc::new(UInt64Array::new(states.lock.clone(), None))),
        ("stand_in", Arc::new(Int32Array::new(states.stand_in.clone(), None))),
    ]
}

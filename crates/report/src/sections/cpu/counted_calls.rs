//! Calls that were counted instead of being recorded one by one.

use spanwise_analyze::{CountedCallsRow, counted_calls};
use spanwise_model::BrakedLevel;
use spanwise_write::{Column, Columns, Content, Top, Unit};

use crate::sections::{SectionDef, Shown};

pub(in crate::sections) const COUNTED_CALLS: SectionDef = SectionDef {
    key: "counted-calls",
    title: "Calls that were counted, not recorded",
    about: "calls that were counted instead of being recorded (run --calls), by function",
    shown: Shown::WhereRecorded,
    method: "counted_calls",
    content: |request| counted(&counted_calls(request.facts), request.top),
};

fn counted(rows: &[CountedCallsRow], top: Top) -> Content {
    let timed = |row: &CountedCallsRow| Some(row.timed).filter(|&timed| timed > 0);
    Columns::<CountedCallsRow>::new()
        .add(Column::count("calls", "calls").optional(), |row| row.calls.into())
        .add(Column::count("timed", "timed").optional(), move |row| timed(row).into())
        .add(Column::nanos("total", "total").optional(), move |row| {
            timed(row).map(|_| row.total_ns).into()
        })
        .add(Column::nanos("mean", "mean").optional(), move |row| {
            timed(row).map(|timed| row.total_ns / i128::from(timed)).into()
        })
        .add(Column::nanos("half_below", "half below").optional(), |row| row.half_below_ns.into())
        .add(Column::nanos("most_below", "99 % below").optional(), |row| row.most_below_ns.into())
        .add(Column::count("recorded_calls", "recorded before").optional(), |row| {
            row.braked.map(|(_, _, calls)| calls.saturating_sub(row.calls.unwrap_or(0))).into()
        })
        .add(Column::text("at_last", "at last"), |row| at_last(row).into())
        .add(Column::hidden("file", Unit::Text), |row| row.file.as_str().into())
        .add(Column::text("function", "function"), |row| row.function.as_str().into())
        .content(rows, top)
        .when_empty("no calls were counted instead of being recorded")
}

/// How calls were observed at the end of the recording.
fn at_last(row: &CountedCallsRow) -> &'static str {
    match row.braked {
        None | Some((BrakedLevel::Counted, ..)) => "counted",
        Some((BrakedLevel::CountedWithoutEnds, ..)) => "counted without ends",
        Some((BrakedLevel::Detached, ..)) => "not watched",
    }
}

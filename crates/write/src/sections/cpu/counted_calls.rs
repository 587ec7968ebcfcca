//! Calls that were counted instead of being recorded one by one.

use spanwise_analyze::CountedCallsRow;
use spanwise_model::BrakedLevel;

use crate::Top;
use crate::document::sectioned::Section;
use crate::document::table::{Cell, Column, Table, Unit};
use crate::sections::report::section;

pub fn counted_calls_section(rows: &[CountedCallsRow], top: Top) -> Section {
    let nanos = |key, title| Column::new(key, title, Unit::Nanos).optional();
    let mut table = Table::new([
        Column::new("calls", "calls", Unit::Count).optional(),
        Column::new("timed", "timed", Unit::Count).optional(),
        nanos("total", "total"),
        nanos("mean", "mean"),
        nanos("half_below", "half below"),
        nanos("most_below", "99 % below"),
        Column::new("recorded_calls", "recorded before", Unit::Count).optional(),
        Column::new("at_last", "at last", Unit::Text),
        Column::hidden("file", Unit::Text),
        Column::new("function", "function", Unit::Text),
    ]);
    for row in top.of(rows) {
        let has_lengths = row.timed > 0;
        let below = |ns: Option<u64>| Cell::from(ns.map(i128::from));
        let at_last = match row.braked {
            None | Some((BrakedLevel::Counted, ..)) => "counted",
            Some((BrakedLevel::CountedWithoutEnds, ..)) => "counted without ends",
            Some((BrakedLevel::Detached, ..)) => "not watched",
        };
        table.push([
            row.calls.into(),
            has_lengths.then_some(row.timed).into(),
            has_lengths.then_some(row.total_ns).into(),
            has_lengths.then(|| row.total_ns / i128::from(row.timed)).into(),
            below(row.half_below_ns),
            below(row.most_below_ns),
            row.braked.map(|(_, _, calls)| calls.saturating_sub(row.calls.unwrap_or(0))).into(),
            at_last.into(),
            row.file.as_str().into(),
            row.function.as_str().into(),
        ]);
    }
    let shown =
        section("counted-calls", "Calls that were counted, not recorded", table, rows.len());
    Section { when_empty: Some("no calls were counted instead of being recorded"), ..shown }
}

//! Two sides of a comparison, row by row.

use spanwise_analyze::{CompareRow, Comparison, Place, STEPS_MIN, SideTotals, Verdict};

use crate::Top;
use crate::document::{Document, Section};
use crate::report::section;
use crate::table::{Cell, Column, Table, Unit};

pub fn compare_document(comparison: &Comparison, top: Top) -> Document {
    let rows: Vec<&CompareRow> = comparison.rows.iter().collect();
    let sections = vec![
        sides_section(comparison),
        rows_section("step", "The whole step", &[&comparison.wall], Top::All),
        rows_section("changes", "What changed, time a step", &rows, top),
    ];
    Document { sections, hints: hints(comparison) }
}

fn hints(comparison: &Comparison) -> Vec<String> {
    let mut hints = Vec::new();
    let fewest = comparison.base.steps.min(comparison.other.steps);
    if fewest < STEPS_MIN as u64 {
        hints.push(format!(
            "One side has fewer than {STEPS_MIN} steps, so noise is not known and hardly anything \
             can be told: record more steps, or give several recordings a side."
        ));
    }
    if comparison.base.lacks_steps || comparison.other.lacks_steps {
        hints.push(
            "A trace without steps counts as one step: call profiler.step() in the loop."
                .to_owned(),
        );
    }
    hints
}

fn sides_section(comparison: &Comparison) -> Section {
    let mut table = Table::new([
        Column::new("side", "side", Unit::Text),
        Column::new("traces", "traces", Unit::Count),
        Column::new("steps", "steps", Unit::Count),
        Column::new("gpu", "GPU work", Unit::Nanos),
        Column::new("host", "host work", Unit::Nanos),
        Column::new("outside", "outside of steps", Unit::Nanos),
    ]);
    let mut push = |name: &str, side: &SideTotals| {
        table.push([
            name.into(),
            side.traces.into(),
            side.steps.into(),
            side.gpu_ns.into(),
            side.host_ns.into(),
            side.outside_ns.into(),
        ]);
    };
    push("base", &comparison.base);
    push("other", &comparison.other);
    section("sides", "Sides", table, 2)
}

fn rows_section(key: &'static str, title: &str, rows: &[&CompareRow], top: Top) -> Section {
    let mut table = Table::new([
        Column::new("verdict", "verdict", Unit::Status),
        Column::new("base_step", "base", Unit::Nanos),
        Column::new("other_step", "other", Unit::Nanos),
        Column::new("change", "change", Unit::Nanos),
        Column::new("change_share", "of base", Unit::Percent),
        Column::new("low", "at least", Unit::Nanos).optional(),
        Column::new("high", "at most", Unit::Nanos).optional(),
        Column::hidden("p_ppm", Unit::Count),
        Column::hidden("base_total", Unit::Nanos),
        Column::hidden("other_total", Unit::Nanos),
        Column::hidden("base_count", Unit::Count),
        Column::hidden("other_count", Unit::Count),
        Column::new("place", "on", Unit::Text),
        Column::new("key", "what", Unit::Text),
    ]);
    for row in top.of(rows) {
        let cells = [
            verdict_key(row.verdict).into(),
            row.base.step_ns().into(),
            row.other.step_ns().into(),
            row.change_ns().into(),
            match row.base.step_ns() {
                0 => Cell::None,
                base => Cell::Share(row.change_ns(), base),
            },
            row.interval_ns.map(|interval| interval.0).into(),
            row.interval_ns.map(|interval| interval.1).into(),
            row.p.map(|p| (p * 1e6).round() as i128).into(),
            row.base.total_ns.into(),
            row.other.total_ns.into(),
            row.base.count.into(),
            row.other.count.into(),
            match row.place {
                Some(Place::Gpu) => "GPU",
                Some(Place::Host) => "host",
                None => "",
            }
            .into(),
            row.key.as_str().into(),
        ];
        table.push(cells);
    }
    section(key, title, table, rows.len())
}

fn verdict_key(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Slower => "slower",
        Verdict::Faster => "faster",
        Verdict::Same => "same",
        Verdict::CannotTell => "cannot tell",
    }
}

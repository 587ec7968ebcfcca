//! What changed between two profiles, as tables.
//!
//! People see means by step where steps are compared; programs get the exact sums, how
//! many steps each side has, and changes whose key says that they are by step.

use std::collections::BTreeMap;

use spanwise_analyze::{FunctionDiff, ProfileDiff};
use spanwise_model::ValueType;

use crate::Top;
use crate::document::sectioned::{Body, Document, Section};
use crate::document::table::{Cell, Column, Table, Unit};
use crate::document::units::{count_text, rounded};
use crate::sections::overview::info::record;

/// One side of the comparison, as its user named it.
#[derive(Debug, Clone, Copy)]
pub struct DiffSide<'a> {
    pub file: &'a str,
    /// How many steps it has; 0 for none.
    pub steps: u64,
}

/// The comparison: what of what, and a row a function.
pub fn diff_document(
    sides: [DiffSide<'_>; 2],
    value: &ValueType,
    diff: &ProfileDiff,
    top: Top,
) -> Document {
    let sections = vec![summary_section(sides, value, diff), functions_section(value, diff, top)];
    Document { sections, hints: Vec::new() }
}

fn is_by_step(diff: &ProfileDiff) -> bool {
    diff.steps != [1, 1]
}

/// How values of a column are shown.
pub fn unit_of(value: &ValueType) -> Unit {
    match &*value.unit {
        "nanoseconds" => Unit::Nanos,
        "bytes" => Unit::Bytes,
        _ => Unit::Count,
    }
}

/// The change as a whole number, by step where steps are compared.
fn change(diff: &ProfileDiff, base: i128, other: i128) -> i128 {
    rounded(diff.change(base, other), diff.change_divisor(), 0)
}

/// The change as a share of the base's total.
fn share(diff: &ProfileDiff, base: i128, other: i128) -> (i128, i128) {
    let whole = diff.totals[0].saturating_mul(diff.steps[1].into());
    (diff.change(base, other), whole)
}

fn summary_section(
    [base, other]: [DiffSide<'_>; 2],
    value: &ValueType,
    diff: &ProfileDiff,
) -> Section {
    let unit = unit_of(value);
    let [base_total, other_total] = diff.totals;
    let compared = match (is_by_step(diff), base.steps, other.steps) {
        (true, base, other) => format!(
            "by step: {} in the base, {} in the other",
            count_text(base.into()),
            count_text(other.into())
        ),
        (false, 0, 0) => "as a whole".to_owned(),
        (false, 0, _) => "as a whole: the base has no steps".to_owned(),
        (false, _, 0) => "as a whole: the other has no steps".to_owned(),
        (false, base, other) => format!(
            "as a whole; steps: {} in the base, {} in the other",
            count_text(base.into()),
            count_text(other.into())
        ),
    };
    let (part, whole) = share(diff, base_total, other_total);
    let (base_title, other_title, change_key) = match is_by_step(diff) {
        true => ("base, a step", "other, a step", "change_per_step"),
        false => ("base total", "other total", "change"),
    };
    let [base_steps, other_steps] = diff.steps;
    let fields = vec![
        (Column::new("base_file", "base", Unit::Text), base.file.into()),
        (Column::new("other_file", "other", Unit::Text), other.file.into()),
        (Column::new("column", "column", Unit::Text), value.name.as_str().into()),
        (Column::hidden("unit", Unit::Text), value.unit.as_str().into()),
        (Column::new("compared", "compared", Unit::Text), compared.into()),
        (Column::hidden("is_per_step", Unit::Flag), Cell::Flag(is_by_step(diff))),
        (Column::hidden("base_steps", Unit::Count), base.steps.into()),
        (Column::hidden("other_steps", Unit::Count), other.steps.into()),
        (Column::new("base_total", base_title, unit), Cell::Mean(base_total, base_steps)),
        (Column::new("other_total", other_title, unit), Cell::Mean(other_total, other_steps)),
        (
            Column::new(change_key, "change", unit),
            Cell::Change(change(diff, base_total, other_total)),
        ),
        (Column::new("change_of_base", "of base", Unit::Percent), Cell::Share(part, whole)),
    ];
    let title = match is_by_step(diff) {
        true => format!("Change of {} a step", value.name),
        false => format!("Change of {}", value.name),
    };
    let body = Body::Record(record(fields));
    Section { key: "summary", title, body, when_empty: None, left_out: 0 }
}

fn functions_section(value: &ValueType, diff: &ProfileDiff, top: Top) -> Section {
    let unit = unit_of(value);
    let keys = match is_by_step(diff) {
        true => ["self_change_per_step", "total_change_per_step"],
        false => ["self_change", "total_change"],
    };
    let mut table = Table::new([
        Column::new(keys[0], "change", unit),
        Column::new("self_change_of_base", "of base", Unit::Percent),
        Column::new("base_self", "base self", unit),
        Column::new("other_self", "other self", unit),
        Column::hidden(keys[1], unit),
        Column::new("base_total", "base total", unit).optional(),
        Column::new("other_total", "other total", unit).optional(),
        Column::hidden("kind", Unit::Text),
        Column::hidden("name", Unit::Text),
        Column::hidden("file", Unit::Text),
        Column::hidden("base_line", Unit::Count),
        Column::hidden("other_line", Unit::Count),
        Column::new("label", "function", Unit::Text),
    ]);
    let mut label_counts: BTreeMap<&str, usize> = BTreeMap::new();
    for row in &diff.functions {
        *label_counts.entry(&row.label).or_default() += 1;
    }
    for row in top.of(&diff.functions) {
        // Files distinguish what has the same name.
        let label = match label_counts[&*row.label] > 1 && !row.file.is_empty() {
            true => format!("{} ({})", row.label, row.file),
            false => row.label.clone(),
        };
        table.push(function_row(diff, row, label));
    }
    let left_out = diff.functions.len() - table.rows().len();
    Section {
        key: "functions",
        title: format!("Functions by change of self {}", value.name),
        body: Body::Rows(table),
        when_empty: Some("neither profile has any"),
        left_out,
    }
}

fn function_row(diff: &ProfileDiff, row: &FunctionDiff, label: String) -> [Cell; 13] {
    let [base, other] = row.both();
    let (part, whole) = share(diff, base.self_sum, other.self_sum);
    let mean = |sum: Option<i128>, steps| sum.map_or(Cell::None, |sum| Cell::Mean(sum, steps));
    let [base_steps, other_steps] = diff.steps;
    [
        Cell::Change(change(diff, base.self_sum, other.self_sum)),
        Cell::Share(part, whole),
        mean(row.base.map(|spent| spent.self_sum), base_steps),
        mean(row.other.map(|spent| spent.self_sum), other_steps),
        Cell::Change(change(diff, base.total_sum, other.total_sum)),
        mean(row.base.map(|spent| spent.total_sum), base_steps),
        mean(row.other.map(|spent| spent.total_sum), other_steps),
        row.group.as_str().into(),
        row.name.as_str().into(),
        row.file.as_str().into(),
        row.base_line.into(),
        row.other_line.into(),
        label.into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::units::percent_text;

    #[test]
    fn percentages_of_a_change_are_of_the_base_a_step() {
        let functions = Vec::new();
        let diff = ProfileDiff { steps: [2, 3], totals: [100, 240], functions };
        let (part, whole) = share(&diff, 100, 240);
        // From 50 a step to 80 a step.
        assert_eq!(percent_text(part, whole), "60.0 %");
        assert_eq!(change(&diff, 100, 240), 30);
    }
}

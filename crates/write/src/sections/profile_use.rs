//! Where a profile spent what it counts, as sections of a report.

use std::collections::BTreeMap;

use spanwise_analyze::{FunctionUse, ProfileUse};
use spanwise_model::{Profile, SourceInfo, ValueType};

use crate::Top;
use crate::document::civil::utc_text;
use crate::document::sectioned::{Body, Document, Section};
use crate::document::table::{Cell, Column, Table, Unit};
use crate::sections::compare::diff::unit_of;
use crate::sections::overview::info::record;

/// What the profile is.
pub fn profile_section(file: &str, profile: &Profile) -> Section {
    let fields = profile_fields(file, profile);
    section("profile", "Profile".to_owned(), Body::Record(record(fields)))
}

/// What the file of a profile is, and what it counts.
pub fn profile_info_document(file: &str, info: &SourceInfo, profile: &Profile) -> Document {
    let text = |text: &str| if text.is_empty() { Cell::None } else { text.into() };
    let mut fields = profile_fields(file, profile);
    let comments = fields.pop();
    fields.insert(1, (Column::new("format", "format", Unit::Text), text(&info.format)));
    fields.extend([
        (Column::new("frames", "frames", Unit::Count), (profile.frames.len() as u64).into()),
        (Column::new("compression", "compression", Unit::Text), text(&info.compression)),
        (Column::new("text", "text", Unit::Bytes), info.text_bytes.into()),
    ]);
    fields.extend(comments);
    let about = section("profile", "Profile".to_owned(), Body::Record(record(fields)));
    let columns = columns_section(profile, profile.default_value);
    Document { sections: vec![about, columns], hints: Vec::new() }
}

fn profile_fields(file: &str, profile: &Profile) -> Vec<(Column, Cell)> {
    let recorded = profile.time_ns.map(|ns| utc_text(ns.into()));
    let duration = (profile.duration_ns > 0).then_some(profile.duration_ns);
    let comments = match profile.comments.join("; ") {
        text if text.is_empty() => Cell::None,
        text => text.into(),
    };
    let stacks = profile.stack_parents.len().saturating_sub(1) as u64;
    vec![
        (Column::new("file", "file", Unit::Text), file.into()),
        (Column::new("recorded", "recorded", Unit::Text), recorded.into()),
        (Column::new("duration", "duration", Unit::Nanos), duration.into()),
        (Column::new("samples", "samples", Unit::Count), (profile.samples.len() as u64).into()),
        (Column::new("stacks", "stacks", Unit::Count), stacks.into()),
        (Column::new("comments", "comments", Unit::Text), comments),
    ]
}

/// What the profile counts, and how much of each.
pub fn columns_section(profile: &Profile, shown: usize) -> Section {
    let mut table = Table::new([
        Column::new("name", "column", Unit::Text),
        Column::new("unit", "unit", Unit::Text),
        Column::new("total", "total", Unit::Count),
        Column::new("is_shown", "shown here", Unit::Flag),
    ]);
    for (at, (value, total)) in profile.value_types.iter().zip(profile.totals()).enumerate() {
        table.push([
            value.name.as_str().into(),
            value.unit.as_str().into(),
            Cell::Amount(total, unit_of(value)),
            Cell::Flag(at == shown),
        ]);
    }
    let section = section("columns", "What it counts".to_owned(), Body::Rows(table));
    Section { when_empty: Some("nothing"), ..section }
}

/// Functions by what they spent themselves.
pub fn profile_self_section(value: &ValueType, used: &ProfileUse, top: Top) -> Section {
    let rows: Vec<&FunctionUse> = used.functions.iter().collect();
    let title = format!("Functions by self {}", column_text(value));
    functions_section("functions", title, value, used, &rows, top)
}

/// Functions by what they and what they called spent.
pub fn profile_total_section(value: &ValueType, used: &ProfileUse, top: Top) -> Section {
    let title = format!("Functions by {} with what they called", column_text(value));
    let rows = used.functions_by_total();
    functions_section("functions-total", title, value, used, &rows, top)
}

fn functions_section(
    key: &'static str,
    title: String,
    value: &ValueType,
    used: &ProfileUse,
    rows: &[&FunctionUse],
    top: Top,
) -> Section {
    let unit = unit_of(value);
    let mut kind = Column::new("kind", "kind", Unit::Text).optional();
    kind.in_text = rows.iter().any(|row| !row.group.is_empty());
    let mut table = Table::new([
        Column::new("self", "self", unit),
        Column::new("self_share", "of all", Unit::Percent),
        Column::new("total", "total", unit),
        Column::new("total_share", "of all", Unit::Percent),
        kind,
        Column::hidden("name", Unit::Text),
        Column::hidden("file", Unit::Text),
        Column::hidden("line", Unit::Count),
        Column::new("label", "function", Unit::Text),
    ]);
    let mut label_counts: BTreeMap<&str, usize> = BTreeMap::new();
    for row in rows {
        *label_counts.entry(&row.label).or_default() += 1;
    }
    for row in top.of(rows) {
        // Files distinguish what has the same name.
        let label = match label_counts[&*row.label] > 1 && !row.file.is_empty() {
            true => format!("{} ({})", row.label, row.file),
            false => row.label.clone(),
        };
        table.push([
            row.sums.self_sum.into(),
            Cell::Share(row.sums.self_sum, used.total),
            row.sums.total_sum.into(),
            Cell::Share(row.sums.total_sum, used.total),
            row.group.as_str().into(),
            row.name.as_str().into(),
            row.file.as_str().into(),
            row.line.into(),
            label.into(),
        ]);
    }
    let left_out = rows.len() - table.rows().len();
    Section {
        left_out,
        when_empty: Some("the profile has none"),
        ..section(key, title, Body::Rows(table))
    }
}

/// What was spent under each value of each label; as many values of each as asked for.
pub fn profile_labels_section(value: &ValueType, used: &ProfileUse, top: Top) -> Section {
    let unit = unit_of(value);
    let mut table = Table::new([
        Column::new("label", "label", Unit::Text),
        Column::new("sum", "sum", unit),
        Column::new("share", "of all", Unit::Percent),
        Column::new("value", "value", Unit::Text),
    ]);
    let mut left_out = 0;
    for label in &used.labels {
        for (text, sum) in top.of(&label.values) {
            let text = text.as_deref().map_or(Cell::None, Into::into);
            table.push([
                label.key.as_str().into(),
                (*sum).into(),
                Cell::Share(*sum, used.total),
                text,
            ]);
        }
        left_out += label.values.len() - top.of(&label.values).len();
    }
    let title = format!("Labels by {}", column_text(value));
    Section { left_out, ..section("labels", title, Body::Rows(table)) }
}

/// The column's name, with the unit where values cannot show it.
fn column_text(value: &ValueType) -> String {
    match &*value.unit {
        "" | "count" | "nanoseconds" | "bytes" => value.name.clone(),
        unit => format!("{} ({unit})", value.name),
    }
}

fn section(key: &'static str, title: String, body: Body) -> Section {
    Section { key, title, body, when_empty: None, left_out: 0 }
}

//! What the file of a profile is, and what it counts.

use spanwise_model::{Profile, SourceInfo, ValueType};

use crate::Top;
use crate::document::civil::utc_text;
use crate::document::columns::{Columns, Content};
use crate::document::sectioned::Document;
use crate::document::table::{Cell, Column, Unit};
use crate::sections::compare::diff::unit_of;

pub fn profile_info_document(file: &str, info: &SourceInfo, profile: &Profile) -> Document {
    let text = |text: &str| if text.is_empty() { Cell::None } else { text.into() };
    let mut fields = profile_fields(file, profile);
    let comments = fields.pop();
    fields.insert(1, (Column::text("format", "format"), text(&info.format)));
    fields.extend([
        (Column::count("frames", "frames"), (profile.frames.len() as u64).into()),
        (Column::text("compression", "compression"), text(&info.compression)),
        (Column::bytes("text", "text"), info.text_bytes.into()),
    ]);
    fields.extend(comments);
    let about = Content::record(fields).section("profile", "Profile");
    let columns = columns_content(profile, profile.default_value);
    let columns = columns.section("columns", "What it counts");
    Document { sections: vec![about, columns], hints: Vec::new() }
}

/// What the profile is.
pub fn profile_fields(file: &str, profile: &Profile) -> Vec<(Column, Cell)> {
    let recorded = profile.time_ns.map(|ns| utc_text(ns.into()));
    let duration = (profile.duration_ns > 0).then_some(profile.duration_ns);
    let comments = match profile.comments.join("; ") {
        text if text.is_empty() => Cell::None,
        text => text.into(),
    };
    let stacks = profile.stack_parents.len().saturating_sub(1) as u64;
    vec![
        (Column::text("file", "file"), file.into()),
        (Column::text("recorded", "recorded"), recorded.into()),
        (Column::nanos("duration", "duration"), duration.into()),
        (Column::count("samples", "samples"), (profile.samples.len() as u64).into()),
        (Column::count("stacks", "stacks"), stacks.into()),
        (Column::text("comments", "comments"), comments),
    ]
}

/// A column of a profile.
struct ColumnRow<'a> {
    value: &'a ValueType,
    total: i128,
    is_shown: bool,
}

/// What the profile counts, and how much of each.
pub fn columns_content(profile: &Profile, shown: usize) -> Content {
    let values = profile.value_types.iter().zip(profile.totals()).enumerate();
    let rows: Vec<ColumnRow<'_>> = values
        .map(|(at, (value, total))| ColumnRow { value, total, is_shown: at == shown })
        .collect();
    Columns::<ColumnRow<'_>>::new()
        .add(Column::text("name", "column"), |row| row.value.name.as_str().into())
        .add(Column::text("unit", "unit"), |row| row.value.unit.as_str().into())
        .add(Column::count("total", "total"), |row| Cell::Amount(row.total, unit_of(row.value)))
        .add(Column::new("is_shown", "shown here", Unit::Flag), |row| Cell::Flag(row.is_shown))
        .content(&rows, Top::All)
        .when_empty("nothing")
}

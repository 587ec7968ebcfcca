//! What a profile counts, and which functions and labels it counted.

use std::collections::BTreeMap;

use spanwise_analyze::{FunctionUse, ProfileUse, profile_use};
use spanwise_model::{Profile, ValueType};
use spanwise_write::{
    Cell, Column, Columns, Content, Document, Top, Unit, profile_fields, unit_of,
};

use super::{SectionDef, Shown, Subject, named_sections};

/// What a report on a profile is to show.
pub struct ProfileRequest<'a> {
    /// As the user named it.
    pub file: &'a str,
    pub profile: &'a Profile,
    /// The column whose values are shown.
    pub value: usize,
    pub top: Top,
    /// The sections that were named; none for the usual ones.
    pub sections: &'a [String],
}

/// The request, and what was computed once for all sections.
pub struct ProfileAnswer<'a> {
    request: &'a ProfileRequest<'a>,
    used: ProfileUse,
}

impl ProfileAnswer<'_> {
    /// A profile need not have a column.
    fn value(&self) -> Option<&ValueType> {
        self.request.profile.value_types.get(self.request.value)
    }

    fn unit(&self) -> Unit {
        self.value().map_or(Unit::Count, unit_of)
    }

    /// The column's name, with the unit where values cannot show it.
    fn column_text(&self) -> String {
        let Some(value) = self.value() else { return "value".to_owned() };
        match &*value.unit {
            "" | "count" | "nanoseconds" | "bytes" => value.name.clone(),
            unit => format!("{} ({unit})", value.name),
        }
    }
}

/// One profile.
pub struct OneProfile;

impl Subject for OneProfile {
    type Request<'a> = ProfileAnswer<'a>;
}

type ProfileSection = SectionDef<OneProfile>;

/// All sections about a profile, in order of a report.
pub const PROFILE_SECTIONS: &[&ProfileSection] =
    &[&PROFILE, &COLUMNS, &FUNCTIONS, &FUNCTIONS_TOTAL, &LABELS];

/// The sections that are named, or all.
pub fn profile_report(request: &ProfileRequest<'_>) -> Document {
    let answer = ProfileAnswer { request, used: profile_use(request.profile, request.value) };
    let sections = named_sections(PROFILE_SECTIONS, &answer, request.sections);
    Document { sections, hints: Vec::new() }
}

const PROFILE: ProfileSection = SectionDef {
    key: "profile",
    title: "Profile",
    about: "what the profile is",
    shown: Shown::Always,
    method: "",
    content: |answer| Content::record(profile_fields(answer.request.file, answer.request.profile)),
};

const COLUMNS: ProfileSection = SectionDef {
    key: "columns",
    title: "What it counts",
    about: "what it counts, with totals",
    shown: Shown::Always,
    method: "",
    content: |answer| spanwise_write::columns_content(answer.request.profile, answer.request.value),
};

const FUNCTIONS: ProfileSection = SectionDef {
    key: "functions",
    title: "Functions by self value",
    about: "functions by self, in the column of --value",
    shown: Shown::Always,
    method: "",
    content: |answer| {
        let rows: Vec<&FunctionUse> = answer.used.functions.iter().collect();
        functions(answer, &rows).titled(format!("Functions by self {}", answer.column_text()))
    },
};

const FUNCTIONS_TOTAL: ProfileSection = SectionDef {
    key: "functions-total",
    title: "Functions by total value",
    about: "functions with what they called",
    shown: Shown::Always,
    method: "",
    content: |answer| {
        let title = format!("Functions by {} with what they called", answer.column_text());
        functions(answer, &answer.used.functions_by_total()).titled(title)
    },
};

fn functions(answer: &ProfileAnswer<'_>, rows: &[&FunctionUse]) -> Content {
    let (unit, whole) = (answer.unit(), answer.used.total);
    let has_kinds = rows.iter().any(|row| !row.group.is_empty());
    let mut label_counts: BTreeMap<&str, usize> = BTreeMap::new();
    for row in rows {
        *label_counts.entry(&row.label).or_default() += 1;
    }
    // Functions of one name are distinguished by their files.
    let label = |row: &&FunctionUse| match label_counts[&*row.label] > 1 && !row.file.is_empty() {
        true => format!("{} ({})", row.label, row.file),
        false => row.label.clone(),
    };
    Columns::<&FunctionUse>::new()
        .add(Column::new("self", "self", unit), |row| row.sums.self_sum.into())
        .add(Column::percent("self_share", "of all"), |row| Cell::Share(row.sums.self_sum, whole))
        .add(Column::new("total", "total", unit), |row| row.sums.total_sum.into())
        .add(Column::percent("total_share", "of all"), |row| Cell::Share(row.sums.total_sum, whole))
        .add(Column::text("kind", "kind").optional().in_text_if(has_kinds), |row| {
            row.group.as_str().into()
        })
        .add(Column::hidden("name", Unit::Text), |row| row.name.as_str().into())
        .add(Column::hidden("file", Unit::Text), |row| row.file.as_str().into())
        .add(Column::hidden("line", Unit::Count), |row| row.line.into())
        .add(Column::text("label", "function"), |row| label(row).into())
        .content(rows, answer.request.top)
        .when_empty("the profile has none")
}

const LABELS: ProfileSection = SectionDef {
    key: "labels",
    title: "Labels",
    about: "by thread, rank, phase and other labels",
    shown: Shown::Always,
    method: "",
    content: labels,
};

/// What was spent under one value of a label.
struct LabelRow<'a> {
    label: &'a str,
    value: Option<&'a str>,
    sum: i128,
}

/// As many values of each label as were asked for.
fn labels(answer: &ProfileAnswer<'_>) -> Content {
    let (top, whole) = (answer.request.top, answer.used.total);
    let mut rows = Vec::new();
    let mut left_out = 0;
    for label in &answer.used.labels {
        let shown = top.of(&label.values);
        left_out += label.values.len() - shown.len();
        rows.extend(shown.iter().map(|(value, sum)| LabelRow {
            label: label.key.as_str(),
            value: value.as_deref(),
            sum: *sum,
        }));
    }
    let content = Columns::<LabelRow<'_>>::new()
        .add(Column::text("label", "label"), |row| row.label.into())
        .add(Column::new("sum", "sum", answer.unit()), |row| row.sum.into())
        .add(Column::percent("share", "of all"), |row| Cell::Share(row.sum, whole))
        .add(Column::text("value", "value"), |row| row.value.map_or(Cell::None, Into::into))
        .content(&rows, Top::All)
        .titled(format!("Labels by {}", answer.column_text()));
    Content { left_out, ..content }
}

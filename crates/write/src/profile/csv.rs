//! A row per sample, for spreadsheets and data frames.
//!
//! The stack is one field, joined as in collapsed stacks. Each label is a column,
//! with its unit in the header where it has one, and so is each value.

use std::collections::BTreeMap;
use std::io::{self, Write as _};

use spanwise_model::{Label, LabelValue, Profile};

use super::folded::push_stack;
use super::root_first;
use crate::document::escape::write_csv_field;

/// RFC 4180, with a header; lines end in LF.
pub fn write_profile_csv(profile: &Profile, out: &mut dyn io::Write) -> io::Result<()> {
    let mut out = io::BufWriter::new(out);
    let columns = label_columns(profile);
    out.write_all(b"stack")?;
    for name in columns.keys() {
        out.write_all(b",")?;
        write_csv_field(name, &mut out)?;
    }
    for value_type in &profile.value_types {
        out.write_all(b",")?;
        write_csv_field(&header(&value_type.name, &value_type.unit), &mut out)?;
    }
    writeln!(out)?;
    let label_fields: Vec<String> = profile
        .label_sets
        .iter()
        .map(|labels| fields_of(profile, labels, &columns))
        .collect::<io::Result<_>>()?;
    let (mut frames, mut stack) = (Vec::new(), String::new());
    for (row, sample) in profile.samples.iter().enumerate() {
        root_first(profile, sample.stack, &mut frames);
        stack.clear();
        push_stack(profile, &frames, &mut stack);
        write_csv_field(&stack, &mut out)?;
        out.write_all(label_fields[sample.labels as usize].as_bytes())?;
        for value in profile.values_of(row) {
            write!(out, ",{value}")?;
        }
        writeln!(out)?;
    }
    out.flush()
}

/// The columns of all labels, by header; each with its place.
fn label_columns(profile: &Profile) -> BTreeMap<String, usize> {
    let labels = profile.label_sets.iter().flatten();
    let mut columns: BTreeMap<String, usize> =
        labels.map(|label| (label_header(profile, label), 0)).collect();
    for (place, column) in columns.values_mut().enumerate() {
        *column = place;
    }
    columns
}

fn label_header(profile: &Profile, label: &Label) -> String {
    match label.value {
        LabelValue::Text(_) => profile.text(label.key).to_owned(),
        LabelValue::Number { unit, .. } => header(profile.text(label.key), profile.text(unit)),
    }
}

/// The name with its unit, such as `wall_nanoseconds`.
fn header(name: &str, unit: &str) -> String {
    if unit.is_empty() || unit == name { name.to_owned() } else { format!("{name}_{unit}") }
}

/// The fields of a set of labels, a comma before each. Several values of one label
/// share its field.
fn fields_of(
    profile: &Profile,
    labels: &[Label],
    columns: &BTreeMap<String, usize>,
) -> io::Result<String> {
    let mut texts: Vec<Option<String>> = vec![None; columns.len()];
    for label in labels {
        let text = match label.value {
            LabelValue::Text(text) => profile.text(text).to_owned(),
            LabelValue::Number { value, .. } => value.to_string(),
        };
        let field = &mut texts[columns[&label_header(profile, label)]];
        *field = Some(match field.take() {
            Some(first) => format!("{first};{text}"),
            None => text,
        });
    }
    let mut fields = Vec::new();
    for text in texts {
        fields.push(b',');
        write_csv_field(&text.unwrap_or_default(), &mut fields)?;
    }
    Ok(String::from_utf8(fields).expect("text in, text out"))
}

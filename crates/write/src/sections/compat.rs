//! Tables in another tool's words.

use spanwise_analyze::{CompatTable, CompatValue};

use crate::Top;
use crate::document::sectioned::{Section, section};
use crate::document::table::{Cell, Column, Table, Unit};

pub fn compat_section(table: &CompatTable, top: Top) -> Section {
    let is_text =
        |at: usize| table.rows.iter().any(|row| matches!(row.get(at), Some(CompatValue::Text(_))));
    let columns = table.columns.iter().enumerate().map(|(at, &name)| {
        Column::new(name, name, if is_text(at) { Unit::Text } else { Unit::Count })
    });
    let mut shown = Table::new(columns.collect::<Vec<_>>());
    for row in top.of(&table.rows) {
        shown.push(row.iter().map(cell).collect::<Vec<_>>());
    }
    let title = match &table.left_out {
        None => table.title.to_owned(),
        Some(what) => format!("{}; {what}", table.title),
    };
    let section = section(table.key, &title, shown, table.rows.len());
    Section { when_empty: Some("nothing of the kind in this trace"), ..section }
}

fn cell(value: &CompatValue) -> Cell {
    match value {
        CompatValue::Text(text) => text.as_str().into(),
        CompatValue::Int(value) => (*value).into(),
        CompatValue::Float(value) if value.is_finite() => Cell::Decimal(decimal_text(*value)),
        CompatValue::Float(_) => Cell::None,
    }
}

/// Ten decimals at most, as the other tools write them down.
fn decimal_text(value: f64) -> String {
    let text = format!("{value:.10}");
    let short = text.trim_end_matches('0').trim_end_matches('.');
    if short == "-0" { "0".to_owned() } else { short.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(value: f64, expected: &str) {
        assert_eq!(decimal_text(value), expected);
    }

    #[test]
    fn decimals_end_where_they_say_nothing() {
        check(46910.0, "46910");
        check(0.5, "0.5");
        check(-0.0, "0");
        check(1.0 / 3.0, "0.3333333333");
        check(100.0, "100");
    }
}

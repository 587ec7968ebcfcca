//! The table of an answer as Arrow columns: one way for all answers, so that a new one needs
//! nothing here.
//!
//! Whole numbers stay whole: `int64`, or text where one is too long for that. Shares become
//! percentages, as in JSON; what is unknown is null.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::ArrowError;
use spanwise_write::{Cell, Table, Unit};

/// All rows of a table, under the keys that JSON has.
pub(in crate::trace) fn batch(table: &Table) -> Result<RecordBatch, ArrowError> {
    let columns = table.columns().iter().enumerate().map(|(place, column)| {
        let cells: Vec<&Cell> = table.rows().iter().map(|row| &row[place]).collect();
        (column.full_key(), array(&cells, column.unit))
    });
    RecordBatch::try_from_iter_with_nullable(columns.map(|(key, array)| (key, array, true)))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Type {
    Whole,
    Float,
    Flag,
    Text,
}

fn array(cells: &[&Cell], unit: Unit) -> ArrayRef {
    match type_of(cells, unit) {
        Type::Whole => Arc::new(cells.iter().map(|cell| whole(cell)).collect::<Int64Array>()),
        Type::Float => Arc::new(cells.iter().map(|cell| float(cell)).collect::<Float64Array>()),
        Type::Flag => Arc::new(cells.iter().map(|cell| flag(cell)).collect::<BooleanArray>()),
        Type::Text => Arc::new(cells.iter().map(|cell| text(cell)).collect::<StringArray>()),
    }
}

/// What the unit promises, unless a cell needs more.
fn type_of(cells: &[&Cell], unit: Unit) -> Type {
    let promised = match unit {
        Unit::Text | Unit::Status | Unit::Flag => Type::Text,
        Unit::Percent => Type::Float,
        Unit::Count | Unit::Nanos | Unit::Bytes => Type::Whole,
    };
    let known = cells.iter().filter_map(|cell| match cell {
        Cell::None => None,
        Cell::Text(_) => Some(Type::Text),
        Cell::Decimal(_) | Cell::Share(..) => Some(Type::Float),
        Cell::Flag(_) => Some(Type::Flag),
        Cell::Int(_) | Cell::Mean(..) | Cell::Amount(..) | Cell::Change(_) => {
            Some(if whole(cell).is_some() { Type::Whole } else { Type::Text })
        }
    });
    let needed = known.fold(None, |sofar, next| match sofar {
        None => Some(next),
        Some(same) if same == next => Some(same),
        Some(Type::Whole | Type::Float) if matches!(next, Type::Whole | Type::Float) => {
            Some(Type::Float)
        }
        Some(_) => Some(Type::Text),
    });
    match (promised, needed) {
        (promised, None) => promised,
        (Type::Float, Some(Type::Whole)) => Type::Float,
        (_, Some(needed)) => needed,
    }
}

fn whole(cell: &Cell) -> Option<i64> {
    match cell {
        Cell::Int(value) | Cell::Mean(value, _) | Cell::Amount(value, _) | Cell::Change(value) => {
            i64::try_from(*value).ok()
        }
        _ => None,
    }
}

fn float(cell: &Cell) -> Option<f64> {
    match cell {
        Cell::Decimal(digits) => digits.parse().ok(),
        Cell::Share(_, 0) => None,
        Cell::Share(part, whole) => Some(*part as f64 * 100.0 / *whole as f64),
        cell => whole(cell).map(|value| value as f64),
    }
}

fn flag(cell: &Cell) -> Option<bool> {
    match cell {
        Cell::Flag(value) => Some(*value),
        _ => None,
    }
}

fn text(cell: &Cell) -> Option<String> {
    match cell {
        Cell::None => None,
        Cell::Text(text) | Cell::Decimal(text) => Some(text.clone()),
        Cell::Int(value) | Cell::Mean(value, _) | Cell::Amount(value, _) | Cell::Change(value) => {
            Some(value.to_string())
        }
        Cell::Flag(value) => Some(value.to_string()),
        Cell::Share(..) => float(cell).map(|percent| percent.to_string()),
    }
}

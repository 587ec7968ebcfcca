//! Tables of many files one under the other.
//!
//! Columns are put together by name; one that a table lacks is unknown there. Answers type their
//! columns by what is in them, so where files differ the wider type wins: whole numbers become
//! numbers with decimals, anything else text. Texts of dictionary columns stand once in the
//! result, in the order in which they are first used.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, UInt16Type, UInt32Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, Float64Array, Int64Array, RecordBatch,
    StringArray, UInt32Array,
};
use arrow_schema::{ArrowError, DataType};
use pyo3::prelude::*;

use crate::trace::tables::table::{Table, of_arrow};

/// Tables one under the other, in order.
#[pyfunction]
pub(crate) fn concat_tables(tables: Vec<Py<Table>>) -> PyResult<Table> {
    let batches: Vec<&RecordBatch> = tables.iter().map(|table| table.get().batch()).collect();
    let title = tables.first().map_or("", |table| table.get().about());
    Ok(Table::titled(concat(&batches).map_err(of_arrow)?, title, 0))
}

/// A table with columns before its own that say the same in each row; they replace columns of
/// the same name.
pub(in crate::trace) fn with_constants(
    batch: &RecordBatch,
    constants: &[(&str, ArrayRef)],
) -> Result<RecordBatch, ArrowError> {
    let schema = batch.schema();
    let repeated = constants.iter().map(|(name, value)| ((*name).to_owned(), Arc::clone(value)));
    let mut columns: Vec<(String, ArrayRef)> = repeated.collect();
    for (field, column) in schema.fields().iter().zip(batch.columns()) {
        if !constants.iter().any(|(name, _)| *name == field.name()) {
            columns.push((field.name().clone(), Arc::clone(column)));
        }
    }
    RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, column)| (name, column, true)),
    )
}

pub(in crate::trace) fn concat(batches: &[&RecordBatch]) -> Result<RecordBatch, ArrowError> {
    let mut names: Vec<String> = Vec::new();
    for batch in batches {
        for field in batch.schema().fields() {
            if !names.contains(field.name()) {
                names.push(field.name().clone());
            }
        }
    }
    let column = |name: &String| {
        let part = |batch: &&RecordBatch| match batch.column_by_name(name) {
            Some(column) => Part::Of(Arc::clone(column)),
            None => Part::Unknown(batch.num_rows()),
        };
        (name.clone(), joined(&batches.iter().map(part).collect::<Vec<_>>()), true)
    };
    match names.is_empty() {
        true => Ok(RecordBatch::new_empty(Arc::new(arrow_schema::Schema::empty()))),
        false => RecordBatch::try_from_iter_with_nullable(names.iter().map(column)),
    }
}

/// What one table has of a column: values, or that many unknown ones.
enum Part {
    Of(ArrayRef),
    Unknown(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Joined {
    Whole,
    Float,
    Flag,
    Text,
    Coded,
}

fn type_of(array: &ArrayRef) -> Joined {
    match array.data_type() {
        DataType::Int64 => Joined::Whole,
        DataType::Float64 => Joined::Float,
        DataType::Boolean => Joined::Flag,
        DataType::Dictionary(..) => Joined::Coded,
        _ => Joined::Text,
    }
}

/// The type that holds all parts; one without a known value has no say where others have.
fn common_type(parts: &[Part]) -> Joined {
    let arrays = parts.iter().filter_map(|part| match part {
        Part::Of(array) => Some(array),
        Part::Unknown(_) => None,
    });
    let known = arrays.clone().filter(|array| array.null_count() < array.len());
    let wider = |one: Joined, other: Joined| match (one, other) {
        (one, other) if one == other => one,
        (Joined::Whole | Joined::Float, Joined::Whole | Joined::Float) => Joined::Float,
        _ => Joined::Text,
    };
    let first = arrays.map(type_of).next();
    known.map(type_of).reduce(wider).or(first).unwrap_or(Joined::Text)
}

fn joined(parts: &[Part]) -> ArrayRef {
    match common_type(parts) {
        Joined::Whole => Arc::new(values(parts, whole).collect::<Int64Array>()),
        Joined::Float => Arc::new(values(parts, float).collect::<Float64Array>()),
        Joined::Flag => Arc::new(values(parts, flag).collect::<BooleanArray>()),
        Joined::Text => Arc::new(values(parts, any_text).collect::<StringArray>()),
        Joined::Coded => coded(parts),
    }
}

fn values<'p, T: 'p>(
    parts: &'p [Part],
    value: fn(&ArrayRef, usize) -> Option<T>,
) -> impl Iterator<Item = Option<T>> + 'p {
    parts.iter().flat_map(move |part| {
        let (array, rows) = match part {
            Part::Of(array) => (Some(array), array.len()),
            Part::Unknown(rows) => (None, *rows),
        };
        (0..rows).map(move |row| value(array.filter(|array| !array.is_null(row))?, row))
    })
}

fn whole(array: &ArrayRef, row: usize) -> Option<i64> {
    Some(array.as_primitive_opt::<Int64Type>()?.value(row))
}

fn float(array: &ArrayRef, row: usize) -> Option<f64> {
    match array.as_primitive_opt::<Float64Type>() {
        Some(floats) => Some(floats.value(row)),
        None => whole(array, row).map(|value| value as f64),
    }
}

fn flag(array: &ArrayRef, row: usize) -> Option<bool> {
    Some(array.as_boolean_opt()?.value(row))
}

fn any_text(array: &ArrayRef, row: usize) -> Option<String> {
    let number = || match type_of(array) {
        Joined::Whole => whole(array, row).map(|value| value.to_string()),
        Joined::Float => float(array, row).map(|value| value.to_string()),
        _ => flag(array, row).map(|value| value.to_string()),
    };
    text(array, row).map(str::to_owned).or_else(number)
}

/// The text of a row of a column of texts, by number or not.
pub(in crate::trace) fn text(array: &ArrayRef, row: usize) -> Option<&str> {
    if array.is_null(row) {
        return None;
    }
    if let Some(texts) = array.as_string_opt::<i32>() {
        return Some(texts.value(row));
    }
    let (values, key) = match array.as_any_dictionary_opt() {
        Some(_) if array.data_type() == &dictionary(DataType::UInt16) => {
            let coded = array.as_dictionary::<UInt16Type>();
            (coded.values(), usize::from(coded.keys().value(row)))
        }
        Some(_) if array.data_type() == &dictionary(DataType::UInt32) => {
            let coded = array.as_dictionary::<UInt32Type>();
            (coded.values(), coded.keys().value(row) as usize)
        }
        _ => return None,
    };
    Some(values.as_string_opt::<i32>()?.value(key))
}

fn dictionary(key: DataType) -> DataType {
    DataType::Dictionary(Box::new(key), Box::new(DataType::Utf8))
}

fn coded(parts: &[Part]) -> ArrayRef {
    let mut numbers: HashMap<&str, u32> = HashMap::new();
    let mut texts: Vec<&str> = Vec::new();
    let mut keys: Vec<Option<u32>> = Vec::new();
    for part in parts {
        let array = match part {
            Part::Of(array) => array,
            Part::Unknown(rows) => {
                keys.extend(std::iter::repeat_n(None, *rows));
                continue;
            }
        };
        keys.extend((0..array.len()).map(|row| {
            let text = text(array, row)?;
            Some(*numbers.entry(text).or_insert_with(|| {
                texts.push(text);
                texts.len() as u32 - 1
            }))
        }));
    }
    let values = Arc::new(StringArray::from_iter_values(texts));
    // SAFETY: each key is the place of a text that was pushed before.
    Arc::new(unsafe {
        DictionaryArray::<UInt32Type>::new_unchecked(UInt32Array::from(keys), values)
    })
}

//! Tables made of something else: of Python's values, or of the bytes that another process sent.

use std::io::Cursor;
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::ArrowError;
use pyo3::prelude::*;

use crate::trace::error::asked;
use crate::trace::tables::concat::concat;
use crate::trace::tables::table::{Table, of_arrow};

pub(in crate::trace) fn to_ipc(batch: &RecordBatch) -> Result<Vec<u8>, ArrowError> {
    let mut out = Vec::new();
    let mut writer = StreamWriter::try_new(&mut out, &batch.schema())?;
    writer.write(batch)?;
    writer.finish()?;
    drop(writer);
    Ok(out)
}

/// The table of a stream that `Table.to_ipc` wrote.
#[pyfunction]
#[pyo3(signature = (data, title = "", left_out = 0))]
pub(crate) fn table_from_ipc(data: &[u8], title: &str, left_out: usize) -> PyResult<Table> {
    let read = || -> Result<RecordBatch, ArrowError> {
        let reader = StreamReader::try_new(Cursor::new(data), None)?;
        let schema = reader.schema();
        let mut batches = reader.collect::<Result<Vec<RecordBatch>, ArrowError>>()?;
        match batches.len() {
            0 => Ok(RecordBatch::new_empty(schema)),
            1 => Ok(batches.remove(0)),
            _ => concat(&batches.iter().collect::<Vec<_>>()),
        }
    };
    let not = |error: ArrowError| asked(&format!("not a table: {error}"));
    Ok(Table::titled(read().map_err(not)?, title, left_out))
}

/// A table of columns: name, type ("int64", "double", "bool" or "string"), values.
#[pyfunction]
#[pyo3(signature = (columns, title = ""))]
pub(crate) fn make_table(
    columns: Vec<(String, String, Bound<'_, PyAny>)>,
    title: &str,
) -> PyResult<Table> {
    let mut made: Vec<(String, ArrayRef, bool)> = Vec::new();
    for (name, wanted, values) in columns {
        let array: ArrayRef = match wanted.as_str() {
            "int64" => Arc::new(Int64Array::from(values.extract::<Vec<Option<i64>>>()?)),
            "double" => Arc::new(Float64Array::from(values.extract::<Vec<Option<f64>>>()?)),
            "bool" => Arc::new(BooleanArray::from(values.extract::<Vec<Option<bool>>>()?)),
            "string" => Arc::new(StringArray::from(values.extract::<Vec<Option<String>>>()?)),
            _ => return Err(asked(&format!("{name}: no type {wanted}"))),
        };
        made.push((name, array, true));
    }
    let batch = RecordBatch::try_from_iter_with_nullable(made).map_err(of_arrow)?;
    Ok(Table::titled(batch, title, 0))
}

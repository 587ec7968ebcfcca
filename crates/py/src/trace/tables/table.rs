//! A table in Python: columns that other libraries take as they are, by Arrow's interface of
//! PyCapsules.

use std::ffi::CStr;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::{UInt16Type, UInt32Type};
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchIterator, StructArray};
use arrow_schema::{ArrowError, DataType};
use pyo3::exceptions::{PyIndexError, PyKeyError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyList};

use crate::trace::tables::made::to_ipc;
use crate::trace::tables::values::value;

const SCHEMA: &CStr = c"arrow_schema";
const ARRAY: &CStr = c"arrow_array";
const STREAM: &CStr = c"arrow_array_stream";

/// Columns of one length. What it holds never changes.
#[pyclass(frozen, module = "spanwise._native")]
pub(crate) struct Table {
    batch: RecordBatch,
    /// What the table is about, for people; empty for the tables of a trace.
    #[pyo3(get)]
    title: String,
    /// Rows that a limit has left out.
    #[pyo3(get)]
    left_out: usize,
}

impl Table {
    pub(in crate::trace) fn new(batch: RecordBatch) -> Self {
        Table { batch, title: String::new(), left_out: 0 }
    }

    pub(in crate::trace) fn titled(batch: RecordBatch, title: &str, left_out: usize) -> Self {
        Table { batch, title: title.to_owned(), left_out }
    }

    pub(in crate::trace) fn batch(&self) -> &RecordBatch {
        &self.batch
    }

    pub(in crate::trace) fn about(&self) -> &str {
        &self.title
    }
}

pub(in crate::trace) fn of_arrow(error: ArrowError) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}

#[pymethods]
impl Table {
    fn __len__(&self) -> usize {
        self.batch.num_rows()
    }

    /// The names of the columns, in order.
    fn names(&self) -> Vec<String> {
        self.batch.schema().fields().iter().map(|field| field.name().clone()).collect()
    }

    /// The types of the columns, as Arrow names them.
    fn types(&self) -> Vec<String> {
        self.batch.columns().iter().map(|column| type_text(column.data_type())).collect()
    }

    /// One column alone, as a table.
    fn select(&self, name: &str) -> PyResult<Table> {
        let place = self.batch.schema().index_of(name);
        let place = place.map_err(|_| PyKeyError::new_err(name.to_owned()))?;
        self.batch.project(&[place]).map(Table::new).map_err(of_arrow)
    }

    /// Rows from one on, nothing copied.
    fn slice(&self, start: usize, rows: usize) -> PyResult<Table> {
        let all = self.batch.num_rows();
        if start > all {
            return Err(PyIndexError::new_err(format!("row {start} of {all}")));
        }
        Ok(Table::new(self.batch.slice(start, rows.min(all - start))))
    }

    /// The same with the numbers of dictionary columns in the place of their texts; for
    /// libraries that would otherwise build dictionaries of their own.
    fn codes(&self) -> PyResult<Table> {
        let schema = self.batch.schema();
        let columns = schema.fields().iter().zip(self.batch.columns());
        let columns = columns.map(|(field, column)| (field.name(), numbers(column)));
        RecordBatch::try_from_iter(columns).map(Table::new).map_err(of_arrow)
    }

    /// The texts of a dictionary column, nothing copied; nothing where a column has none.
    fn dictionary(&self, name: &str) -> PyResult<Option<Table>> {
        let column = self.batch.column_by_name(name);
        let column = column.ok_or_else(|| PyKeyError::new_err(name.to_owned()))?;
        let Some(column) = column.as_any_dictionary_opt() else { return Ok(None) };
        let texts = [("text", Arc::clone(column.values()))];
        RecordBatch::try_from_iter(texts).map(|batch| Some(Table::new(batch))).map_err(of_arrow)
    }

    /// The values of a column as Python objects.
    fn values<'py>(&self, py: Python<'py>, column: usize) -> PyResult<Bound<'py, PyList>> {
        let array = self.batch.columns().get(column);
        let array = array.ok_or_else(|| PyIndexError::new_err(format!("no column {column}")))?;
        let values = (0..array.len()).map(|row| value(py, array, row));
        PyList::new(py, values.collect::<PyResult<Vec<_>>>()?)
    }

    /// The table as a stream of Arrow's IPC format, for other processes; the same table gives the
    /// same bytes.
    fn to_ipc<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &to_ipc(&self.batch).map_err(of_arrow)?))
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.batch.schema().as_ref()).map_err(of_arrow)?;
        PyCapsule::new_with_value(py, schema, SCHEMA)
    }

    /// A consumer may wish for another schema; Arrow's interface lets us give our own.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        let _ = requested_schema;
        let array = FFI_ArrowArray::new(&StructArray::from(self.batch.clone()).into_data());
        Ok((self.__arrow_c_schema__(py)?, PyCapsule::new_with_value(py, array, ARRAY)?))
    }

    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let batches = [Ok(self.batch.clone())];
        let reader = RecordBatchIterator::new(batches, self.batch.schema());
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(reader)), STREAM)
    }
}

/// The keys of a dictionary column; any other column as it is.
fn numbers(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Dictionary(key, _) if **key == DataType::UInt32 => {
            Arc::new(column.as_dictionary::<UInt32Type>().keys().clone())
        }
        DataType::Dictionary(key, _) if **key == DataType::UInt16 => {
            Arc::new(column.as_dictionary::<UInt16Type>().keys().clone())
        }
        _ => Arc::clone(column),
    }
}

fn type_text(data_type: &DataType) -> String {
    match data_type {
        DataType::Dictionary(_, values) => type_text(values),
        DataType::Utf8 => "string".to_owned(),
        DataType::Float64 => "double".to_owned(),
        DataType::Boolean => "bool".to_owned(),
        other => other.to_string().to_lowercase(),
    }
}

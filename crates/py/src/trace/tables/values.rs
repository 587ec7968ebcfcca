//! One value of a column as a Python object.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

/// `None` where it is not known.
pub(in crate::trace) fn value<'py>(
    py: Python<'py>,
    array: &ArrayRef,
    row: usize,
) -> PyResult<Bound<'py, PyAny>> {
    if array.is_null(row) {
        return Ok(py.None().into_bound(py));
    }
    match array.data_type() {
        DataType::Int64 => array.as_primitive::<Int64Type>().value(row).into_bound_py_any(py),
        DataType::UInt32 => array.as_primitive::<UInt32Type>().value(row).into_bound_py_any(py),
        DataType::UInt16 => array.as_primitive::<UInt16Type>().value(row).into_bound_py_any(py),
        DataType::UInt64 => array.as_primitive::<UInt64Type>().value(row).into_bound_py_any(py),
        DataType::Float64 => array.as_primitive::<Float64Type>().value(row).into_bound_py_any(py),
        DataType::Boolean => array.as_boolean().value(row).into_bound_py_any(py),
        DataType::Utf8 => array.as_string::<i32>().value(row).into_bound_py_any(py),
        DataType::Dictionary(key, _) => {
            let (values, key) = match **key {
                DataType::UInt32 => {
                    let coded = array.as_dictionary::<UInt32Type>();
                    (coded.values(), coded.keys().value(row) as usize)
                }
                DataType::UInt16 => {
                    let coded = array.as_dictionary::<UInt16Type>();
                    (coded.values(), usize::from(coded.keys().value(row)))
                }
                _ => return Err(unknown(array)),
            };
            value(py, values, key)
        }
        _ => Err(unknown(array)),
    }
}

fn unknown(array: &ArrayRef) -> PyErr {
    PyTypeError::new_err(format!("a column of type {}", array.data_type()))
}

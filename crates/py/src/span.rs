//! `with span:` as a raw type: entering and leaving are two calls without tuples.
//!
//! One object serves any number of threads and of uses within each other: what is open is kept
//! by each thread.

use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::ptr;

use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::{hot, target};

#[repr(C)]
struct SpanObject {
    base: ffi::PyObject,
    site: u64,
    level: u8,
}

thread_local! {
    /// What is open, by the address of its object; nothing where nothing was recorded.
    static OPEN: RefCell<Vec<(usize, Option<hot::Open>)>> = const { RefCell::new(Vec::new()) };
}

unsafe extern "C" fn enter(
    object: *mut ffi::PyObject,
    _arguments: *mut *mut ffi::PyObject,
    _count: ffi::Py_ssize_t,
) -> *mut ffi::PyObject {
    // SAFETY: only spans have this method, and Python holds the object.
    unsafe {
        let is_on = hot::is_on((*object.cast::<SpanObject>()).level);
        let open = if is_on { hot::begin() } else { None };
        OPEN.with(|spans| spans.borrow_mut().push((object as usize, open)));
        ffi::Py_INCREF(object);
    }
    object
}

unsafe extern "C" fn exit(
    object: *mut ffi::PyObject,
    arguments: *mut *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
) -> *mut ffi::PyObject {
    let open = OPEN.with(|spans| {
        let mut spans = spans.borrow_mut();
        // Tasks that take turns on a thread do not leave in the order of entering.
        let place = spans.iter().rposition(|row| row.0 == object as usize)?;
        spans.remove(place).1
    });
    // SAFETY: only spans have this method; so many arguments are there as it is told.
    unsafe {
        if let Some(open) = open {
            let site = (*object.cast::<SpanObject>()).site;
            if count > 0 && *arguments != ffi::Py_None() {
                let name = target::type_name(*arguments);
                hot::end(open, site, name.map(|name| hot::exception_site(&name)));
            } else {
                hot::end(open, site, None);
            }
        }
        let none = ffi::Py_None();
        ffi::Py_INCREF(none);
        none
    }
}

unsafe extern "C" fn free(object: *mut ffi::PyObject) {
    // SAFETY: nobody holds the object any more; its type is a heap type and counted.
    unsafe {
        let class = ffi::Py_TYPE(object);
        ffi::PyObject_Free(object.cast());
        ffi::Py_DECREF(class.cast());
    }
}

/// The type, made once for the module.
pub(crate) fn make_type(py: Python<'_>) -> PyResult<Py<PyAny>> {
    let method = |name: &'static std::ffi::CStr, function| ffi::PyMethodDef {
        ml_name: name.as_ptr(),
        ml_meth: ffi::PyMethodDefPointer { PyCFunctionFast: function },
        ml_flags: ffi::METH_FASTCALL,
        ml_doc: ptr::null(),
    };
    let methods = Box::leak(Box::new([
        method(c"__enter__", enter),
        method(c"__exit__", exit),
        ffi::PyMethodDef::zeroed(),
    ]));
    let slot = |slot: c_int, pfunc: *mut c_void| ffi::PyType_Slot { slot, pfunc };
    let mut slots = [
        slot(ffi::Py_tp_methods, methods.as_mut_ptr().cast()),
        slot(ffi::Py_tp_dealloc, free as *mut c_void),
        slot(0, ptr::null_mut()),
    ];
    let mut spec = ffi::PyType_Spec {
        name: c"spanwise._native.Span".as_ptr(),
        basicsize: size_of::<SpanObject>() as c_int,
        itemsize: 0,
        flags: ffi::Py_TPFLAGS_DEFAULT as std::ffi::c_uint,
        slots: slots.as_mut_ptr(),
    };
    // SAFETY: the description is whole, and what it points to is leaked or copied.
    unsafe {
        let made = ffi::PyType_FromSpec(&raw mut spec);
        Bound::from_owned_ptr_or_err(py, made).map(Bound::unbind)
    }
}

pub(crate) fn make(class: &Bound<'_, PyAny>, site: u32, level: u8) -> PyResult<Py<PyAny>> {
    let py = class.py();
    // SAFETY: the object is new and every field is set before anyone sees it.
    unsafe {
        let object = ffi::PyType_GenericAlloc(class.as_ptr().cast(), 0);
        if object.is_null() {
            return Err(PyErr::take(py).unwrap_or_else(|| PyRuntimeError::new_err("no memory")));
        }
        let span = object.cast::<SpanObject>();
        (*span).site = u64::from(site);
        (*span).level = level;
        Ok(Bound::from_owned_ptr(py, object).unbind())
    }
}

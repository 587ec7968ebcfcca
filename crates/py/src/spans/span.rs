//! `with span:` as a raw type: entering and leaving are two calls that make no object.
//!
//! Python looks `__enter__` and `__exit__` up before each block and binds them, two objects a
//! block. Here both are descriptors that give the span itself, which is called without
//! arguments to enter and with three to leave: 40 ns less.
//!
//! One object serves any number of threads and of uses within each other: what is open is kept
//! by each thread.

use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;
use spanwise_probe::raw;

use crate::calls::target;
use crate::calls::watch;
use crate::spans::record_call;
use crate::sums::tally::{self, Tally, Timed};

#[repr(C)]
struct SpanObject {
    base: ffi::PyObject,
    vectorcall: ffi::vectorcallfunc,
    tally: *mut Tally,
    level: u8,
}

/// A block that has begun.
enum Block {
    /// Nothing is recorded of it.
    Unseen,
    Row(record_call::Open),
    Watched(record_call::Open, watch::Around),
    Summed(Timed),
}

thread_local! {
    /// What is open, by the address of its object.
    static OPEN: RefCell<Vec<(usize, Block)>> = const { RefCell::new(Vec::new()) };
}

/// Enters without arguments; leaves with the type of what was raised, its value and its trace.
unsafe extern "C" fn call(
    object: *mut ffi::PyObject,
    arguments: *const *mut ffi::PyObject,
    count: usize,
    _keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: only spans have this function; Python holds the object and the arguments.
    unsafe {
        match ffi::PyVectorcall_NARGS(count) {
            0 => enter(object),
            3 => exit(object, *arguments),
            _ => {
                let message = c"a span is for `with`";
                ffi::PyErr_SetString(ffi::PyExc_TypeError, message.as_ptr());
                ptr::null_mut()
            }
        }
    }
}

#[inline(always)]
unsafe fn enter(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: a span that Python holds.
    unsafe {
        let span = object.cast::<SpanObject>();
        let block =
            if record_call::is_on((*span).level) { begin((*span).tally) } else { Block::Unseen };
        OPEN.with(|spans| spans.borrow_mut().push((object as usize, block)));
        ffi::Py_INCREF(object);
    }
    object
}

#[inline(always)]
unsafe fn begin(tally: *mut Tally) -> Block {
    // SAFETY: tallies are never freed, and the interpreter's lock is held.
    unsafe {
        let here = raw::here_under_lock();
        (*tally).calls += 1;
        if (*tally).mode == tally::WATCHED {
            return begin_watched(tally);
        }
        if (*tally).mode <= tally::ROWS {
            return record_call::begin(here, &*tally).map_or(Block::Unseen, Block::Row);
        }
        if !(*tally).is_timed() {
            return Block::Unseen;
        }
        Block::Summed((*tally).begin(here, record_call::state_for_sums(here)))
    }
}

#[cold]
unsafe fn begin_watched(tally: *mut Tally) -> Block {
    // SAFETY: tallies are never freed, and the interpreter's lock is held; no reference is kept
    // while Python code runs.
    unsafe {
        let around = watch::before((*tally).site);
        match record_call::begin(raw::here_under_lock(), &*tally) {
            Some(open) => Block::Watched(open, around),
            None => {
                around.end();
                Block::Unseen
            }
        }
    }
}

#[inline(always)]
unsafe fn exit(object: *mut ffi::PyObject, raised: *mut ffi::PyObject) -> *mut ffi::PyObject {
    let block = OPEN.with(|spans| {
        let mut spans = spans.borrow_mut();
        if spans.last().is_some_and(|row| row.0 == object as usize) {
            return spans.pop();
        }
        // Tasks that take turns on a thread do not leave in the order of entering.
        let place = spans.iter().rposition(|row| row.0 == object as usize)?;
        Some(spans.remove(place))
    });
    // SAFETY: a span and an argument that Python holds.
    unsafe {
        let tally = (*object.cast::<SpanObject>()).tally;
        match block.map(|row| row.1) {
            Some(Block::Row(open)) => end_row(tally, open, raised),
            Some(Block::Watched(open, around)) => {
                end_row(tally, open, raised);
                around.end();
            }
            Some(Block::Summed(timed)) => {
                (*tally).end(raw::here_under_lock(), timed, raised != ffi::Py_None());
            }
            Some(Block::Unseen) | None => {}
        }
        let none = ffi::Py_None();
        ffi::Py_INCREF(none);
        none
    }
}

#[inline(always)]
unsafe fn end_row(tally: *mut Tally, open: record_call::Open, raised: *mut ffi::PyObject) {
    // SAFETY: as for leaving.
    unsafe {
        let site = (*tally).site;
        if raised == ffi::Py_None() {
            record_call::end(raw::here_under_lock(), open, site);
        } else {
            let exception =
                target::type_name(raised).map(|name| record_call::exception_site(&name));
            record_call::end_failed(raw::here_under_lock(), open, site, exception);
        }
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

/// What `__enter__` and `__exit__` of a span give: the span itself.
unsafe extern "C" fn get_span(
    method: *mut ffi::PyObject,
    span: *mut ffi::PyObject,
    _class: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    let found = if span.is_null() { method } else { span };
    // SAFETY: both are alive; a new reference goes back.
    unsafe { ffi::Py_INCREF(found) };
    found
}

/// `Span.__enter__(span)` and the like: the span is called with what follows it.
unsafe extern "C" fn call_method(
    _method: *mut ffi::PyObject,
    arguments: *mut ffi::PyObject,
    _keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: Python gives a tuple, and holds what is in it.
    unsafe {
        let count = ffi::PyTuple_GET_SIZE(arguments);
        let is_span = count > 0
            && ffi::Py_TYPE(ffi::PyTuple_GET_ITEM(arguments, 0)) == SPAN.load(Ordering::Relaxed);
        if !is_span {
            let message = c"the first argument is to be a span";
            ffi::PyErr_SetString(ffi::PyExc_TypeError, message.as_ptr());
            return ptr::null_mut();
        }
        let rest = ffi::PyTuple_GetSlice(arguments, 1, count);
        if rest.is_null() {
            return ptr::null_mut();
        }
        let answer = ffi::PyObject_Call(
            ffi::PyTuple_GET_ITEM(arguments, 0),
            rest,
            ptr::null_mut::<ffi::PyObject>(),
        );
        ffi::Py_DECREF(rest);
        answer
    }
}

/// The type of spans, once it is made; it lives as long as the process.
static SPAN: AtomicPtr<ffi::PyTypeObject> = AtomicPtr::new(ptr::null_mut());

/// The type, made once for the module.
pub(crate) fn make_type(py: Python<'_>) -> PyResult<Py<PyAny>> {
    let slot = |slot: c_int, pfunc: *mut c_void| ffi::PyType_Slot { slot, pfunc };
    let end = slot(0, ptr::null_mut());
    let method_slots = [
        slot(ffi::Py_tp_descr_get, get_span as *mut c_void),
        slot(ffi::Py_tp_call, call_method as *mut c_void),
        slot(ffi::Py_tp_dealloc, free as *mut c_void),
        end,
    ];
    let method_size = size_of::<ffi::PyObject>();
    let method_class = type_of(py, c"spanwise._native.SpanMethod", method_size, 0, &method_slots)?;
    let members = Box::leak(Box::new([
        ffi::PyMemberDef {
            name: c"__vectorcalloffset__".as_ptr(),
            type_code: ffi::Py_T_PYSSIZET,
            offset: std::mem::offset_of!(SpanObject, vectorcall) as ffi::Py_ssize_t,
            flags: ffi::Py_READONLY,
            doc: ptr::null(),
        },
        // SAFETY: a member of zeros ends the list.
        unsafe { std::mem::zeroed() },
    ]));
    let span_slots = [
        slot(ffi::Py_tp_call, ffi::PyVectorcall_Call as *mut c_void),
        slot(ffi::Py_tp_members, members.as_mut_ptr().cast()),
        slot(ffi::Py_tp_dealloc, free as *mut c_void),
        end,
    ];
    let (size, flags) = (size_of::<SpanObject>(), ffi::Py_TPFLAGS_HAVE_VECTORCALL);
    let class = type_of(py, c"spanwise._native.Span", size, flags, &span_slots)?;
    for name in ["__enter__", "__exit__"] {
        // SAFETY: the class is whole, and its objects are only their heads.
        let method = unsafe { ffi::PyType_GenericAlloc(method_class.as_ptr().cast(), 0) };
        // SAFETY: a new object, or null with an exception set.
        class.setattr(name, unsafe { Bound::from_owned_ptr_or_err(py, method)? })?;
    }
    SPAN.store(class.as_ptr().cast(), Ordering::Relaxed);
    Ok(class.unbind())
}

fn type_of<'py>(
    py: Python<'py>,
    name: &'static std::ffi::CStr,
    size: usize,
    flags: std::ffi::c_ulong,
    slots: &[ffi::PyType_Slot],
) -> PyResult<Bound<'py, PyAny>> {
    let mut spec = ffi::PyType_Spec {
        name: name.as_ptr(),
        basicsize: size as c_int,
        itemsize: 0,
        flags: (ffi::Py_TPFLAGS_DEFAULT | flags) as std::ffi::c_uint,
        slots: slots.as_ptr().cast_mut(),
    };
    // SAFETY: the description is whole, only read, and what it points to is leaked or copied.
    unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyType_FromSpec(&raw mut spec)) }
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
        (*span).vectorcall = call;
        (*span).tally = tally::of_site(u64::from(site));
        (*span).level = level;
        Ok(Bound::from_owned_ptr(py, object).unbind())
    }
}

//! What a profiled function records as, and the call that is recorded.

use std::ffi::CStr;
use std::ptr;

use pyo3::ffi;
use pyo3::prelude::*;
use spanwise_probe::raw::{self, Here};

use crate::calls::watch;
use crate::spans::record_call;
use crate::sums::tally::{self, Tally};

/// Classes whose own site is remembered, for methods that are named after their class.
const CLASSES_MAX: usize = 8;

/// For methods, or none: what gives the site for a class, and what measures an object.
pub(crate) type OfMethods<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>);

/// What calls of a function are recorded as.
#[repr(C)]
pub(crate) struct Target {
    pub(crate) tally: *mut Tally,
    pub(crate) level: u8,
    /// Gives the site for a class, where each class has its own; else null.
    pub(crate) site_of_class: *mut ffi::PyObject,
    /// Measures the first argument, where more than the time is measured; else null.
    pub(crate) about_self: *mut ffi::PyObject,
    pub(crate) classes: [(*mut ffi::PyTypeObject, *mut Tally); CLASSES_MAX],
}

impl Target {
    pub(crate) fn new(site: u32, level: u8, of_methods: Option<OfMethods<'_>>) -> Self {
        let held = |function: Bound<'_, PyAny>| {
            if function.is_none() { ptr::null_mut() } else { function.into_ptr() }
        };
        let (site_of_class, about_self) = of_methods.map_or_else(
            || (ptr::null_mut(), ptr::null_mut()),
            |(site_of_class, about_self)| (held(site_of_class), held(about_self)),
        );
        Target {
            tally: tally::of_site(u64::from(site)),
            level,
            site_of_class,
            about_self,
            classes: [(ptr::null_mut(), ptr::null_mut()); CLASSES_MAX],
        }
    }

    /// Lets go of all that it holds. To be called with the interpreter's lock.
    pub(crate) unsafe fn clear(&mut self) {
        // SAFETY: each reference is taken out before it is given back.
        unsafe {
            ffi::Py_XDECREF(std::mem::replace(&mut self.site_of_class, ptr::null_mut()));
            ffi::Py_XDECREF(std::mem::replace(&mut self.about_self, ptr::null_mut()));
            for place in &mut self.classes {
                let class = std::mem::replace(&mut place.0, ptr::null_mut());
                ffi::Py_XDECREF(class.cast());
            }
        }
    }
}

/// The arguments of a call, as in the vectorcall protocol.
#[derive(Clone, Copy)]
pub(crate) struct CallArguments {
    pub(crate) arguments: *const *mut ffi::PyObject,
    /// The number of positional arguments, with flags.
    pub(crate) count: usize,
    /// Names of the keyword arguments, or null.
    pub(crate) keywords: *mut ffi::PyObject,
}

/// Calls on, and records the call.
#[inline(always)]
pub(crate) unsafe fn recorded(
    target: *mut Target,
    function: *mut ffi::PyObject,
    on: ffi::vectorcallfunc,
    given: CallArguments,
) -> *mut ffi::PyObject {
    // SAFETY: Python holds its lock and the arguments; what was given is given on.
    unsafe {
        let tally = tally_of(target, given.arguments, given.count);
        (*tally).calls += 1;
        if (*tally).mode > tally::ROWS || record_call::is_measured(&*tally) {
            return seldom(target, tally, function, on, given);
        }
        row::<false>(target, tally, function, on, given)
    }
}

/// Calls on, and records a row of the call: its time, or more.
#[inline(always)]
unsafe fn row<const IS_MEASURED: bool>(
    target: *mut Target,
    tally: *mut Tally,
    function: *mut ffi::PyObject,
    on: ffi::vectorcallfunc,
    given: CallArguments,
) -> *mut ffi::PyObject {
    // SAFETY: as for the call.
    unsafe {
        let CallArguments { arguments, count, keywords } = given;
        let here = raw::here_under_lock();
        let Some(open) = record_call::begin_with(here, &*tally, IS_MEASURED) else {
            return on(function, arguments, count, keywords);
        };
        let result = on(function, arguments, count, keywords);
        let positional = ffi::PyVectorcall_NARGS(count) as usize;
        let keyword = if keywords.is_null() { 0 } else { ffi::PyTuple_GET_SIZE(keywords) as usize };
        let word = (*tally).site | raw::arguments(positional, keyword);
        let start = open.start;
        if result.is_null() {
            end_failed(here, open, word);
        } else {
            record_call::end(here, open, word);
        }
        if IS_MEASURED && positional > 0 && !(*target).about_self.is_null() {
            measure_self((*target).about_self, *arguments, start);
        }
        result
    }
}

/// Calls on, in one of the ways that few sites are recorded in.
#[inline(never)]
unsafe fn seldom(
    target: *mut Target,
    tally: *mut Tally,
    function: *mut ffi::PyObject,
    on: ffi::vectorcallfunc,
    given: CallArguments,
) -> *mut ffi::PyObject {
    // SAFETY: as for the call.
    unsafe {
        let mode = (*tally).mode;
        if mode <= tally::ROWS {
            return row::<true>(target, tally, function, on, given);
        }
        if mode != tally::WATCHED {
            return summed_up(tally, function, on, given);
        }
        let around = watch::before((*tally).site);
        let result = row::<false>(target, tally, function, on, given);
        around.end();
        result
    }
}

/// Calls on, and adds the call to the sums of its site: it becomes no row.
unsafe fn summed_up(
    tally: *mut Tally,
    function: *mut ffi::PyObject,
    on: ffi::vectorcallfunc,
    given: CallArguments,
) -> *mut ffi::PyObject {
    // SAFETY: as for the call; no reference to the tally is kept while Python code runs.
    unsafe {
        let CallArguments { arguments, count, keywords } = given;
        if !(*tally).is_timed() {
            let result = on(function, arguments, count, keywords);
            if result.is_null() {
                (*tally).note_failed();
            }
            return result;
        }
        let here = raw::here_under_lock();
        let timed = (*tally).begin(here, record_call::state_for_sums(here));
        let result = on(function, arguments, count, keywords);
        (*tally).end(here, timed, result.is_null());
        result
    }
}

/// Has Python measure the object whose method was called; what it raises is of no account.
#[cold]
unsafe fn measure_self(about_self: *mut ffi::PyObject, object: *mut ffi::PyObject, start: u64) {
    // SAFETY: called with the interpreter's lock; the object is held by who calls, and what is
    // being raised is taken out and put back.
    unsafe {
        let (mut kind, mut value, mut trace) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
        #[allow(deprecated, reason = "what replaces it came with Python 3.12")]
        ffi::PyErr_Fetch(&raw mut kind, &raw mut value, &raw mut trace);
        let thread = ffi::PyLong_FromUnsignedLongLong(record_call::thread_id());
        let start = ffi::PyLong_FromUnsignedLongLong(start);
        let end = ptr::null_mut::<ffi::PyObject>();
        if !thread.is_null() && !start.is_null() {
            let answer = ffi::PyObject_CallFunctionObjArgs(about_self, object, thread, start, end);
            ffi::Py_XDECREF(answer);
        }
        ffi::Py_XDECREF(thread);
        ffi::Py_XDECREF(start);
        #[allow(deprecated, reason = "what replaces it came with Python 3.12")]
        ffi::PyErr_Restore(kind, value, trace);
    }
}

/// Ends a span while an exception is on its way, which stays.
#[cold]
fn end_failed(here: Here, open: record_call::Open, word: u64) {
    // SAFETY: called with the interpreter's lock; what is taken out is put back.
    unsafe {
        let name = type_name(ffi::PyErr_Occurred());
        let exception = name.map(|name| record_call::exception_site(&name));
        let (mut kind, mut value, mut trace) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
        #[allow(deprecated, reason = "what replaces it came with Python 3.12")]
        ffi::PyErr_Fetch(&raw mut kind, &raw mut value, &raw mut trace);
        record_call::end_failed(here, open, word, exception);
        #[allow(deprecated, reason = "what replaces it came with Python 3.12")]
        ffi::PyErr_Restore(kind, value, trace);
    }
}

/// The name of a type, without its module; the object must be alive.
pub(crate) unsafe fn type_name(object: *mut ffi::PyObject) -> Option<String> {
    // SAFETY: it is alive, and a type has a name.
    unsafe {
        if object.is_null() || ffi::PyType_Check(object) == 0 {
            return None;
        }
        let name = CStr::from_ptr((*object.cast::<ffi::PyTypeObject>()).tp_name).to_string_lossy();
        Some(name.rsplit('.').next().unwrap_or_default().to_owned())
    }
}

/// The tally of a call: that of the first argument's class, where classes have their own.
#[inline(always)]
unsafe fn tally_of(
    target: *mut Target,
    arguments: *const *mut ffi::PyObject,
    count: usize,
) -> *mut Tally {
    // SAFETY: as for the call; there is a first argument where the count says so.
    unsafe {
        if (*target).site_of_class.is_null() || ffi::PyVectorcall_NARGS(count) == 0 {
            return (*target).tally;
        }
        let class = ffi::Py_TYPE(*arguments);
        let (known, tally) = (*target).classes[0];
        if known == class { tally } else { tally_of_other(target, class) }
    }
}

/// Not the first class that was seen.
#[inline(never)]
unsafe fn tally_of_other(target: *mut Target, class: *mut ffi::PyTypeObject) -> *mut Tally {
    // SAFETY: as for the call.
    unsafe {
        for &(known, tally) in &(*target).classes {
            if known == class {
                return tally;
            }
        }
        ask_for_site(target, class)
    }
}

#[cold]
unsafe fn ask_for_site(target: *mut Target, class: *mut ffi::PyTypeObject) -> *mut Tally {
    // SAFETY: as for the call; the class is alive, and held once it is remembered.
    unsafe {
        let answer = ffi::PyObject_CallFunctionObjArgs(
            (*target).site_of_class,
            class.cast::<ffi::PyObject>(),
            ptr::null_mut::<ffi::PyObject>(),
        );
        if answer.is_null() {
            ffi::PyErr_Clear();
            return (*target).tally;
        }
        let site = ffi::PyLong_AsUnsignedLongLong(answer);
        ffi::Py_DECREF(answer);
        if !ffi::PyErr_Occurred().is_null() {
            ffi::PyErr_Clear();
            return (*target).tally;
        }
        // With more classes than there is room for, the last place changes hands.
        let place = (*target).classes.iter().position(|known| known.0.is_null());
        let place = &mut (*target).classes[place.unwrap_or(CLASSES_MAX - 1)];
        let before = place.0;
        ffi::Py_INCREF(class.cast());
        let tally = tally::of_site(site);
        *place = (class, tally);
        ffi::Py_XDECREF(before.cast());
        tally
    }
}

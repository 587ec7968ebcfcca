//! From Python 3.12 on, a function can be given another entry point for calls.
//!
//! So the function stays a function, and costs nothing more while nothing is recorded: it gets
//! its own way of being called back. Whether this interpreter always goes that way is tried
//! when the package is imported, since some have not.

use std::cell::{RefCell, UnsafeCell};
use std::ffi::{CStr, c_char, c_void};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::ffi;
use pyo3::prelude::*;

use crate::calls::target::{CallArguments, OfMethods, Target, recorded};
use crate::calls::version::Version;
use crate::spans::record_call;
use crate::sums::numbers::NumberMap;
use crate::sums::tally;

type SetVectorcall = unsafe extern "C" fn(*mut ffi::PyObject, ffi::vectorcallfunc);

/// The function of Python that does it, where there is one.
fn set_vectorcall() -> Option<SetVectorcall> {
    static FOUND: OnceLock<Option<SetVectorcall>> = OnceLock::new();
    unsafe extern "C" {
        fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    }
    const NAME: &CStr = c"PyFunction_SetVectorcall";
    *FOUND.get_or_init(|| {
        // SAFETY: a null library stands for all that are loaded, the interpreter among them;
        // a function of that name has that type.
        unsafe {
            let found = dlsym(ptr::null_mut(), NAME.as_ptr());
            (!found.is_null()).then(|| std::mem::transmute::<*mut c_void, SetVectorcall>(found))
        }
    })
}

/// A function that records its calls.
struct Patched {
    target: Target,
    plain: ffi::vectorcallfunc,
    is_on: bool,
    /// What it lost by being patched.
    version: Option<Version>,
}

type Table = NumberMap<usize, Box<Patched>>;

/// All functions that are patched; touched only with the interpreter's lock.
struct Locked(RefCell<Option<Table>>);

// SAFETY: the interpreter's lock is held by all who touch it, and none holds a borrow while
// Python code runs.
unsafe impl Sync for Locked {}

static FUNCTIONS: Locked = Locked(RefCell::new(None));

/// The function that was called last at each of a few places: found there without a search of
/// the table. Touched only with the interpreter's lock.
struct Latest(UnsafeCell<[(usize, *mut Patched); PLACES]>);

const PLACES: usize = 64;

// SAFETY: as above.
unsafe impl Sync for Latest {}

static LATEST: Latest = Latest(UnsafeCell::new([(0, ptr::null_mut()); PLACES]));

/// What a function records as; null where it is not patched.
#[inline(always)]
fn patched(function: usize) -> *mut Patched {
    // SAFETY: the interpreter's lock is held, and the borrow ends with this function.
    let place = unsafe { &mut (*LATEST.0.get())[function >> 4 & (PLACES - 1)] };
    if place.0 != function {
        *place = (function, look_up(function));
    }
    place.1
}

#[cold]
fn look_up(function: usize) -> *mut Patched {
    let mut functions = FUNCTIONS.0.borrow_mut();
    let found = functions.as_mut().and_then(|table| table.get_mut(&function));
    found.map_or(ptr::null_mut(), |patched| &raw mut **patched)
}

/// To be called whenever a function enters or leaves the table.
fn forget_latest() {
    // SAFETY: the interpreter's lock is held, and nobody else borrows it meanwhile.
    unsafe { *LATEST.0.get() = [(0, ptr::null_mut()); PLACES] };
}

/// Calls that were seen of functions that only count, for the trial.
static COUNTED: AtomicU64 = AtomicU64::new(0);

/// How functions that record are called.
unsafe extern "C" fn call(
    function: *mut ffi::PyObject,
    arguments: *const *mut ffi::PyObject,
    count: usize,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    let patched = patched(function as usize);
    // SAFETY: the box stays where it is for as long as the function lives, and Python holds
    // the function during its call; only those in the table have this way of being called.
    unsafe {
        if patched.is_null() {
            return nobody();
        }
        let (plain, target) = ((*patched).plain, &raw mut (*patched).target);
        // Another thread may be about to change what is recorded.
        if !record_call::is_on((*target).level) {
            return plain(function, arguments, count, keywords);
        }
        recorded(target, function, plain, CallArguments { arguments, count, keywords })
    }
}

/// How functions of the trial are called.
unsafe extern "C" fn count_call(
    function: *mut ffi::PyObject,
    arguments: *const *mut ffi::PyObject,
    count: usize,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    let patched = patched(function as usize);
    COUNTED.fetch_add(1, Ordering::Relaxed);
    // SAFETY: as above.
    unsafe {
        match patched.is_null() {
            true => nobody(),
            false => ((*patched).plain)(function, arguments, count, keywords),
        }
    }
}

#[cold]
unsafe fn nobody() -> *mut ffi::PyObject {
    let message = c"spanwise: a function that nobody patched";
    // SAFETY: called with the interpreter's lock; the text stays.
    unsafe { ffi::PyErr_SetString(ffi::PyExc_RuntimeError, message.as_ptr()) };
    ptr::null_mut()
}

/// A level above all: such a function is never recorded, its calls are counted.
const COUNTS_ONLY: u8 = u8::MAX;

/// Has a function record its calls from now on; false where this Python cannot.
#[pyfunction]
#[pyo3(signature = (function, site, level, of_methods = None))]
pub(crate) fn patch(
    function: &Bound<'_, PyAny>,
    site: u32,
    level: u8,
    of_methods: Option<OfMethods<'_>>,
) -> bool {
    // SAFETY: the object is alive; whether it is a function is asked first.
    let plain = unsafe {
        if ffi::PyFunction_Check(function.as_ptr()) == 0 || set_vectorcall().is_none() {
            return false;
        }
        ffi::PyVectorcall_Function(function.as_ptr())
    };
    let Some(plain) = plain else { return false };
    let target = Target::new(site, level, of_methods);
    let mut patched = Box::new(Patched { target, plain, is_on: false, version: None });
    switch(function.as_ptr() as usize, &mut patched);
    let mut functions = FUNCTIONS.0.borrow_mut();
    functions.get_or_insert_default().insert(function.as_ptr() as usize, patched);
    forget_latest();
    true
}

/// Gives a copy of a function the number that the interpreter knows the function by, which the
/// copies of one and the same function have in common.
#[pyfunction]
pub(crate) fn share_version(function: &Bound<'_, PyAny>, copy: &Bound<'_, PyAny>) {
    let [function, copy] = [function, copy].map(|it| it.as_ptr());
    // SAFETY: both are alive, and asked whether they are functions; the first one keeps its own
    // way of being called. Called from Python, so with its lock.
    unsafe {
        let are_functions = [function, copy].iter().all(|&it| ffi::PyFunction_Check(it) != 0);
        let Some(set) = set_vectorcall().filter(|_| are_functions) else { return };
        let Some(own) = ffi::PyVectorcall_Function(function) else { return };
        if let Some(version) = Version::taken(function, || set(function, own)) {
            version.give_back(function);
            version.give_back(copy);
        }
    }
}

/// Forgets a function that is about to go.
#[pyfunction]
pub(crate) fn forget_patched(address: usize) {
    let removed = FUNCTIONS.0.borrow_mut().as_mut().and_then(|table| table.remove(&address));
    forget_latest();
    if let Some(mut patched) = removed {
        // SAFETY: called from Python, so with its lock.
        unsafe { patched.target.clear() };
    }
}

/// Gives a function back its own way of being called.
#[pyfunction]
pub(crate) fn unpatch(function: &Bound<'_, PyAny>) {
    let address = function.as_ptr() as usize;
    let mut functions = FUNCTIONS.0.borrow_mut();
    let known = functions.as_mut().and_then(|table| table.get_mut(&address));
    let version = known.and_then(|patched| set(address, patched, false));
    drop(functions);
    drop(version);
    forget_patched(address);
}

/// How many calls functions of the level 255 have seen.
#[pyfunction]
pub(crate) fn counted_calls() -> u64 {
    COUNTED.load(Ordering::Relaxed)
}

/// Gives every function the way of being called that fits what is recorded now. To be called
/// with the interpreter's lock.
pub(crate) fn switch_all() {
    let mut versions = Vec::new();
    let mut functions = FUNCTIONS.0.borrow_mut();
    // The order does not matter: each one is for itself.
    #[allow(clippy::iter_over_hash_type, reason = "each one is for itself")]
    for (&address, patched) in functions.iter_mut().flatten() {
        versions.extend(switch(address, patched));
    }
    drop(functions);
    // Only now: where they hold the last of something, Python code may run.
    drop(versions);
}

/// Gives a function the way of being called that fits; and what is to be dropped once nothing
/// is borrowed.
fn switch(address: usize, patched: &mut Patched) -> Option<Version> {
    let level = patched.target.level;
    // SAFETY: tallies are never freed, and the interpreter's lock is held. A target that has a
    // site for each class stays patched: its sites are off one by one.
    let is_off = unsafe { (*patched.target.tally).mode == tally::OFF }
        && patched.target.site_of_class.is_null();
    let is_on = record_call::is_on(level) && !is_off || level == COUNTS_ONLY;
    if is_on == patched.is_on { None } else { set(address, patched, is_on) }
}

/// Gives a function another way of being called, or its own; and what is to be dropped once
/// nothing is borrowed.
fn set(address: usize, patched: &mut Patched, is_on: bool) -> Option<Version> {
    let set = set_vectorcall()?;
    let function = address as *mut ffi::PyObject;
    patched.is_on = is_on;
    // SAFETY: functions leave the table before they go, so this one is alive; whoever comes here
    // has the interpreter's lock.
    unsafe {
        if is_on {
            let counts_only = patched.target.level == COUNTS_ONLY;
            let way = if counts_only { count_call } else { call };
            let version = Version::taken(function, || set(function, way));
            return std::mem::replace(&mut patched.version, version);
        }
        set(function, patched.plain);
        let version = patched.version.take()?;
        version.give_back(function);
        Some(version)
    }
}

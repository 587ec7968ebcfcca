//! The number that an interpreter knows a function by, once it has made calls of it fast.
//!
//! A function that is given another way of being called loses its number. From Python 3.13 on
//! it never gets one again by itself, nor does one that no `def` has made, and calls of it stay
//! slower by some nanoseconds: so it gets its number back together with its own way of being
//! called, and a copy gets that of what it is a copy of.

use pyo3::ffi;

/// A number that was taken away, and what it stands for: the code and the defaults of that
/// time, which are held so that nothing else takes their places.
pub(crate) struct Version {
    number: u32,
    parts: [*mut ffi::PyObject; 3],
}

impl Version {
    /// Does what takes the number of a function away; gives that number, where it is seen to go.
    ///
    /// # Safety
    ///
    /// The object is a function, and the interpreter's lock is held.
    pub(crate) unsafe fn taken(function: *mut ffi::PyObject, take: impl FnOnce()) -> Option<Self> {
        // SAFETY: as promised; each part is held before anything else is done.
        unsafe {
            let place = place_in(function);
            let number = place.map_or(0, |place| place.read());
            take();
            let is_gone = place.is_some_and(|place| place.read() == 0);
            (number != 0 && is_gone).then(|| {
                let parts = parts_of(function);
                parts.iter().for_each(|&part| ffi::Py_XINCREF(part));
                Version { number, parts }
            })
        }
    }

    /// Gives a function its number back, unless it is another function by now or has a new one.
    ///
    /// # Safety
    ///
    /// It is a function with its own way of being called, and the interpreter's lock is held, also
    /// where this is dropped.
    pub(crate) unsafe fn give_back(&self, function: *mut ffi::PyObject) {
        // SAFETY: as promised. That the number stands there was seen when it was taken.
        unsafe {
            if let Some(place) = place_in(function)
                && place.read() == 0
                && parts_of(function) == self.parts
            {
                place.write(self.number);
            }
        }
    }
}

impl Drop for Version {
    fn drop(&mut self) {
        // SAFETY: the lock is held, as promised; each was held by this.
        self.parts.iter().for_each(|&part| unsafe { ffi::Py_XDECREF(part) });
    }
}

/// What a function's number stands for.
unsafe fn parts_of(function: *mut ffi::PyObject) -> [*mut ffi::PyObject; 3] {
    // SAFETY: it is a function.
    unsafe {
        [
            ffi::PyFunction_GetCode(function),
            ffi::PyFunction_GetDefaults(function),
            ffi::PyFunction_GetKwDefaults(function),
        ]
    }
}

/// Where in a function its number should be: behind its way of being called.
unsafe fn place_in(function: *mut ffi::PyObject) -> Option<*mut u32> {
    // SAFETY: types stay; the place is checked to lie within the object.
    unsafe {
        let kind = &raw const ffi::PyFunction_Type;
        let at = usize::try_from((*kind).tp_vectorcall_offset).ok().filter(|&at| at > 0)?;
        let at = at + size_of::<ffi::vectorcallfunc>();
        let size = usize::try_from((*kind).tp_basicsize).unwrap_or(0);
        (at + size_of::<u32>() <= size).then(|| function.byte_add(at).cast())
    }
}

//! A callable around a callable: each call is a span.
//!
//! A raw type rather than a class of PyO3: it is called by the vectorcall protocol and calls on
//! by it, so no tuple or dictionary of arguments is ever made. It says that it is a method
//! descriptor, so a method call makes no bound method either.

use std::ffi::{CStr, c_int, c_void};
use std::ptr;

use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::calls::target::{CallArguments, OfMethods, Target, recorded};
use crate::spans::record_call;

#[repr(C)]
pub(crate) struct Wrapper {
    base: ffi::PyObject,
    vectorcall: ffi::vectorcallfunc,
    dict: *mut ffi::PyObject,
    weak_references: *mut ffi::PyObject,
    /// What is called.
    function: *mut ffi::PyObject,
    function_vectorcall: ffi::vectorcallfunc,
    target: Target,
}

unsafe extern "C" fn call(
    callable: *mut ffi::PyObject,
    arguments: *const *mut ffi::PyObject,
    count: usize,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    let wrapper = callable.cast::<Wrapper>();
    // SAFETY: only wrappers have this function; Python holds its lock and the arguments.
    unsafe {
        let (function, on) = ((*wrapper).function, (*wrapper).function_vectorcall);
        if !record_call::is_on((*wrapper).target.level) {
            return on(function, arguments, count, keywords);
        }
        let target = &raw mut (*wrapper).target;
        recorded(target, function, on, CallArguments { arguments, count, keywords })
    }
}

/// For callables that do not know the protocol themselves.
unsafe extern "C" fn call_plainly(
    callable: *mut ffi::PyObject,
    arguments: *const *mut ffi::PyObject,
    count: usize,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: what was given is given on.
    unsafe { ffi::PyObject_Vectorcall(callable, arguments, count, keywords) }
}

unsafe extern "C" {
    fn PyMethod_New(
        function: *mut ffi::PyObject,
        instance: *mut ffi::PyObject,
    ) -> *mut ffi::PyObject;
}

unsafe extern "C" fn get(
    wrapper: *mut ffi::PyObject,
    instance: *mut ffi::PyObject,
    _class: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: Python gives objects that are alive; a new reference goes back.
    unsafe {
        if instance.is_null() || instance == ffi::Py_None() {
            ffi::Py_INCREF(wrapper);
            return wrapper;
        }
        PyMethod_New(wrapper, instance)
    }
}

unsafe extern "C" fn traverse(
    object: *mut ffi::PyObject,
    visit: ffi::visitproc,
    argument: *mut c_void,
) -> c_int {
    let wrapper = object.cast::<Wrapper>();
    // SAFETY: Python's collector calls it with an object that is whole.
    unsafe {
        let held = [
            (*wrapper).dict,
            (*wrapper).function,
            (*wrapper).target.site_of_class,
            (*wrapper).target.about_self,
            ffi::Py_TYPE(object).cast(),
        ];
        let classes = (*wrapper).target.classes.iter().map(|known| known.0.cast());
        for held in held.into_iter().chain(classes) {
            if !held.is_null() {
                let answer = visit(held, argument);
                if answer != 0 {
                    return answer;
                }
            }
        }
    }
    0
}

/// Lets go of what can be part of a cycle. The function stays: a call may still come.
unsafe extern "C" fn clear(object: *mut ffi::PyObject) -> c_int {
    let wrapper = object.cast::<Wrapper>();
    // SAFETY: each reference is taken out before it is given back.
    unsafe {
        let dict = std::mem::replace(&mut (*wrapper).dict, ptr::null_mut());
        ffi::Py_XDECREF(dict);
        (*wrapper).target.clear();
    }
    0
}

unsafe extern "C" fn free(object: *mut ffi::PyObject) {
    let wrapper = object.cast::<Wrapper>();
    // SAFETY: nobody holds the object any more; its type is a heap type and counted.
    unsafe {
        ffi::PyObject_GC_UnTrack(object.cast());
        if !(*wrapper).weak_references.is_null() {
            ffi::PyObject_ClearWeakRefs(object);
        }
        clear(object);
        ffi::Py_XDECREF((*wrapper).function);
        let class = ffi::Py_TYPE(object);
        ffi::PyObject_GC_Del(object.cast());
        ffi::Py_DECREF(class.cast());
    }
}

/// Pickled by name, like the function that it stands for.
unsafe extern "C" fn reduce(
    object: *mut ffi::PyObject,
    _nothing: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: the name is a C string, and the object is alive.
    unsafe { ffi::PyObject_GetAttrString(object, c"__qualname__".as_ptr()) }
}

unsafe extern "C" fn show(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    let wrapper = object.cast::<Wrapper>();
    // SAFETY: the format takes one object.
    unsafe { ffi::PyUnicode_FromFormat(c"<profiled %R>".as_ptr(), (*wrapper).function) }
}

const MEMBERS: [(&CStr, usize); 3] = [
    (c"__vectorcalloffset__", std::mem::offset_of!(Wrapper, vectorcall)),
    (c"__dictoffset__", std::mem::offset_of!(Wrapper, dict)),
    (c"__weaklistoffset__", std::mem::offset_of!(Wrapper, weak_references)),
];

/// The type, made once for the module.
pub(crate) fn make_type(py: Python<'_>) -> PyResult<Py<PyAny>> {
    let slot = |slot: c_int, pfunc: *mut c_void| ffi::PyType_Slot { slot, pfunc };
    let member = |&(name, offset): &(&'static CStr, usize)| ffi::PyMemberDef {
        name: name.as_ptr(),
        type_code: ffi::Py_T_PYSSIZET,
        offset: offset as ffi::Py_ssize_t,
        flags: ffi::Py_READONLY,
        doc: ptr::null(),
    };
    // These are kept by the type, which lives as long as the process.
    let mut members: Vec<ffi::PyMemberDef> = MEMBERS.iter().map(member).collect();
    // SAFETY: a member of zeros ends the list.
    members.push(unsafe { std::mem::zeroed() });
    let methods = Box::leak(Box::new([
        ffi::PyMethodDef {
            ml_name: c"__reduce__".as_ptr(),
            ml_meth: ffi::PyMethodDefPointer { PyCFunction: reduce },
            ml_flags: ffi::METH_NOARGS,
            ml_doc: ptr::null(),
        },
        ffi::PyMethodDef::zeroed(),
    ]));
    // SAFETY: every Python object type begins with this getter's data.
    let dict_getter = Box::leak(Box::new([
        ffi::PyGetSetDef {
            name: c"__dict__".as_ptr(),
            get: Some(ffi::PyObject_GenericGetDict),
            set: Some(ffi::PyObject_GenericSetDict),
            doc: ptr::null(),
            closure: ptr::null_mut(),
        },
        ffi::PyGetSetDef::default(),
    ]));
    let mut slots = [
        slot(ffi::Py_tp_call, ffi::PyVectorcall_Call as *mut c_void),
        slot(ffi::Py_tp_descr_get, get as *mut c_void),
        slot(ffi::Py_tp_traverse, traverse as *mut c_void),
        slot(ffi::Py_tp_clear, clear as *mut c_void),
        slot(ffi::Py_tp_dealloc, free as *mut c_void),
        slot(ffi::Py_tp_repr, show as *mut c_void),
        slot(ffi::Py_tp_members, members.leak().as_mut_ptr().cast()),
        slot(ffi::Py_tp_methods, methods.as_mut_ptr().cast()),
        slot(ffi::Py_tp_getset, dict_getter.as_mut_ptr().cast()),
        slot(0, ptr::null_mut()),
    ];
    let mut spec = ffi::PyType_Spec {
        name: c"spanwise._native.ProfiledFunction".as_ptr(),
        basicsize: size_of::<Wrapper>() as c_int,
        itemsize: 0,
        flags: (ffi::Py_TPFLAGS_DEFAULT
            | ffi::Py_TPFLAGS_HAVE_GC
            | ffi::Py_TPFLAGS_HAVE_VECTORCALL
            | ffi::Py_TPFLAGS_METHOD_DESCRIPTOR) as std::ffi::c_uint,
        slots: slots.as_mut_ptr(),
    };
    // SAFETY: the description is whole, and what it points to is leaked or copied.
    unsafe {
        let made = ffi::PyType_FromSpec(&raw mut spec);
        Bound::from_owned_ptr_or_err(py, made).map(Bound::unbind)
    }
}

/// Wraps a callable; names and the like are copied by the Python side.
pub(crate) fn wrap(
    class: &Bound<'_, PyAny>,
    function: &Bound<'_, PyAny>,
    site: u32,
    level: u8,
    of_methods: Option<OfMethods<'_>>,
) -> PyResult<Py<PyAny>> {
    let py = function.py();
    // SAFETY: the object is new and every field is set before anyone sees it.
    unsafe {
        let known = ffi::PyVectorcall_Function(function.as_ptr());
        let object = ffi::PyType_GenericAlloc(class.as_ptr().cast(), 0);
        if object.is_null() {
            return Err(PyErr::take(py).unwrap_or_else(|| PyRuntimeError::new_err("no memory")));
        }
        let wrapper = object.cast::<Wrapper>();
        (*wrapper).vectorcall = call;
        (*wrapper).function = function.clone().into_ptr();
        (*wrapper).function_vectorcall = known.unwrap_or(call_plainly);
        (*wrapper).target = Target::new(site, level, of_methods);
        Ok(Bound::from_owned_ptr(py, object).unbind())
    }
}

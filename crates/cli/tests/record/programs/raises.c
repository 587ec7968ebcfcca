// A module for Python whose function raises for odd numbers.
#include <Python.h>

__attribute__((noinline)) PyObject *raises_half(PyObject *self, PyObject *number) {
    (void)self;
    long i = PyLong_AsLong(number);
    if (i % 2) {
        PyErr_SetString(PyExc_ValueError, "odd");
        return NULL;
    }
    return PyLong_FromLong(i / 2);
}

static PyMethodDef methods[] = {{"half", raises_half, METH_O, NULL}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "raises", NULL, -1, methods,
                                    NULL, NULL, NULL, NULL};
PyMODINIT_FUNC PyInit_raises(void) { return PyModule_Create(&module); }

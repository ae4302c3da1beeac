/* One array that is kept: its memory may go while it takes another object, or the same again. */
#include <dlshim.hpp>
static dlshim::array<const double> *kept;
static PyObject *take(PyObject *, PyObject *obj) {
    if (!kept->take(obj)) {
        return nullptr;
    }
    Py_RETURN_NONE;
}
static PyObject *assign(PyObject *, PyObject *obj) {
    dlshim::array<const double> x;
    if (!x.take(obj)) {
        return nullptr;
    }
    *kept = std::move(x);
    return PyLong_FromLongLong(x.size());
}
static PyObject *drop(PyObject *, PyObject *) {
    delete kept;
    kept = new dlshim::array<const double>;
    Py_RETURN_NONE;
}
static PyObject *size(PyObject *, PyObject *) { return PyLong_FromLongLong(kept->size()); }
static PyMethodDef functions[] = {{"take", take, METH_O, nullptr},
                                  {"assign", assign, METH_O, nullptr},
                                  {"drop", drop, METH_NOARGS, nullptr},
                                  {"size", size, METH_NOARGS, nullptr},
                                  {nullptr, nullptr, 0, nullptr}};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "again", nullptr, -1, functions,
                                 nullptr, nullptr, nullptr, nullptr};
PyMODINIT_FUNC PyInit_again() {
    kept = new dlshim::array<const double>;
    return PyModule_Create(&definition);
}

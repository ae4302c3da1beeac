/* visited(x, alignment): how many elements dlshim::visit shows of an array; -1: it shows none. */
#include <dlshim.hpp>
static PyObject *visited(PyObject *, PyObject *args) {
    PyObject *obj;
    int alignment;
    int64_t elements = -1;
    if (!PyArg_ParseTuple(args, "Oi", &obj, &alignment)) {
        return nullptr;
    }
    try {
        dlshim::options asked("visited(): x");
        asked.request.alignment = alignment;
        dlshim::array<const void> x(obj, asked);
        dlshim::visit(x, [&](const auto &view) { elements = view.size(); });
    }
    catch (const dlshim::python_error &) {
        return nullptr;
    }
    return PyLong_FromLongLong(elements);
}
static PyMethodDef functions[] = {{"visited", visited, METH_VARARGS, nullptr},
                                  {nullptr, nullptr, 0, nullptr}};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "visits", nullptr, -1, functions,
                                 nullptr, nullptr, nullptr, nullptr};
PyMODINIT_FUNC PyInit_visits() { return PyModule_Create(&definition); }

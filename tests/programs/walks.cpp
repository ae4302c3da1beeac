#include <dlshim.hpp>
static bool add(PyObject *list, double value) {
    PyObject *number = PyFloat_FromDouble(value);
    const int code = number != nullptr ? PyList_Append(list, number) : -1;
    Py_XDECREF(number);
    return code == 0;
}
/* The elements as each() finds them, as x(i, j, k) does, and those of a view of another rank. */
static PyObject *walk(PyObject *, PyObject *obj) {
    dlshim::array<const double, 3> x;
    PyObject *lists = Py_BuildValue("([][][])");
    if (lists == nullptr || !x.take(obj)) {
        Py_XDECREF(lists);
        return nullptr;
    }
    const dlshim::view<const double> any(x.as_c());
    dlshim::each(any, [lists](double value) { add(PyTuple_GetItem(lists, 0), value); });
    const dlshim::view<const double, 3> copy = x;
    for (int64_t i = 0; i < copy.shape(0); i++) {
        for (int64_t j = 0; j < copy.shape(1); j++) {
            for (int64_t k = 0; k < copy.shape(2); k++) {
                add(PyTuple_GetItem(lists, 1), copy(i, j, k));
            }
        }
    }
    const dlshim::view<const double, 4> other(x.as_c());
    dlshim::each(other, [lists](double value) { add(PyTuple_GetItem(lists, 2), value); });
    return lists;
}
static PyMethodDef functions[] = {{"walk", walk, METH_O, nullptr}, {nullptr, nullptr, 0, nullptr}};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "walks", nullptr, -1, functions,
                                 nullptr, nullptr, nullptr, nullptr};
PyMODINIT_FUNC PyInit_walks() { return PyModule_Create(&definition); }

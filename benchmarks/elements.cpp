/* Loops over the elements of an array: by dlshim.hpp, and as an author writes them who keeps address,
 * shape and strides in variables. */
#include <dlshim.hpp>

template <class F> static PyObject *run(F f) {
    try {
        return PyFloat_FromDouble(f());
    } catch (const dlshim::python_error &) {
        return nullptr;
    }
}

static PyObject *each(PyObject *, PyObject *obj) {
    return run([obj] {
        const dlshim::borrowed<const double> x(obj);
        double sum = 0;
        dlshim::each(x, [&](double value) { sum += value; });
        return sum;
    });
}

static PyObject *each_by_hand(PyObject *, PyObject *obj) {
    return run([obj] {
        const dlshim::borrowed<const double, 2> x(obj);
        const double *const data = x.data();
        const int64_t n = x.shape(0), m = x.shape(1), down = x.stride(0), right = x.stride(1);
        double sum = 0;
        for (int64_t i = 0; i < n; i++) {
            for (int64_t j = 0; j < m; j++) {
                sum += data[i * down + j * right];
            }
        }
        return sum;
    });
}

static PyObject *at(PyObject *, PyObject *obj) {
    return run([obj] {
        const dlshim::borrowed<int64_t, 2> x(obj);
        for (int64_t i = 0; i < x.shape(0); i++) {
            for (int64_t j = 0; j < x.shape(1); j++) {
                x(i, j) += 1;
            }
        }
        return 0.0;
    });
}

static PyObject *at_by_hand(PyObject *, PyObject *obj) {
    return run([obj] {
        const dlshim::borrowed<int64_t, 2> x(obj);
        int64_t *const data = x.data();
        const int64_t n = x.shape(0), m = x.shape(1), down = x.stride(0), right = x.stride(1);
        for (int64_t i = 0; i < n; i++) {
            for (int64_t j = 0; j < m; j++) {
                data[i * down + j * right] += 1;
            }
        }
        return 0.0;
    });
}

static PyMethodDef methods[] = {
    {"each", each, METH_O, nullptr},
    {"each_by_hand", each_by_hand, METH_O, nullptr},
    {"at", at, METH_O, nullptr},
    {"at_by_hand", at_by_hand, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "dls_elements", nullptr, -1, methods,
                                 nullptr, nullptr, nullptr, nullptr};

PyMODINIT_FUNC PyInit_dls_elements(void) {
    return dlshim_load() != nullptr ? PyModule_Create(&definition) : nullptr;
}

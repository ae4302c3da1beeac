/* Plain C with the limited API: any array into C, memory of C into any library.
 *
 *   FLAGS=$(python -c "import sys, sysconfig as s; print('-I' + s.get_path('include') \
 *       + ' -undefined dynamic_lookup' * (sys.platform == 'darwin'))")
 *   cc -std=c99 -O2 -shared -fPIC -DPy_LIMITED_API=0x030a0000 $FLAGS \
 *       -I$(python -m dlshim --include) plain_c.c -o plain_c.abi3.so
 */
#include <Python.h>
#include <dlshim.h>
#include <stdlib.h>

/* scale(x, by): multiply the elements in place. */
static PyObject *
scale(PyObject *self, PyObject *args)
{
    static const dlshim_dtype float64 = {2, 64, 1};
    dlshim_request want = DLSHIM_REQUEST_INIT;
    dlshim_view view;
    PyObject *x;
    double by;
    int64_t n = 1;
    (void)self;
    if (!PyArg_ParseTuple(args, "Od", &x, &by)) {
        return NULL;
    }
    want.name = "scale(): x";
    want.dtypes = &float64;
    want.dtype_count = 1;
    want.contiguous = 1;
    want.writable = 1;
    want.alignment = sizeof(double);
    if (dlshim_borrow(x, &want, &view) < 0) {
        return NULL;
    }
    for (int32_t i = 0; i < view.array.ndim; i++) {
        n *= view.array.shape[i];
    }
    double *data = (double *)((char *)view.array.data + view.array.byte_offset);
    for (int64_t i = 0; i < n; i++) {
        data[i] *= by;
    }
    dlshim_borrow_end(&view);
    Py_RETURN_NONE;
}

/* ramp(n): 0, 1, 2 ... as a dlshim.Tensor, which every library takes. */
static PyObject *
ramp(PyObject *self, PyObject *arg)
{
    int64_t n = PyLong_AsLongLong(arg);
    (void)self;
    if (n < 0) {
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "n is negative");
    }
    double *data = calloc((size_t)n + 1, sizeof *data); /* it looks at the product */
    if (data == NULL) {
        return PyErr_NoMemory();
    }
    for (int64_t i = 0; i < n; i++) {
        data[i] = (double)i;
    }
    dlshim_array array = {data, 1, 0, 1, {2, 64, 1}, &n, NULL, 0};
    PyObject *tensor = dlshim_export_array(&array, 0, data, free, NULL);
    if (tensor == NULL) {
        free(data); /* a failure takes nothing */
    }
    return tensor;
}

static PyMethodDef methods[] = {
    {"scale", scale, METH_VARARGS, NULL},
    {"ramp", ramp, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "plain_c", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC
PyInit_plain_c(void)
{
    /* Without dlshim, `import plain_c` says what to install. */
    return dlshim_load() != NULL ? PyModule_Create(&definition) : NULL;
}

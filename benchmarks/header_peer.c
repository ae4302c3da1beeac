/* An extension that uses dlshim.h, as a consumer that does nothing with what it takes: what
 * nanobind_peer.cpp does with nanobind. */
#include <dlshim.h>

static dlshim_request wanted = DLSHIM_REQUEST_INIT;

static PyObject *
take(PyObject *self, PyObject *obj)
{
    struct DLManagedTensorVersioned *tensor;
    (void)self;
    if (dlshim_import(obj, &wanted, &tensor) < 0) {
        return NULL;
    }
    dlshim_release(tensor);
    Py_RETURN_NONE;
}

static PyObject *
lend(PyObject *self, PyObject *obj)
{
    dlshim_view view;
    (void)self;
    if (dlshim_borrow(obj, &wanted, &view) < 0) {
        return NULL;
    }
    dlshim_borrow_end(&view);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"take", take, METH_O, NULL},
    {"lend", lend, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "dls_header", .m_methods = methods};

PyMODINIT_FUNC
PyInit_dls_header(void)
{
    wanted.device_type = DLSHIM_ANY_DEVICE; /* as nb::ndarray<> */
    wanted.writable = 1;
    return dlshim_load() != NULL ? PyModule_Create(&definition) : NULL;
}

/* One type, whose arrays have no elements and two extents whose product overflows. */
#include "dlpack_producer.h"
static int describe(PyObject *self, dlpack_array *array)
{
    static const int64_t shape[] = {0, 1LL << 40, 1LL << 40};
    (void)self; array->ndim = 3; array->code = 2; array->bits = 64; array->shape = shape;
    return 0;
}
DLPACK_PRODUCER(far, describe)
static PyMethodDef methods[] = {DLPACK_PRODUCER_METHODS(far), {NULL, NULL, 0, NULL}};
static PyType_Slot slots[] = {{Py_tp_methods, methods}, {0, NULL}};
static PyType_Spec spec = {"far.Far", sizeof(PyObject), 0, Py_TPFLAGS_DEFAULT, slots};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "far", NULL, -1, NULL,
                                        NULL, NULL, NULL, NULL};
PyMODINIT_FUNC PyInit_far(void)
{
    PyObject *module = PyModule_Create(&definition);
    PyModule_AddObject(module, "Far", PyType_FromSpec(&spec));
    return module;
}

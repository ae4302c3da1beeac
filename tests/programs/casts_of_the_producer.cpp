// All that producer/dlpack_producer.h defines, for warnings of C++ that it could give.
#include "dlpack_producer.h"
static int describe(PyObject *, dlpack_array *) { return 0; }
static PyObject *take(PyObject *) { return nullptr; }
DLPACK_PRODUCER(image, describe)
DLPACK_PRODUCER_TABLE(image, describe, take)
static PyMethodDef methods[] = {DLPACK_PRODUCER_METHODS(image), {nullptr, nullptr, 0, nullptr}};
PyMethodDef *use(PyTypeObject *);
PyMethodDef *use(PyTypeObject *type) { return image_add_table(type) == 0 ? methods : nullptr; }

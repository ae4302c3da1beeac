/* A device is a subclass of tuple without members of its own: its str() is read from
 * its items each time.  Tests: tests/core/test_numpy_habits.py. */
#include "module/device_type.h"

#include "core/dtype.h"
#include "exchange/device_question.h"

static PyObject *
device_str(PyObject *self)
{
    char text[48];
    long parts[2];
    for (int i = 0; i < 2; i++) {
        PyObject *item = PyTuple_GetItem(self, i);
        parts[i] = item != NULL ? PyLong_AsLong(item) : -1;
    }
    if (PyErr_Occurred() != NULL) { /* the tuple was built by hand */
        PyErr_Clear();
        return PyUnicode_FromFormat("%R", self);
    }
    const dl_device device = {(int32_t)parts[0], (int32_t)parts[1]};
    return PyUnicode_FromString(dls_device_name(device, text, sizeof text));
}

static PyType_Slot slots[] = {
    {Py_tp_doc, "A DLPack device: a tuple (device_type, device_id) of plain ints.\n\n"
                "str() gives the name (\"cpu\", \"cuda:1\"), which device= takes."},
    {Py_tp_str, device_str},
    {0, NULL},
};

PyType_Spec dls_device_spec = {
    .name = "dlshim._core.device",
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = slots,
};

PyObject *
dls_device_new(dls_state *state, dl_device device)
{
    PyObject *pair = dls_device_pair(state, device);
    PyObject *made = NULL;
    if (pair != NULL) {
        made = PyObject_CallFunctionObjArgs((PyObject *)state->device_type, pair, NULL);
        Py_DECREF(pair);
    }
    return made;
}

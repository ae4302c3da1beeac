#include "python/state.h"

#include <string.h>

static int
init_names(dls_state *state)
{
#define TEXT(member, text) text "\0"
    static const char texts[] = DLS_NAME_LIST(TEXT);
#undef TEXT
    const char *text = texts;
    for (int i = 0; i < DLS_NAMES; i++) {
        state->all_names[i] = PyUnicode_InternFromString(text);
        if (state->all_names[i] == NULL) {
            return -1;
        }
        text += strlen(text) + 1;
    }
    return 0;
}

/* kwnames[mask]: bit 0 stream, 1 max_version, 2 dl_device, 3 copy. */
static int
init_kwnames(dls_state *state)
{
    PyObject *words[4] = {state->names.stream, state->names.max_version,
                          state->names.dl_device, state->names.copy};
    for (int mask = 1; mask < 16; mask++) {
        Py_ssize_t n = (mask & 1) + (mask >> 1 & 1) + (mask >> 2 & 1) + (mask >> 3 & 1);
        PyObject *tuple = PyTuple_New(n);
        if (tuple == NULL) {
            return -1;
        }
        state->kwnames[mask] = tuple;
        Py_ssize_t at = 0;
        for (int bit = 0; bit < 4; bit++) {
            if (mask >> bit & 1) {
                Py_INCREF(words[bit]);
                PyTuple_SetItem(tuple, at++, words[bit]);
            }
        }
    }
    return 0;
}

static PyObject *
new_error(PyObject *module, const char *name, const char *doc, PyObject *first,
          PyObject *second)
{
    PyObject *bases = PyTuple_Pack(2, first, second);
    if (bases == NULL) {
        return NULL;
    }
    PyObject *error = PyErr_NewExceptionWithDoc(name, doc, bases, NULL);
    Py_DECREF(bases);
    if (error != NULL && PyModule_AddType(module, (PyTypeObject *)error) < 0) {
        Py_CLEAR(error);
    }
    return error;
}

int
dls_state_init(dls_state *state, PyObject *module)
{
    state->gil_deleters = -1;
    state->thread_key = PyThread_tss_alloc();
    if (state->thread_key == NULL || PyThread_tss_create(state->thread_key) != 0) {
        PyErr_NoMemory();
        return -1;
    }
    if (init_names(state) < 0 || init_kwnames(state) < 0) {
        return -1;
    }
    state->asked_version = Py_BuildValue("(ii)", 1, 0);
    state->host_device = Py_BuildValue("(ii)", 1, 0);
    state->minus_one = PyLong_FromLong(-1);
    state->zero = PyLong_FromLong(0);
    state->one = PyLong_FromLong(1);
    state->copy_required_error = new_error(
        module, "dlshim.CopyRequiredError",
        "copy=False was asked for, and the data cannot be given without a copy.",
        PyExc_BufferError, PyExc_ValueError);
    state->unsupported_object_error =
        new_error(module, "dlshim.UnsupportedObjectError",
                  "The object offers no way to its memory that dlshim knows.",
                  PyExc_TypeError, PyExc_AttributeError);
    state->modules = PySys_GetObject("modules"); /* borrowed */
    if (state->asked_version == NULL || state->host_device == NULL
        || state->minus_one == NULL || state->zero == NULL || state->one == NULL
        || state->copy_required_error == NULL || state->unsupported_object_error == NULL
        || state->modules == NULL || !PyDict_Check(state->modules)) {
        if (PyErr_Occurred() == NULL) {
            PyErr_SetString(PyExc_ImportError, "sys.modules is not a dict");
        }
        state->modules = NULL;
        return -1;
    }
    Py_INCREF(state->modules);
    return 0;
}

#define STATE_OBJECTS(X)                                                            \
    X(producer_type)                                                                \
    X(tensor_type) X(dtype_type) X(copy_required_error) X(unsupported_object_error) \
        X(asked_version) X(host_device) X(minus_one) X(zero) X(one) X(seen_version) \
            X(seen_host) X(forget) X(modules)

int
dls_state_visit(dls_state *state, visitproc visit, void *arg)
{
#define VISIT(member) Py_VISIT(state->member);
    STATE_OBJECTS(VISIT)
#undef VISIT
    for (int i = 0; i < DLS_SEEN_KEYWORDS; i++) {
        Py_VISIT(state->seen_keywords[i].kwnames);
    }
    return 0;
}

void
dls_state_clear(dls_state *state)
{
#define CLEAR(member) Py_CLEAR(state->member);
    STATE_OBJECTS(CLEAR)
#undef CLEAR
    for (int i = 0; i < DLS_SEEN_KEYWORDS; i++) {
        Py_CLEAR(state->seen_keywords[i].kwnames);
    }
    for (int mask = 0; mask < 16; mask++) {
        Py_CLEAR(state->kwnames[mask]);
    }
    for (int i = 0; i < DLS_NAMES; i++) {
        Py_CLEAR(state->all_names[i]);
    }
    PyThread_tss_free(state->thread_key); /* NULL allowed */
    state->thread_key = NULL;
}

/* A stream of Arrow of which one function leaves an exception behind, and which knows whether its
 * functions are called with the GIL (test_columns_pending). */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct schema {
    const char *format, *name, *metadata;
    int64_t flags, n_children;
    struct schema **children, *dictionary;
    void (*release)(struct schema *);
    void *private_data;
} schema;
typedef struct array {
    int64_t length, null_count, offset, n_buffers, n_children;
    const void **buffers;
    struct array **children, *dictionary;
    void (*release)(struct array *);
    void *private_data;
} array;
typedef struct stream {
    int (*get_schema)(struct stream *, schema *);
    int (*get_next)(struct stream *, array *);
    const char *(*get_last_error)(struct stream *);
    void (*release)(struct stream *);
    void *private_data;
} stream;

static const char *guilty; /* who leaves an exception behind */
static int given;
static int calls, with_gil; /* of the stream's functions */

static void
count_call(void)
{
    calls++;
    with_gil += PyGILState_Check();
}

static void
leave_error(const char *name)
{
    if (strcmp(name, guilty) == 0) {
        PyGILState_STATE state = PyGILState_Ensure();
        PyErr_Format(PyExc_ValueError, "left by %s", name);
        PyGILState_Release(state);
    }
}

static void end_schema(schema *self) { self->release = NULL; }
static void end_array(array *self) { self->release = NULL; }

static int
get_schema(stream *self, schema *out)
{
    (void)self;
    count_call();
    memset(out, 0, sizeof *out);
    out->format = "l";
    out->name = "";
    out->release = end_schema;
    leave_error("get_schema");
    return 0;
}

/* A function of Python runs only where no exception is left. */
static int
run_python(void)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *made = PyObject_CallFunction((PyObject *)&PyList_Type, NULL);
    Py_XDECREF(made);
    PyGILState_Release(state);
    return made != NULL ? 0 : EIO;
}

static int
get_next(stream *self, array *out)
{
    count_call();
    if (strcmp(guilty, "the user") == 0) {
        raise(SIGINT);
        return EINTR;
    }
    if (strcmp(guilty, "get_last_error") == 0) {
        return EIO;
    }
    if (given == 0 && run_python() != 0) {
        return EIO;
    }
    static int64_t data[] = {1, 2, 3};
    static const void *buffers[] = {NULL, data};
    (void)self;
    memset(out, 0, sizeof *out);
    if (given++ == 0) {
        out->length = 3;
        out->n_buffers = 2;
        out->buffers = buffers;
        out->release = end_array;
    }
    leave_error("get_next");
    return 0;
}

static const char *
get_last_error(stream *self)
{
    (void)self;
    count_call();
    leave_error("get_last_error");
    return "the file has ended";
}

static void
end_stream(stream *self)
{
    count_call();
    self->release = NULL;
    leave_error("release");
}

static void
end_capsule(PyObject *capsule)
{
    stream *self = PyCapsule_GetPointer(capsule, "arrow_array_stream");
    if (self->release != NULL) {
        self->release(self);
    }
    free(self);
}

static PyObject *
make(PyObject *module, PyObject *name)
{
    stream *self = calloc(1, sizeof *self);
    (void)module;
    guilty = PyUnicode_AsUTF8(name);
    given = calls = with_gil = 0;
    *self = (stream){get_schema, get_next, get_last_error, end_stream, NULL};
    return PyCapsule_New(self, "arrow_array_stream", end_capsule);
}

/* Calls of the functions of the last stream, and those with the GIL. */
static PyObject *
called(PyObject *module, PyObject *ignored)
{
    (void)module, (void)ignored;
    return Py_BuildValue("(ii)", calls, with_gil);
}

static PyMethodDef functions[] = {{"make", make, METH_O, NULL},
                                  {"called", called, METH_NOARGS, NULL},
                                  {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "pending", NULL, -1, functions,
                                        NULL, NULL, NULL, NULL};

PyMODINIT_FUNC
PyInit_pending(void)
{
    return PyModule_Create(&definition);
}

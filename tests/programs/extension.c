/* An extension whose dlshim.h may be of another release than the dlshim that it finds: what lies
 * behind each struct must neither be read nor written. */
#include <dlshim.h>
#include <stdlib.h>
typedef struct { dlshim_request want; unsigned char after[512]; } asked;
typedef struct { dlshim_view view; unsigned char after[64]; } given;

static int
is_whole(const unsigned char *after, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (after[i] != 0xff) {
            return 0;
        }
    }
    return 1;
}

/* first(x, later, kind): element zero, borrowed and imported; what the view says later. */
static PyObject *
first(PyObject *self, PyObject *args)
{
    static const dlshim_dtype float64 = {2, 64, 1};
    static const dlshim_request init = DLSHIM_REQUEST_INIT;
    struct DLManagedTensorVersioned *tensor;
    PyObject *x;
    long long later;
    int kind;
    asked a;
    given g;
    (void)self;
    if (!PyArg_ParseTuple(args, "OLi", &x, &later, &kind)) {
        return NULL;
    }
    memset(&a, 0xff, sizeof a);
    memset(&g, 0xff, sizeof g);
    a.want = init;
    a.want.dtypes = &float64;
    a.want.dtype_count = 1;
    a.want.stream.kind = kind;
#ifdef DLSHIM_0_1_9_
    a.want.later = later;
    g.view.later = 0;
#endif
    if (dlshim_borrow(x, &a.want, &g.view) < 0) {
        return NULL;
    }
    double lent = *(double *)((char *)g.view.array.data + g.view.array.byte_offset);
    dlshim_borrow_end(&g.view);
    if (dlshim_import(x, &a.want, &tensor) < 0) {
        return NULL;
    }
    dlshim_array array = dlshim_look(tensor, NULL);
    double taken = *(double *)((char *)array.data + array.byte_offset);
    dlshim_release(tensor);
    if (!is_whole(g.after, sizeof g.after) || !is_whole(a.after, sizeof a.after)) {
        return PyErr_Format(PyExc_SystemError, "written behind a struct");
    }
#ifdef DLSHIM_0_1_9_
    later = g.view.later;
#endif
    return Py_BuildValue("ddL", lent, taken, later);
}

static PyObject *
made(PyObject *self, PyObject *args)
{
    double *data = calloc(3, sizeof *data);
    int64_t n = 3;
    dlshim_array array = {data, 1, 0, 1, {2, 64, 1}, &n, NULL, 0};
    dlshim_stream ready = {DLSHIM_STREAM_READY, 0};
    (void)self;
    (void)args;
    return dlshim_export_array(&array, 0, data, free, &ready);
}

#ifdef DLSHIM_0_1_9_
static PyObject *
answer(PyObject *self, PyObject *args)
{
    int said = dlshim_answer(2);
    (void)self;
    (void)args;
    return said < 0 ? NULL : PyLong_FromLong(said);
}
#endif

static PyMethodDef methods[] = {
    {"first", first, METH_VARARGS, NULL},
    {"made", made, METH_NOARGS, NULL},
#ifdef DLSHIM_0_1_9_
    {"answer", answer, METH_NOARGS, NULL},
#endif
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "extension", NULL, -1, methods, NULL, NULL, NULL, NULL};
PyMODINIT_FUNC
PyInit_extension(void)
{
    return dlshim_load() != NULL ? PyModule_Create(&definition) : NULL;
}

/* The least that reading a column of Arrow costs: its structs are asked for, moved out of their
 * capsules and released.  Whoever takes a column does at least that.  To drop the capsule of a stream
 * unread is less: no array is exported then.
 *
 * `read` does no more.  `capsule` gives the first array to a capsule of DLPack, as one dimension of
 * 64-bit floats, and does not look at what the structs say. */
#include "floor.h"

#include "../../src/abi/arrow_abi.h"

/* An export of DLPack that owns the array of the column. */
typedef struct {
    dl_managed_tensor_versioned managed;
    arrow_array array;
    int64_t shape, stride;
} column_export;

static PyObject *ask(PyObject *module, PyObject *source, bool stream)
{
    floor_state *st = (floor_state *)PyModule_GetState(module);
    PyObject *args[2] = {NULL, source};
    PyObject *name = stream ? st->name_arrow_stream : st->name_arrow_array;
    return st->vectorcall_method(name, args + 1, 1 | FLOOR_OFFSET, NULL);
}

/* Move the array of a pair of capsules; its schema is released.  -1: exception. */
static int take_pair(PyObject *module, PyObject *source, arrow_array *array)
{
    PyObject *pair = ask(module, source, false);
    if (pair == NULL) {
        return -1;
    }
    arrow_schema *schema = PyCapsule_GetPointer(PyTuple_GetItem(pair, 0), ARROW_NAME_SCHEMA);
    arrow_array *from = PyCapsule_GetPointer(PyTuple_GetItem(pair, 1), ARROW_NAME_ARRAY);
    schema->release(schema);
    *array = *from;
    from->release = NULL;
    Py_DECREF(pair);
    return 0;
}

/* Move the first array of a stream, which is read to its end and released. */
static int take_stream(PyObject *module, PyObject *source, arrow_array *array)
{
    arrow_schema schema;
    arrow_array end;
    PyObject *capsule = ask(module, source, true);
    if (capsule == NULL) {
        return -1;
    }
    arrow_stream *stream = PyCapsule_GetPointer(capsule, ARROW_NAME_STREAM);
    if (stream->get_schema(stream, &schema) != 0 || stream->get_next(stream, array) != 0 ||
        stream->get_next(stream, &end) != 0 || end.release != NULL) {
        Py_FatalError("the floor reads streams of one array");
    }
    schema.release(&schema);
    stream->release(stream);
    Py_DECREF(capsule);
    return 0;
}

static void export_delete(dl_managed_tensor_versioned *self)
{
    column_export *made = (column_export *)self;
    made->array.release(&made->array);
    free(made);
}

static PyObject *capsule_of(const arrow_array *array)
{
    column_export *made = floor_get(sizeof *made);
    made->array = *array;
    made->shape = array->length;
    made->stride = 1;
    made->managed = (dl_managed_tensor_versioned){
        .version = {1, 3},
        .deleter = export_delete,
        .dl_tensor = {.data = (void *)array->buffers[1],
                      .device = {dl_kDLCPU, 0},
                      .ndim = 1,
                      .dtype = {dl_kDLFloat, 64, 1},
                      .shape = &made->shape,
                      .strides = &made->stride,
                      .byte_offset = 8 * (uint64_t)array->offset},
    };
    return floor_capsule_versioned(&made->managed);
}

static PyObject *read_array(PyObject *module, PyObject *source)
{
    arrow_array array;
    if (take_pair(module, source, &array) < 0) {
        return NULL;
    }
    array.release(&array);
    Py_RETURN_NONE;
}

static PyObject *read_stream(PyObject *module, PyObject *source)
{
    arrow_array array;
    if (take_stream(module, source, &array) < 0) {
        return NULL;
    }
    array.release(&array);
    Py_RETURN_NONE;
}

static PyObject *array_capsule(PyObject *module, PyObject *source)
{
    arrow_array array;
    return take_pair(module, source, &array) < 0 ? NULL : capsule_of(&array);
}

static PyObject *stream_capsule(PyObject *module, PyObject *source)
{
    arrow_array array;
    return take_stream(module, source, &array) < 0 ? NULL : capsule_of(&array);
}

static PyMethodDef arrow_methods[] = {
    {"read_array", read_array, METH_O, "Read a column by `__arrow_c_array__`, and release it."},
    {"read_stream", read_stream, METH_O, "Read a column by `__arrow_c_stream__`, and release it."},
    {"array_capsule", array_capsule, METH_O, "A capsule of DLPack, by `__arrow_c_array__`."},
    {"stream_capsule", stream_capsule, METH_O, "A capsule of DLPack, by `__arrow_c_stream__`."},
    {NULL, NULL, 0, NULL},
};

int floor_add_arrow(PyObject *module)
{
    return PyModule_AddFunctions(module, arrow_methods);
}

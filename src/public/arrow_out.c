/* A Tensor as a column of Arrow: first the refusals, then a schema and an array, each
 * in a capsule.  An axis beyond the first is a level of lists of fixed size, so the
 * Tensor has one struct for each axis; the last has the elements.  The structs of a
 * column are one block, freed when all of them are released.  release_schema and
 * release_array run on any thread, attached or not.  Tests:
 * tests/core/test_arrow_out.py. */
#include "public/tensor_type.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "abi/arrow_abi.h"
#include "core/alloc.h"
#include "core/dtype.h"
#include "core/tensor.h"
#include "exchange/objects.h"
#include "python/errors.h"
#include "types/library.h"

#define LIST "+w:"  /* a list of fixed size; the number of items follows */
#define ITEM "item" /* the name that Arrow's libraries give to the items of a list */
#define CAPSULE "a capsule named " ARROW_NAME_SCHEMA

/* --- the owner of a block of structs ---------------------------------------------- */

typedef struct {
    _Atomic int64_t structs; /* not released yet */
    dls_hold hold;           /* an array: a share of the Tensor's memory */
} owner;

/* A new block that begins with an owner of `structs` structs, which holds nothing yet.
 * NULL when out of memory. */
static owner *
owner_new(int32_t structs, size_t bytes)
{
    owner *self = dls_alloc(bytes);
    if (self != NULL) {
        atomic_init(&self->structs, structs);
        self->hold = (dls_hold){0};
        DLS_COUNT_LIVE(1);
    }
    return self;
}

/* So many structs were released.  With the last of them the memory is given back. */
static void
owner_drop(owner *self, int64_t structs)
{
    if (atomic_fetch_sub_explicit(&self->structs, structs, memory_order_acq_rel)
        == structs) {
        dls_hold_drop(&self->hold, DLS_ATTACHMENT_UNKNOWN);
        dls_free(self);
        DLS_COUNT_LIVE(-1);
    }
}

/* --- the schema ------------------------------------------------------------------- */

typedef struct {
    arrow_schema schema;
    arrow_schema *items; /* the next level's */
    char list[24];       /* the format */
} schema_level;

typedef struct {
    owner owner;
    schema_level levels[];
} schema_block;

/* A level that a consumer has moved away is released by its new owner, and with it the
 * levels below. */
static void
release_schema(arrow_schema *self)
{
    owner *block = self->private_data;
    int64_t released = 0;
    for (arrow_schema *at = self; at != NULL && at->release != NULL;
         at = at->n_children > 0 ? at->children[0] : NULL) {
        at->release = NULL;
        released++;
    }
    owner_drop(block, released);
}

/* Fill *schema.  False when out of memory. */
static bool
fill_schema(const dls_tensor *data, const char *format, arrow_schema *schema)
{
    int32_t n = data->tensor.ndim;
    schema_block *block = (schema_block *)owner_new(
        n, sizeof *block + (size_t)n * sizeof *block->levels);
    if (block == NULL) {
        return false;
    }
    for (int32_t i = 0; i < n; i++) {
        schema_level *level = &block->levels[i];
        bool list = i + 1 < n;
        level->schema = (arrow_schema){
            .format = list ? level->list : format,
            .name = i > 0 ? ITEM : "",
            .flags = ARROW_FLAG_NULLABLE, /* as the types of Arrow's libraries are */
            .n_children = list ? 1 : 0,
            .children = list ? &level->items : NULL,
            .release = release_schema,
            .private_data = &block->owner,
        };
        if (list) {
            level->items = &block->levels[i + 1].schema;
            snprintf(level->list, sizeof level->list, LIST "%" PRId64,
                     data->tensor.shape[i + 1]);
        }
    }
    *schema = block->levels[0].schema;
    return true;
}

/* --- the array -------------------------------------------------------------------- */

typedef struct {
    arrow_array array;
    arrow_array *items;
    const void *buffers[2]; /* no bitmap; the elements */
} array_level;

typedef struct {
    owner owner;
    array_level levels[];
} array_block;

static void
release_array(arrow_array *self)
{
    owner *block = self->private_data;
    int64_t released = 0;
    for (arrow_array *at = self; at != NULL && at->release != NULL;
         at = at->n_children > 0 ? at->children[0] : NULL) {
        at->release = NULL;
        released++;
    }
    owner_drop(block, released);
}

/* Fill *array, which owns a share of the Tensor's memory.  False with MemoryError. */
static bool
fill_array(dls_tensor *data, arrow_array *array)
{
    int32_t n = data->tensor.ndim;
    dls_shared *shared = dls_tensor_share(data);
    array_block *block = NULL;
    if (shared != NULL) {
        block = (array_block *)owner_new(n, sizeof *block
                                                + (size_t)n * sizeof *block->levels);
    }
    if (block == NULL) {
        dls_shared_drop(shared, DLS_ATTACHED);
        return false;
    }
    block->owner.hold = (dls_hold){.base = shared, .kind = DLS_HOLD_SHARED};
    int64_t length = 1;
    for (int32_t i = 0; i < n; i++) {
        array_level *level = &block->levels[i];
        bool list = i + 1 < n;
        length *= data->tensor.shape[i]; /* refuse() has checked it */
        level->buffers[0] = NULL;
        level->buffers[1] = dls_tensor_address(data);
        level->items = list ? &block->levels[i + 1].array : NULL;
        level->array = (arrow_array){
            .length = length,
            .n_buffers = list ? 1 : 2,
            .n_children = list ? 1 : 0,
            .buffers = level->buffers,
            .children = list ? &level->items : NULL,
            .release = release_array,
            .private_data = &block->owner,
        };
    }
    *array = block->levels[0].array;
    return true;
}

/* --- the capsules ----------------------------------------------------------------- */

/* A consumer that has moved the struct has set its release to NULL. */
static void
destroy_schema(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, ARROW_NAME_SCHEMA)) {
        arrow_schema *schema = PyCapsule_GetPointer(capsule, ARROW_NAME_SCHEMA);
        if (schema->release != NULL) {
            schema->release(schema);
        }
        dls_free(schema);
    }
}

static void
destroy_array(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, ARROW_NAME_ARRAY)) {
        arrow_array *array = PyCapsule_GetPointer(capsule, ARROW_NAME_ARRAY);
        if (array->release != NULL) {
            array->release(array);
        }
        dls_free(array);
    }
}

/* The next two return a new capsule; NULL with MemoryError. */
static PyObject *
new_schema(const dls_tensor *data, const char *format)
{
    arrow_schema *schema = dls_alloc(sizeof *schema);
    PyObject *capsule = NULL;
    if (schema == NULL || !fill_schema(data, format, schema)) {
        dls_free(schema);
        return PyErr_NoMemory();
    }
    capsule = PyCapsule_New(schema, ARROW_NAME_SCHEMA, destroy_schema);
    if (capsule == NULL) {
        schema->release(schema);
        dls_free(schema);
    }
    return capsule;
}

static PyObject *
new_array(dls_tensor *data)
{
    arrow_array *array = dls_alloc(sizeof *array);
    PyObject *capsule = NULL;
    if (array == NULL || !fill_array(data, array)) {
        dls_free(array);
        return PyErr_NoMemory();
    }
    capsule = PyCapsule_New(array, ARROW_NAME_ARRAY, destroy_array);
    if (capsule == NULL) {
        array->release(array);
        dls_free(array);
    }
    return capsule;
}

/* --- refusals --------------------------------------------------------------------- */

/* Refuse a dtype whose memory is no column. */
static int
refuse_dtype(PyObject *self, const dls_tensor *data)
{
    char name[48];
    dl_dtype dtype = data->tensor.dtype;
    int bits = (int)dls_tensor_itemsize(data) * 8;
    bool has_bits = bits == 8 || bits == 16 || bits == 32 || bits == 64;
    dls_dtype_name(dtype, name, sizeof name);
    if (dtype.code == dl_kDLBool && dtype.lanes == 1) {
        /* Few constructors of columns take NumPy's arrays of several axes. */
        return dls_refuse(data->state, DLS_EBUFFER, self,
                          data->tensor.ndim == 1
                              ? "Arrow packs booleans into bits\n"
                                "  pass x.numpy(), which is copied, or "
                                "dlshim.from_dlpack(x, reinterpret=\"uint%d\")"
                              : "Arrow packs booleans into bits\n"
                                "  pass dlshim.from_dlpack(x, reinterpret=\"uint%d\")",
                          bits);
    }
    if (dtype.code == dl_kDLComplex && dls_dtype_format(dtype) != NULL) {
        return dls_refuse(data->state, DLS_EBUFFER, self,
                          "Arrow has no %s\n"
                          "  pass dlshim.from_dlpack(x.numpy().real, order=\"C\"), and "
                          ".imag in the same way",
                          name);
    }
    if (has_bits) {
        return dls_refuse(data->state, DLS_EBUFFER, self,
                          "Arrow has no %s\n"
                          "  convert it to float32 or another dtype of Arrow, or pass "
                          "its bits, dlshim.from_dlpack(x, reinterpret=\"uint%d\")",
                          name, bits);
    }
    return dls_refuse(
        data->state, DLS_EBUFFER, self,
        "Arrow has no %s\n"
        "  convert it with its own library to a dtype of Arrow (float32, int8)",
        name);
}

/* Why the shape is no column, NULL if it is one. */
static const char *
wrong_shape(const dl_tensor *t)
{
    if (t->ndim == 0) {
        return "it has no axes, and a column has one\n"
               "  pass dlshim.from_dlpack(x.numpy().reshape(1))";
    }
    if (!dls_layout_is_contiguous(t->ndim, t->shape, t->strides)) {
        return "it is not C-contiguous, and a column is\n"
               "  pass dlshim.from_dlpack(x, order=\"C\")";
    }
    int64_t length = t->shape[0];
    for (int32_t i = 1; i < t->ndim; i++) {
        if (t->shape[i] > INT32_MAX) {
            return "a list of Arrow has at most 2147483647 items\n"
                   "  pass dlshim.from_dlpack(x.numpy().reshape(-1))";
        }
        if (!dls_mul(length, t->shape[i], &length)) {
            return "the number of its lists overflows 64 bits";
        }
    }
    return NULL;
}

/* Rows without elements, for a library that ends in a panic over them: no except clause
 * catches it. */
static int
refuse_empty_rows(PyObject *self, const dls_tensor *data)
{
    const dl_tensor *t = &data->tensor;
    bool empty = false;
    for (int32_t i = 1; i < t->ndim; i++) {
        empty = empty || t->shape[i] == 0;
    }
    const char *package = empty && t->shape[0] != 0
                              ? dls_library_asked_within(data->state,
                                                         DLS_ASKER_WANTS_ELEMENTS)
                              : NULL;
    return package == NULL
               ? 0
               : dls_refuse(data->state, DLS_EBUFFER, self,
                            "its rows have no elements, and %s ends in a panic over "
                            "such a column\n"
                            "  pass dlshim.from_dlpack(x.numpy().reshape(-1))",
                            package);
}

/* 0 if the Tensor is a column, else -1 with BufferError. */
static int
refuse_column(PyObject *self, const dls_tensor *data)
{
    const char *why = wrong_shape(&data->tensor);
    if (!dls_device_is_host(data->tensor.device.device_type)) {
        why = "its memory is not on the host\n"
              "  pass dlshim.from_dlpack(x, device=\"cpu\")";
    }
    if (why != NULL) {
        return dls_refuse(data->state, DLS_EBUFFER, self, "%s", why);
    }
    return dls_dtype_arrow(data->tensor.dtype) == NULL ? refuse_dtype(self, data)
                                                       : refuse_empty_rows(self, data);
}

/* --- what the consumer would like --------------------------------------------------
 */

/* Are these lists of one axis, the next level being of `extent` items? */
static bool
is_list_of(const arrow_schema *schema, int64_t extent)
{
    static const char *const other[] = {"+l", "+L", "+vl", "+vL"};
    const char *format = schema->format;
    bool fits = strncmp(format, LIST, strlen(LIST)) == 0
                && strtoll(format + strlen(LIST), NULL, 10) == extent;
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        fits = fits || strcmp(format, other[i]) == 0;
    }
    return fits && schema->n_children == 1 && schema->children != NULL
           && schema->children[0] != NULL;
}

/* Could a schema describe the same data in other types?  dlshim converts nothing, so it
 * gives its own schema then, as Arrow allows. */
static bool
is_compatible(const dl_tensor *t, const arrow_schema *schema)
{
    for (int32_t i = 1; i < t->ndim; i++) {
        if (schema->format == NULL || !is_list_of(schema, t->shape[i])) {
            return false;
        }
        schema = schema->children[0];
    }
    const char *format = schema->format; /* "+r": runs of equal values */
    return format != NULL && (schema->n_children == 0 || strcmp(format, "+r") == 0);
}

/* 0, or -1 with TypeError or ValueError.  `requested` is only looked at. */
static int
check_requested(PyObject *self, const dls_tensor *data, PyObject *requested)
{
    if (requested == Py_None) {
        return 0;
    }
    if (!PyCapsule_IsValid(requested, ARROW_NAME_SCHEMA)) {
        return dls_refuse(
            data->state, DLS_ETYPE, requested,
            "it was given as requested_schema, which is None or " CAPSULE);
    }
    const arrow_schema *schema = PyCapsule_GetPointer(requested, ARROW_NAME_SCHEMA);
    if (schema->release == NULL) {
        return dls_refuse(data->state, DLS_EVALUE, NULL,
                          "requested_schema was released\n"
                          "  pass a new one, or None");
    }
    if (!is_compatible(&data->tensor, schema)) {
        return dls_refuse(
            data->state, DLS_EVALUE, self,
            "requested_schema has lists or fields that its %d axes do not have\n"
            "  pass None, and convert the column that comes",
            (int)data->tensor.ndim);
    }
    return 0;
}

PyObject *
dls_tensor_arrow(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"requested_schema", NULL};
    dls_tensor *data = dls_tensor_data(self);
    PyObject *requested = Py_None, *schema = NULL, *array = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:__arrow_c_array__", names,
                                     &requested)
        || refuse_column(self, data) < 0
        || check_requested(self, data, requested) < 0) {
        return NULL;
    }
    schema = new_schema(data, dls_dtype_arrow(data->tensor.dtype));
    array = schema != NULL ? new_array(data) : NULL;
    if (array == NULL) {
        Py_XDECREF(schema);
        return NULL;
    }
    return Py_BuildValue("(NN)", schema, array);
}

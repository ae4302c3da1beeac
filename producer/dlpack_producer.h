/* dlpack_producer.h 0.1.0: host memory out of C or C++ to every consumer of DLPack.
 * SPDX-License-Identifier: Apache-2.0
 *
 * One file to copy; C99 or C++11, CPython 3.8 or newer, with and without the GIL.  It needs neither
 * dlpack.h nor any package.  A type gets __dlpack__ and __dlpack_device__, of DLPack 0.x and 1.x, and
 * if it can also take arrays, DLPack's C exchange API:
 *
 *     #include "dlpack_producer.h"
 *
 *     static int
 *     image_array(PyObject *self, dlpack_array *array)     // you fill it; 0, or -1 with an exception
 *     {
 *         ...
 *     }
 *     DLPACK_PRODUCER(image, image_array)                  // defines image_dlpack, image_device
 *
 *     static PyMethodDef methods[] = {DLPACK_PRODUCER_METHODS(image), {NULL, NULL, 0, NULL}};
 *
 * Who owns what: an export keeps a reference to array.owner, until the consumer has called the
 * deleter, on any thread, with or without the GIL.  After Python's end a reference is not given back:
 * nobody can.  Memory that must be ended without Python has array.release instead, which is called
 * once with array.context, on any thread.  In a subinterpreter of CPython before 3.12 a deleter that
 * needs the GIL waits for ever (PyGILState_Ensure), as NumPy's does: use array.release there.
 *
 * What it does not do: memory of devices and their streams, tensors with autograd, columns, the older
 * interfaces.  For these, and for taking arrays in, see dlshim. */
#ifndef DLPACK_PRODUCER_H
#define DLPACK_PRODUCER_H

#include <Python.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus /* with its own casts: projects have C's among the warnings */
#define DLPACK_TO_(type, value) static_cast<type>(value)
#define DLPACK_SEEN_AS_(type, value) reinterpret_cast<type>(value)
#else
#define DLPACK_TO_(type, value) ((type)(value))
#define DLPACK_SEEN_AS_(type, value) ((type)(value))
#endif

/* What your function says of an object.  It is zeroed before. */
typedef struct {
    void *data;           /* the first element; may be NULL if there are no elements */
    int32_t ndim;         /* 0 to 64 */
    uint8_t code, bits;   /* DLPack's: 0 int, 1 uint, 2 float, 4 bfloat, 5 complex, 6 bool; 64 for double */
    const int64_t *shape; /* read during the call alone, as are the strides */
    const int64_t *strides; /* in elements, of any sign; NULL: row-major */
    int read_only;          /* 1: nobody may write there */
    PyObject *owner;        /* borrowed; it keeps the memory alive; NULL: the object itself */
    void (*release)(void *context); /* instead of an owner; NULL: there is an owner */
    void *context;
} dlpack_array;

/* Fills *array.  0, or -1 with an exception; BufferError where DLPack cannot describe the object. */
typedef int (*dlpack_describe)(PyObject *self, dlpack_array *array);

/* --- the structs of DLPack 1.3 and 0.x --------------------------------------------------------- */

typedef struct {
    void *data;
    int32_t device_type, device_id;
    int32_t ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} dlpack_tensor_;

typedef struct dlpack_legacy_ {
    dlpack_tensor_ tensor;
    void *context;
    void (*deleter)(struct dlpack_legacy_ *self);
} dlpack_legacy_;

typedef struct dlpack_versioned_ {
    uint32_t major, minor;
    void *context;
    void (*deleter)(struct dlpack_versioned_ *self);
    uint64_t flags;
    dlpack_tensor_ tensor;
} dlpack_versioned_;

enum { DLPACK_READ_ONLY_ = 1, DLPACK_IS_COPIED_ = 2, DLPACK_MAX_NDIM_ = 64 };

/* One block for an export: the struct, what it holds, shape and strides, and the elements of a copy. */
typedef struct {
    union {
        dlpack_legacy_ legacy;
        dlpack_versioned_ versioned;
    } as;
    PyObject *owner; /* strong, or NULL */
    void (*release)(void *context);
    void *context;
    int64_t dims[1]; /* 2 * ndim */
} dlpack_export_;

/* --- the end of an export ---------------------------------------------------------------------- */

static inline int
dlpack_is_ending_(void)
{
#if PY_VERSION_HEX >= 0x030d0000 && (!defined(Py_LIMITED_API) || Py_LIMITED_API + 0 >= 0x030d0000)
    return !Py_IsInitialized() || Py_IsFinalizing();
#elif defined(Py_LIMITED_API)
    return !Py_IsInitialized();
#else
    return !Py_IsInitialized() || _Py_IsFinalizing();
#endif
}

/* With the GIL.  A destructor may be run while an exception is raised. */
static inline void
dlpack_drop_(PyObject *owner)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    Py_DECREF(owner);
    PyErr_Restore(type, value, traceback);
}

/* On any thread; `has_gil` is 1 where the thread is known to have the GIL, else 0.  A thread that asked
 * for it while Python ends would be stopped for ever, so the reference is left then. */
static inline void
dlpack_end_(dlpack_export_ *self, int has_gil)
{
    if (self->release != NULL) {
        self->release(self->context);
    }
    else if (!dlpack_is_ending_()) {
        if (has_gil) {
            dlpack_drop_(self->owner);
        }
        else {
            PyGILState_STATE state = PyGILState_Ensure();
            dlpack_drop_(self->owner);
            PyGILState_Release(state);
        }
    }
    free(self);
}

static void
dlpack_end_legacy_(dlpack_legacy_ *self)
{
    dlpack_end_(DLPACK_SEEN_AS_(dlpack_export_ *, self), 0);
}

static void
dlpack_end_versioned_(dlpack_versioned_ *self)
{
    dlpack_end_(DLPACK_SEEN_AS_(dlpack_export_ *, self), 0);
}

/* The destructor of a capsule: a consumer that has taken the struct has renamed the capsule. */
static void
dlpack_end_capsule_(PyObject *capsule)
{
    const char *name = PyCapsule_GetName(capsule);
    if (name != NULL && (strcmp(name, "dltensor") == 0 || strcmp(name, "dltensor_versioned") == 0)) {
        dlpack_end_(DLPACK_TO_(dlpack_export_ *, PyCapsule_GetPointer(capsule, name)), 1);
    }
}

/* --- an export --------------------------------------------------------------------------------- */

/* Sets *n to the number of elements, of `size` bytes each; NULL, or what is wrong.  Without the GIL, too.
 * An axis of length 0 counts as 1 in the check, so that no product of extents overflows. */
static inline const char *
dlpack_count_(int32_t ndim, const int64_t *shape, int64_t size, int64_t *n)
{
    int64_t all = 1;
    int32_t i;
    int empty = 0;
    if (ndim < 0 || ndim > DLPACK_MAX_NDIM_ || size <= 0) {
        return "DLPack cannot describe this number of dimensions, or these elements";
    }
    for (i = 0; i < ndim; i++) {
        const int64_t extent = shape[i] != 0 ? shape[i] : 1;
        empty |= shape[i] == 0;
        if (extent < 0) {
            return "an extent is negative";
        }
        if (extent > PTRDIFF_MAX / all / size) {
            return "there are more bytes than memory can have";
        }
        all *= extent;
    }
    *n = empty ? 0 : all;
    return NULL;
}

/* Strides are always given (DLPack 1.2 demands them).  Those of an axis of length 0 or 1 mean nothing,
 * and are what they would be in a row-major array: some consumers compare them. */
static inline void
dlpack_fill_(const dlpack_array *array, dlpack_export_ *self, dlpack_tensor_ *tensor, int copied)
{
    int64_t stride = 1;
    int32_t i;
    int empty = 0;
    tensor->shape = self->dims;
    tensor->strides = self->dims + array->ndim;
    for (i = array->ndim; i-- > 0;) {
        int64_t extent = array->shape[i];
        int given = array->strides != NULL && !copied && extent > 1;
        empty |= extent == 0;
        tensor->shape[i] = extent;
        tensor->strides[i] = given ? array->strides[i] : stride;
        /* It is used for axes of length 0 and 1 alone; the product of strides that lead nowhere may wrap. */
        stride = DLPACK_TO_(int64_t, DLPACK_TO_(uint64_t, extent > 1 ? extent : 1)
                                         * DLPACK_TO_(uint64_t, tensor->strides[i]));
    }
    tensor->data = empty ? NULL : array->data; /* DLPack 1.1 */
    tensor->device_type = 1;
    tensor->device_id = 0;
    tensor->ndim = array->ndim;
    tensor->code = array->code;
    tensor->bits = array->bits;
    tensor->lanes = 1;
    tensor->byte_offset = 0;
}

/* Copy the elements, of any strides, in row-major order. */
static inline void
dlpack_copy_(const dlpack_array *array, int64_t n, char *to)
{
    int64_t index[DLPACK_MAX_NDIM_] = {0}, at, row[DLPACK_MAX_NDIM_], stride = 1;
    const int64_t size = array->bits / 8;
    int32_t i;
    for (i = array->ndim; i-- > 0;) {
        row[i] = array->strides != NULL ? array->strides[i] : stride;
        stride *= array->shape[i] != 0 ? array->shape[i] : 1;
    }
    for (at = 0; at < n; at++) {
        int64_t offset = 0;
        for (i = 0; i < array->ndim; i++) {
            offset += index[i] * row[i];
        }
        memcpy(to + at * size, DLPACK_TO_(const char *, array->data) + offset * size,
               DLPACK_TO_(size_t, size));
        for (i = array->ndim; i-- > 0 && ++index[i] == array->shape[i];) {
            index[i] = 0;
        }
    }
}

/* A struct around the object's memory, or around a copy.  NULL with an exception. */
static inline dlpack_export_ *
dlpack_make_(PyObject *object, dlpack_array *array, int versioned, int copied)
{
    int64_t n = 0;
    const char *wrong = dlpack_count_(array->ndim, array->shape, array->bits % 8 == 0 ? array->bits / 8 : 0, &n);
    size_t head, bytes;
    dlpack_export_ *self;
    dlpack_tensor_ *tensor;
    if (wrong != NULL) {
        PyErr_SetString(PyExc_BufferError, wrong);
        return NULL;
    }
    head = sizeof *self + 2 * sizeof(int64_t) * DLPACK_TO_(size_t, array->ndim);
    bytes = copied ? DLPACK_TO_(size_t, n) * (array->bits / 8) + 64 : 0; /* 64: to align the copy */
    self = DLPACK_TO_(dlpack_export_ *, malloc(head + bytes));
    if (self == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    memset(self, 0, sizeof *self);
    tensor = versioned ? &self->as.versioned.tensor : &self->as.legacy.tensor;
    dlpack_fill_(array, self, tensor, copied);
    if (copied) {
        char *to = DLPACK_SEEN_AS_(char *, self) + head;
        to += 63 - (DLPACK_SEEN_AS_(uintptr_t, to) + 63) % 64;
        dlpack_copy_(array, n, to);
        tensor->data = n != 0 ? to : NULL;
    }
    if (versioned) {
        self->as.versioned.major = 1;
        self->as.versioned.minor = 3;
        self->as.versioned.deleter = dlpack_end_versioned_;
        self->as.versioned.flags = copied             ? DLPACK_IS_COPIED_
                                   : array->read_only ? DLPACK_READ_ONLY_
                                                      : 0;
    }
    else {
        self->as.legacy.deleter = dlpack_end_legacy_;
    }
    if (copied) {
        self->release = free; /* of NULL: the block is all there is */
    }
    else if (array->release != NULL) {
        self->release = array->release;
        self->context = array->context;
    }
    else {
        self->owner = array->owner != NULL ? array->owner : object;
        Py_INCREF(self->owner);
    }
    return self;
}

/* --- __dlpack__ and __dlpack_device__ ------------------------------------------------------------ */

/* The arguments of __dlpack__(*, stream=None, max_version=None, dl_device=None, copy=None). */
typedef struct {
    int versioned;
    int copy; /* -1: as the producer likes; 0: never; 1: always */
} dlpack_asked_;

/* Leaves both numbers as they are where `pair` is None.  0, or -1 with TypeError. */
static inline int
dlpack_pair_(PyObject *pair, long *first, long *second)
{
    if (pair != Py_None && !PyTuple_Check(pair)) {
        PyErr_SetString(PyExc_TypeError, "max_version and dl_device are None or tuples of two integers");
        return -1;
    }
    return pair == Py_None || PyArg_ParseTuple(pair, "ll;max_version and dl_device have two integers", first, second)
               ? 0
               : -1;
}

static inline int
dlpack_read_(PyObject *args, PyObject *kwargs, dlpack_asked_ *asked)
{
    static char names_[4][12] = {"stream", "max_version", "dl_device", "copy"};
    static char *names[] = {names_[0], names_[1], names_[2], names_[3], NULL};
    PyObject *stream = Py_None, *version = Py_None, *device = Py_None, *copy = Py_None;
    long major = 0, minor = 0, type = 1, id = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOOO:__dlpack__", names, &stream, &version,
                                     &device, &copy)) {
        return -1;
    }
    if (stream != Py_None) {
        PyErr_SetString(PyExc_BufferError, "the memory is the host's, which has no streams\n"
                                           "  pass None");
        return -1;
    }
    if (dlpack_pair_(version, &major, &minor) < 0 || dlpack_pair_(device, &type, &id) < 0) {
        return -1;
    }
    if (type != 1) { /* the host has one number */
        PyErr_SetString(PyExc_BufferError, "the memory is the host's, and is not copied to a device");
        return -1;
    }
    asked->versioned = major >= 1;
    asked->copy = copy == Py_None ? -1 : PyObject_IsTrue(copy);
    return copy != Py_None && asked->copy < 0 ? -1 : 0;
}

static inline PyObject *
dlpack_answer_(PyObject *self, PyObject *args, PyObject *kwargs, dlpack_describe describe)
{
    dlpack_asked_ asked;
    dlpack_array array;
    dlpack_export_ *made;
    PyObject *capsule;
    memset(&array, 0, sizeof array);
    if (dlpack_read_(args, kwargs, &asked) < 0 || describe(self, &array) < 0) {
        return NULL;
    }
    if (array.read_only && !asked.versioned && asked.copy != 1) {
        PyErr_SetString(PyExc_BufferError, "the memory is read-only, which DLPack 0.x cannot say\n"
                                           "  ask for max_version=(1, 0), or for copy=True");
        made = NULL;
    }
    else {
        made = dlpack_make_(self, &array, asked.versioned, asked.copy == 1);
    }
    if (array.release != NULL && (made == NULL || asked.copy == 1)) {
        array.release(array.context); /* no export has taken it */
    }
    if (made == NULL) {
        return NULL;
    }
    capsule = PyCapsule_New(made, asked.versioned ? "dltensor_versioned" : "dltensor", dlpack_end_capsule_);
    if (capsule == NULL) {
        dlpack_end_(made, 1);
    }
    return capsule;
}

#define DLPACK_PRODUCER(prefix, describe)                                           \
    static PyObject *prefix##_dlpack(PyObject *self, PyObject *args, PyObject *kwargs) \
    {                                                                               \
        return dlpack_answer_(self, args, kwargs, describe);                        \
    }                                                                               \
    static PyObject *prefix##_device(PyObject *self, PyObject *ignored)             \
    {                                                                               \
        (void)self;                                                                 \
        (void)ignored;                                                              \
        return Py_BuildValue("(ii)", 1, 0);                                         \
    }

#define DLPACK_PRODUCER_METHODS(prefix)                                              \
    {"__dlpack__", DLPACK_SEEN_AS_(PyCFunction, DLPACK_SEEN_AS_(void (*)(void), prefix##_dlpack)), \
     METH_VARARGS | METH_KEYWORDS, NULL},                                            \
    {"__dlpack_device__", prefix##_device, METH_NOARGS, NULL}

/* --- the C exchange API --------------------------------------------------------------------------- */

typedef struct {
    uint32_t major, minor;
    void *previous;
    int (*allocate)(dlpack_tensor_ *prototype, dlpack_versioned_ **out, void *context,
                    void (*set_error)(void *context, const char *kind, const char *message));
    int (*from_object)(void *object, dlpack_versioned_ **out);
    int (*to_object)(dlpack_versioned_ *tensor, void **out);
    int (*borrow)(void *object, dlpack_tensor_ *out);
    int (*work_stream)(int32_t device_type, int32_t device_id, void **out);
} dlpack_table_;

static inline int
dlpack_give_(void *object, dlpack_versioned_ **out, dlpack_describe describe)
{
    dlpack_array array;
    dlpack_export_ *made;
    memset(&array, 0, sizeof array);
    *out = NULL;
    if (describe(DLPACK_TO_(PyObject *, object), &array) < 0) {
        return -1;
    }
    made = dlpack_make_(DLPACK_TO_(PyObject *, object), &array, 1, 0);
    if (made == NULL) {
        if (array.release != NULL) {
            array.release(array.context);
        }
        return -1;
    }
    *out = DLPACK_SEEN_AS_(dlpack_versioned_ *, made); /* its first member */
    return 0;
}

/* Memory of 64-byte alignment, in the same block as its struct.  Called without the GIL, too. */
static inline int
dlpack_allocate_(dlpack_tensor_ *prototype, dlpack_versioned_ **out, void *context,
                 void (*set_error)(void *context, const char *kind, const char *message))
{
    dlpack_array array;
    dlpack_export_ *made;
    const int64_t size = (DLPACK_TO_(int64_t, prototype->bits) * prototype->lanes + 7) / 8;
    int64_t n = 0;
    const char *wrong = prototype->device_type != 1
                            ? "this library allocates host memory only"
                            : dlpack_count_(prototype->ndim, prototype->shape, size, &n);
    *out = NULL;
    if (wrong != NULL) {
        if (set_error != NULL) {
            set_error(context, "BufferError", wrong);
        }
        return -1;
    }
    {
        const size_t head = sizeof *made + 2 * sizeof(int64_t) * DLPACK_TO_(size_t, prototype->ndim);
        char *data;
        made = DLPACK_TO_(dlpack_export_ *, malloc(head + DLPACK_TO_(size_t, n * size) + 64));
        if (made == NULL) {
            if (set_error != NULL) {
                set_error(context, "MemoryError", "out of memory");
            }
            return -1;
        }
        memset(made, 0, sizeof *made);
        memset(&array, 0, sizeof array);
        data = DLPACK_SEEN_AS_(char *, made) + head;
        data += 63 - (DLPACK_SEEN_AS_(uintptr_t, data) + 63) % 64;
        array.data = data;
        array.ndim = prototype->ndim;
        array.shape = prototype->shape;
        array.code = prototype->code;
        array.bits = prototype->bits;
        dlpack_fill_(&array, made, &made->as.versioned.tensor, 1);
        made->as.versioned.tensor.lanes = prototype->lanes;
    }
    made->as.versioned.major = 1;
    made->as.versioned.minor = 3;
    made->as.versioned.deleter = dlpack_end_versioned_;
    made->release = free; /* of NULL: the block is all there is */
    *out = DLPACK_SEEN_AS_(dlpack_versioned_ *, made); /* its first member */
    return 0;
}

static inline int
dlpack_no_stream_(int32_t device_type, int32_t device_id, void **out)
{
    (void)device_type;
    (void)device_id;
    *out = NULL;
    return 0;
}

/* Offer the C exchange API, which a type can if it also takes arrays: a kernel's outputs become objects
 * of the type.  `take` is called with the GIL and a new capsule "dltensor_versioned", which it takes as
 * from_dlpack takes what __dlpack__ gives; it returns a new object, or NULL with an exception.
 *
 * At file level:        DLPACK_PRODUCER_TABLE(image, image_array, image_from_capsule)
 * In the module's init: if (image_add_table((PyTypeObject *)type) < 0) { return NULL; } */
#define DLPACK_PRODUCER_TABLE(prefix, describe, take)                                             \
    static int prefix##_give(void *object, dlpack_versioned_ **out)                               \
    {                                                                                             \
        return dlpack_give_(object, out, describe);                                               \
    }                                                                                             \
    static int prefix##_to_object(dlpack_versioned_ *tensor, void **out)                          \
    {                                                                                             \
        PyObject *capsule = PyCapsule_New(tensor, "dltensor_versioned", NULL);                    \
        *out = capsule != NULL ? take(capsule) : NULL;                                            \
        Py_XDECREF(capsule);                                                                      \
        return *out != NULL ? 0 : -1;                                                             \
    }                                                                                             \
    static int prefix##_add_table(PyTypeObject *type)                                             \
    {                                                                                             \
        static dlpack_table_ table;                                                               \
        PyObject *capsule = PyCapsule_New(&table, "dlpack_exchange_api", NULL);                   \
        int code = -1;                                                                            \
        table.major = 1;                                                                          \
        table.minor = 3;                                                                          \
        table.allocate = dlpack_allocate_;                                                        \
        table.from_object = prefix##_give;                                                        \
        table.to_object = prefix##_to_object;                                                     \
        table.work_stream = dlpack_no_stream_;                                                    \
        if (capsule != NULL) {                                                                    \
            code = PyObject_SetAttrString(DLPACK_SEEN_AS_(PyObject *, type),                      \
                                          "__dlpack_c_exchange_api__", capsule);                  \
            Py_DECREF(capsule);                                                                   \
        }                                                                                         \
        return code;                                                                              \
    }

#endif

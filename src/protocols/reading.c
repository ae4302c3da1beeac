/* The steps that the readers of older protocols share: errors, dtypes, strides, and
 * buffers.  Called by the readers, with the GIL; may touch the reading and the record
 * that it fills. Tests: tests/core/test_ways_in.py, test_bad_input.py. */
#include "protocols/reading.h"

#include <assert.h>
#include <stdarg.h>
#include <string.h>

#include "core/alloc.h"
#include "core/copy.h"
#include "core/dtype.h"
#include "core/tensor.h"
#include "python/errors.h"
#include "types/library.h"

/* text: stolen; NULL with an exception.  Always -1. */
static int
fail(const dls_reading *reading, int code, PyObject *text)
{
    if (text != NULL) {
        dls_refuse(reading->state, code, reading->obj, "%s: %U",
                   dls_protocol_names[reading->protocol], text);
        Py_DECREF(text);
    }
    return -1;
}

int
dls_reading_fail(const dls_reading *reading, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    PyObject *text = PyUnicode_FromFormatV(format, args);
    va_end(args);
    return fail(reading, DLS_EBUFFER, text);
}

int
dls_reading_fail_option(const dls_reading *reading, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    PyObject *text = PyUnicode_FromFormatV(format, args);
    va_end(args);
    return fail(reading, DLS_EOPTION, text);
}

/* A BufferError whose text, a format, ends in an example with an array of NumPy.  Where
 * NumPy reads no memory of the object the text ends before the example.  Always -1. */
static int
fail_with_example(const dls_reading *reading, const char *text)
{
    const char *array = dls_cure_array(reading->state, reading->obj,
                                       !reading->row->off_host);
    Py_ssize_t before = strstr(text, ", e.g. ") - text;
    return fail(reading, DLS_EBUFFER,
                array != NULL ? PyUnicode_FromFormat(text, array)
                              : PyUnicode_FromStringAndSize(text, before));
}

int
dls_reading_fail_structured(const dls_reading *reading)
{
    return fail_with_example(reading,
                             "its elements are structs, which DLPack has no dtype for\n"
                             "  export one field at a time, e.g. %s['field']");
}

int
dls_reading_set_ndim(dls_reading *reading, int64_t ndim)
{
    dls_acquired *acquired = reading->acquired;
    if (ndim < 0 || ndim > DLS_NDIM_INTERFACE) {
        return dls_reading_fail(reading,
                                "it claims %lld dimensions, at most %d are possible\n"
                                "  reshape it first",
                                (long long)ndim, DLS_NDIM_INTERFACE);
    }
    if (dls_acquired_make_dims(acquired, (int32_t)ndim) < 0) {
        return -1;
    }
    acquired->tensor.ndim = (int32_t)ndim;
    acquired->tensor.shape = acquired->dims;
    return 0;
}

/* The dtype that an attribute spells.  1, 0 = none that DLPack has, or -1. */
static int
dtype_from_attribute(PyObject *obj, PyObject *attribute, dl_dtype *dtype)
{
    PyObject *name = NULL;
    int got = dls_get_optional(obj, attribute, &name);
    if (got > 0) {
        const char *text = PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, NULL)
                                                 : NULL;
        PyErr_Clear(); /* lone surrogates are in no dtype's name */
        got = text != NULL && dls_dtype_from_name(text, dtype);
    }
    Py_XDECREF(name);
    return got;
}

/* As dtype_from_attribute, of a dtype of any library, as a name, a class or an object.
 */
static int
dtype_from_any(dls_state *state, PyObject *value, dl_dtype *dtype)
{
    PyObject *name = dls_in_python(state, DLS_IN_DTYPES, "dtype_name", value, NULL, 0,
                                   NULL);
    bool is_name = name != NULL && PyUnicode_Check(name);
    const char *text = is_name ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
    int got = text != NULL && dls_dtype_from_name(text, dtype);
    Py_XDECREF(name); /* lone surrogates leave an exception */
    return name != NULL ? got : -1;
}

/* The dtype that obj.dtype.type.__name__ (which costs NumPy less), obj.dtype.name or
 * obj.dtype itself spells.  Only one counts for which the protocols have no word; any
 * other one they would have said.  Results as above; what raises has no name. */
static int
find_named_dtype(const dls_reading *reading, dl_dtype *dtype)
{
    PyObject *object = NULL, *type = NULL;
    int got = dls_get_optional(reading->obj, reading->state->names.dtype, &object);
    if (got > 0) {
        got = dls_get_optional(object, reading->state->names.type, &type);
        got = got > 0
                  ? dtype_from_attribute(type, reading->state->names.own_name, dtype)
                  : got;
        got = got == 0 ? dtype_from_attribute(object, reading->state->names.name, dtype)
                       : got;
        got = got == 0 ? dtype_from_any(reading->state, object, dtype) : got;
    }
    Py_XDECREF(type);
    Py_XDECREF(object);
    if (PyErr_Occurred() != NULL) {
        return dls_error_forget();
    }
    return got > 0 && !dls_dtype_has_kind(*dtype);
}

/* The object has get_element_type, as OpenVINO's constants: their buffer shows float16
 * as integers, and elements below 8 bits as bytes, more of them than there are.  A word
 * that is none of OpenVINO's tells nothing. */
static int
set_told_dtype(dls_reading *reading)
{
    dl_dtype own, *dtype = &reading->acquired->tensor.dtype;
    PyObject *name = dls_in_python(reading->state, DLS_IN_DTYPES, "element_type",
                                   reading->obj, NULL, 0, NULL);
    const char *text = name != NULL && PyUnicode_Check(name)
                           ? PyUnicode_AsUTF8AndSize(name, NULL)
                           : NULL;
    if (text == NULL) {
        Py_XDECREF(name);
        return PyErr_Occurred() != NULL ? dls_error_forget() : 0;
    }
    int code = 0;
    if (dls_dtype_from_name(text, &own) && own.bits >= 8
        && dls_dtype_itemsize(own, false) == reading->itemsize) {
        *dtype = own.code == dl_kDLBool ? *dtype : own; /* any byte may be a true one */
    }
    else {
        code = dls_reading_fail_option(
            reading,
            "its elements are %U, and it shows others\n"
            "  convert it with its own library first, or take what it shows with "
            "reinterpret= and a dtype of %d bits",
            name, (int)(8 * reading->itemsize));
    }
    Py_DECREF(name);
    return code;
}

/* May the elements have a dtype that the protocols have no word for?  Of 4 bytes, such
 * dtypes are complex numbers of two halves, which nobody shows as a float. */
static bool
may_have_no_word(dl_dtype said, int64_t itemsize)
{
    return itemsize <= (said.code == dl_kDLFloat ? 2 : 4);
}

int
dls_reading_set_dtype(dls_reading *reading, dl_dtype said, int64_t itemsize)
{
    dl_dtype own;
    dl_dtype *dtype = &reading->acquired->tensor.dtype;
    reading->itemsize = itemsize;
    *dtype = said;
    if (reading->request->want.has_dtype) {
        return 0; /* reinterpret= has the last word */
    }
    if (reading->tells_elements) {
        return set_told_dtype(reading);
    }
    if (reading->is_known || !may_have_no_word(said, itemsize)) {
        return 0;
    }
    int got = find_named_dtype(reading, &own);
    if (got <= 0 || dls_dtype_itemsize(own, true) != itemsize) {
        return got < 0 ? -1 : 0;
    }
    if (own.bits < 8) {
        char text[48];
        return dls_reading_fail_option(reading,
                                       "its dtype is %s, and it shows bytes: how many "
                                       "elements are in a byte is not said\n"
                                       "  take the bytes with reinterpret=\"uint8\"",
                                       dls_dtype_name(own, text, sizeof text));
    }
    *dtype = own;
    return 0;
}

static bool
is_among(char kind, const char *kinds)
{
    return kind != '\0' && strchr(kinds, kind) != NULL;
}

int
dls_reading_set_unnamed(dls_reading *reading, char kind, int64_t itemsize)
{
    dl_dtype dtype;
    dls_acquired *acquired = reading->acquired;
    bool time = kind == 'M' || kind == 'm'; /* no dtype has the name of these */
    int got = time ? 0 : find_named_dtype(reading, &dtype);
    if (got < 0) {
        return -1;
    }
    if (got == 0 || dls_dtype_itemsize(dtype, true) != itemsize) {
        uint16_t bytes = itemsize <= UINT16_MAX ? (uint16_t)itemsize : 0;
        uint8_t code = time          ? DLS_DTYPE_TIME
                       : kind == 'c' ? DLS_DTYPE_COMPLEX
                       : kind == 'f' ? DLS_DTYPE_FLOAT
                                     : DLS_DTYPE_UNKNOWN;
        dtype = (dl_dtype){code, 8, bytes};
        if (code == DLS_DTYPE_UNKNOWN && !is_among(kind, "biuV")
            && !reading->request->want.has_dtype) {
            return dls_reading_fail_option(
                reading,
                "element kind '%c' is not known, and its dtype has no name that is\n"
                "  name a dtype of %d bits with reinterpret=",
                kind >= ' ' && kind <= '~' ? kind : '?', (int)(8 * itemsize));
        }
    }
    else if (dtype.bits < 8) {
        acquired->flags |= DL_FLAG_SUBBYTE_PADDED;
    }
    acquired->tensor.dtype = dtype;
    reading->itemsize = itemsize;
    return 0;
}

/* Kinds of elements that are no numbers under any name. */
static const struct {
    const char *kinds, *text;
} refused[] = {
    {"O", "its elements are Python objects, which DLPack has no dtype for\n"
          "  where each is a number, convert them first, e.g. %s.astype('float64'), "
          "which rounds integers to 53 bits and makes nan of None"},
    {"SUa", "its elements are text, which DLPack has no dtype for\n"
            "  pass its bytes or code points as numbers, e.g. "
            "numpy.frombuffer(%s.tobytes(), 'uint8')"},
    /* NumPy's StringDType */
    {"T", "its elements are text of any length, which DLPack has no dtype for\n"
          "  give them the length of the longest and pass the code points as numbers, "
          "e.g. numpy.frombuffer(%s.astype('U20').tobytes(), 'uint32')"},
    {"t", "its elements are bit fields, which DLPack has no dtype for\n"
          "  unpack them to bytes first, e.g. numpy.unpackbits(%s)"},
};

static int
refuse_kind(const dls_reading *reading, char kind)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        if (is_among(kind, refused[i].kinds)) {
            return fail_with_example(reading, refused[i].text);
        }
    }
    return 0;
}

int
dls_reading_check_itemsize(const dls_reading *reading, int64_t itemsize)
{
    if (itemsize <= 0) {
        return dls_reading_fail(reading,
                                "its elements take %lld bytes; only elements of one "
                                "byte or more can be exported",
                                (long long)itemsize);
    }
    return 0;
}

int
dls_reading_set_kind(dls_reading *reading, char kind, int64_t itemsize, bool swapped)
{
    if (refuse_kind(reading, kind) < 0
        || dls_reading_check_itemsize(reading, itemsize) < 0) {
        return -1;
    }
    dl_dtype dtype;
    int code = dls_dtype_from_kind(kind, itemsize, &dtype)
                   ? dls_reading_set_dtype(reading, dtype, itemsize)
                   : dls_reading_set_unnamed(reading, kind, itemsize);
    return code == 0 && swapped && itemsize > 1
               ? dls_reading_swap(reading, kind == 'c' ? itemsize / 2 : itemsize)
               : code;
}

static bool
names_fields(PyObject *only)
{
    if (only == NULL || !PyTuple_Check(only) || PyTuple_Size(only) != 2) {
        return true;
    }
    PyObject *name = PyTuple_GetItem(only, 0);
    return !PyUnicode_Check(name) || PyUnicode_CompareWithASCIIString(name, "") != 0
           || !PyUnicode_Check(PyTuple_GetItem(only, 1));
}

bool
dls_reading_has_fields(PyObject *descr)
{
    PyObject *only = NULL;
    if (PyList_Check(descr) && PySequence_Size(descr) == 1) {
        only = dls_list_borrow(descr, 0);
    }
    bool has = names_fields(only); /* runs no code */
    dls_let_go(only);
    return has;
}

int64_t *
dls_reading_byte_strides(dls_reading *reading)
{
    dl_tensor *tensor = &reading->acquired->tensor;
    tensor->strides = reading->acquired->dims + tensor->ndim;
    return tensor->strides;
}

void
dls_reading_copy_strides(dls_reading *reading, const intptr_t *strides)
{
    int64_t *bytes = strides != NULL ? dls_reading_byte_strides(reading) : NULL;
    for (int32_t i = 0; bytes != NULL && i < reading->acquired->tensor.ndim; i++) {
        bytes[i] = strides[i];
    }
}

/* --- what a copy mends (N9) ------------------------------------------------- */

/* DLPack cannot describe the memory, and a copy that was asked for mends it.  0, or -1
 * where none was, or where it is not the host that has it. */
static int
mend(dls_reading *reading, PyObject *why)
{
    const dls_request_want *want = &reading->request->want;
    bool here = !want->has_assumed || dls_device_is_host(want->assumed.device_type);
    reading->mends = why != NULL && !reading->row->off_host && here
                     && dls_want_copies(want);
    if (why == NULL || reading->mends) {
        Py_XDECREF(why);
        return why != NULL ? 0 : -1;
    }
    if (reading->row->off_host || !here) {
        dls_reading_fail(reading,
                         "%U, and DLPack cannot describe that\n"
                         "  convert it with its own library first",
                         why);
    }
    else if (want->copy == 0) {
        dls_refuse_copy(reading->state, reading->obj, "format",
                        ", but copy=False was asked for\n"
                        "  allow it with copy=True in its place",
                        "a copy is needed (%U)", why);
    }
    else {
        dls_reading_fail_option(reading,
                                "%U, and DLPack cannot describe that\n"
                                "  pass order=\"C\" to get a copy that it can describe",
                                why);
    }
    Py_DECREF(why);
    return -1;
}

int
dls_reading_swap(dls_reading *reading, int64_t bytes)
{
    bool unnamed = reading->acquired->tensor.dtype.code >= DLS_DTYPE_COMPLEX;
    if (unnamed && !reading->request->want.has_dtype) {
        return 0; /* it is refused for what it is */
    }
    reading->swapped = bytes;
    return mend(reading, PyUnicode_FromString("its byte order is not the machine's"));
}

/* A stride of an extent below 2, or of an empty array, counts for nothing and may be
 * anything.  0, or -1. */
static int
mend_strides(dls_reading *reading, bool empty)
{
    const dl_tensor *tensor = &reading->acquired->tensor;
    int32_t i = 0;
    while (i < tensor->ndim
           && (tensor->strides[i] % reading->itemsize == 0 || tensor->shape[i] < 2)) {
        i++;
    }
    return empty || i == tensor->ndim
               ? 0
               : mend(reading, PyUnicode_FromFormat(
                                   "strides[%d] is %lld bytes, no multiple of the item "
                                   "size %lld",
                                   (int)i, (long long)tensor->strides[i],
                                   (long long)reading->itemsize));
}

/* The tensor as the bytes of its elements, which have an axis of their own: its strides
 * may be any number of bytes.  dims: room for two times one axis more. */
static dl_tensor
as_bytes(const dls_reading *reading, int64_t *dims)
{
    dl_tensor bytes = reading->acquired->tensor;
    const int32_t ndim = bytes.ndim++;
    int64_t *strides = dims + bytes.ndim;
    memcpy(dims, bytes.shape, (size_t)ndim * sizeof *dims);
    dims[ndim] = reading->itemsize;
    dls_layout_row_major(bytes.ndim, dims, strides);
    if (bytes.strides != NULL) {
        memcpy(strides, bytes.strides, (size_t)ndim * sizeof *strides);
    }
    bytes.shape = dims;
    bytes.strides = strides;
    bytes.dtype = (dl_dtype){dl_kDLUInt, 8, 1};
    return bytes;
}

/* Copy `length` bytes of the tensor, with their numbers in the machine's order. */
static int
copy_mended(const dls_reading *reading, char *to, int64_t length)
{
    const size_t axes = (size_t)reading->acquired->tensor.ndim + 1;
    int64_t *dims = dls_alloc(2 * axes * sizeof *dims);
    if (dims == NULL) {
        return DLS_ENOMEM;
    }
    const dl_tensor bytes = as_bytes(reading, dims);
    int code = length != 0 ? dls_host_copy(to, &bytes, 1) : DLS_OK;
    dls_free(dims);
    if (code == DLS_OK && reading->swapped != 0) {
        dls_swap_bytes(to, length, reading->swapped);
    }
    return code;
}

int
dls_reading_mend(dls_reading *reading)
{
    dls_acquired *acquired = reading->acquired;
    dl_tensor *tensor = &acquired->tensor;
    dls_error err;
    int64_t length = 0;
    void *start, *block = NULL;
    int code = dls_layout_count(tensor->ndim, tensor->shape, &length, &err);
    bool fits = code == DLS_OK && dls_mul(length, reading->itemsize, &length);
    if (fits) {
        block = dls_alloc_aligned(length, reading->request->want.copy_align, &start);
    }
    if (block == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    PyThreadState *away = length >= DLS_COPY_WITHOUT_GIL ? PyEval_SaveThread() : NULL;
    code = copy_mended(reading, start, length);
    if (away != NULL) {
        PyEval_RestoreThread(away);
    }
    if (code != DLS_OK) {
        dls_free(block);
        PyErr_NoMemory();
        return -1;
    }
    DLS_COUNT(copied);
    if (!dls_hold_is_empty(&acquired->hold)) {
        dls_hold_drop(&acquired->hold, DLS_ATTACHED);
    }
    acquired->hold = (dls_hold){.base = block, .kind = DLS_HOLD_BLOCK};
    acquired->flags = (acquired->flags & ~DL_FLAG_READ_ONLY) | DL_FLAG_IS_COPIED;
    tensor->data = start;
    tensor->strides = NULL;
    return 0;
}

/* --- the last step ------------------------------------------------------------ */

/* Bytes to elements, in place (T11). */
static void
divide_strides(const dls_reading *reading)
{
    dl_tensor *tensor = &reading->acquired->tensor;
    for (int32_t i = 0; i < tensor->ndim; i++) {
        tensor->strides[i] /= reading->itemsize;
    }
}

/* The bytes that are touched; in a reading that is copied strides count bytes. */
static int
find_span(dls_reading *reading, int64_t count, dls_error *err)
{
    const dl_tensor *tensor = &reading->acquired->tensor;
    bool in_bytes = reading->mends && tensor->strides != NULL;
    int code = dls_layout_span(tensor->ndim, tensor->shape, tensor->strides, count,
                               in_bytes ? 1 : reading->itemsize, &reading->low,
                               &reading->high, err);
    if (code == DLS_OK && in_bytes && count != 0) {
        /* So far they are the first bytes of the elements. */
        int64_t span;
        bool fits = dls_add(reading->high, reading->itemsize - 1, &reading->high)
                    && dls_add(reading->high, -reading->low, &span);
        code = fits ? DLS_OK
                    : dls_fail(err, DLS_EBUFFER,
                               "the bytes between its first and last element "
                               "overflow 64 bits");
    }
    return code;
}

int
dls_reading_finish(dls_reading *reading)
{
    dl_tensor *tensor = &reading->acquired->tensor;
    dls_error err; /* filled where it is read */
    int64_t count;
    assert(reading->itemsize > 0 && tensor->shape == reading->acquired->dims);
    if (dls_layout_count(tensor->ndim, tensor->shape, &count, &err) != DLS_OK) {
        return dls_reading_fail(reading, "%s", err.text);
    }
    if (tensor->strides != NULL && mend_strides(reading, count == 0) < 0) {
        return -1;
    }
    if (tensor->strides != NULL && !reading->mends) {
        divide_strides(reading);
    }
    if (find_span(reading, count, &err) != DLS_OK) {
        return dls_reading_fail(reading, "%s", err.text);
    }
    if (tensor->data == NULL && count != 0) {
        return dls_reading_fail(
            reading, "its data pointer is NULL although it has elements; the "
                     "memory is gone or was never there");
    }
    return 0;
}

const dls_buffer *
dls_reading_hold_buffer(dls_reading *reading, PyObject *exporter, int flags)
{
    dls_buffer *view = dls_alloc(sizeof *view);
    if (view == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    if (dls_compat.PyObject_GetBuffer(exporter, view, flags) < 0) {
        dls_free(view);
        return NULL;
    }
    reading->acquired->hold.base = view;
    reading->acquired->hold.kind = DLS_HOLD_BUFFER;
    if (view->readonly) {
        reading->acquired->flags |= DL_FLAG_READ_ONLY;
    }
    return view;
}

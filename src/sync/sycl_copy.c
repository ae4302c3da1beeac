/* Copies oneAPI memory by the Python objects of its library.
 *
 * Called by transfer, sync_exchange and export/resolve_copy.  Calls classes and methods
 * of the library; allocates what is fetched with gaps.  Tests:
 * tests/oneapi/test_copies.py, tests/core/test_sycl_copies.py. */
#include "sync/sycl_copy.h"

#include <assert.h>
#include <stdio.h>

#include "core/alloc.h"
#include "core/copy.h"
#include "core/layout.h"
#include "exchange/library.h"
#include "python/errors.h"

/* Spans up to this size are fetched whole, gaps and all. */
#define SPAN_MAX (INT64_C(1) << 26)
/* From this size on, gathering lets other threads run. */
#define GATHER_WITHOUT_GIL 65536

bool
dls_sycl_can_copy(dls_state *state)
{
    PyObject *function = NULL;
    bool found = dls_library_sycl_find(state, DLS_SYCL_VIEW, &function) > 0;
    Py_XDECREF(function);
    PyErr_Clear();
    return found;
}

/* The library has refused, or is not as it is known to be: a BufferError.  Always -1.
 */
static int
refuse(dls_state *state, PyObject *source, const char *what)
{
    if (PyErr_Occurred() == NULL) {
        return dls_refuse(state, DLS_EBUFFER, source, "%s: its library is not imported",
                          what);
    }
    return dls_refuse_from_pending(state, source, what);
}

/* Devices have no names in DLPack, but a filter string may be their number. */
static PyObject *
filter_string(int32_t device_id)
{
    return PyUnicode_FromFormat("%d", (int)device_id);
}

/* --- queues --------------------------------------------------------------- */

/* One for each device, which is kept: a queue of its own for each copy would cost ten
 * times as much, and after some hundred of them OpenCL's runtime for the CPU does not
 * start the next kernel. */
static int
find_copy_queue(dls_state *state, int32_t device_id, PyObject **queue)
{
    if (state->sycl_queues == NULL) {
        state->sycl_queues = PyDict_New();
    }
    PyObject *name = filter_string(device_id);
    int got = -1;
    if (state->sycl_queues != NULL && name != NULL) {
        *queue = PyDict_GetItemWithError(state->sycl_queues, name); /* borrowed */
        Py_XINCREF(*queue);
        got = *queue != NULL ? 1 : 0;
    }
    if (got == 0 && PyErr_Occurred() == NULL) {
        got = dls_library_sycl(state, DLS_SYCL_QUEUE, name, queue);
        if (got > 0 && PyDict_SetItem(state->sycl_queues, name, *queue) < 0) {
            Py_CLEAR(*queue);
            got = -1;
        }
    }
    Py_XDECREF(name);
    return got > 0 ? 0 : -1;
}

int
dls_sycl_copy_queue(dls_state *state, PyObject *source, int32_t device_id,
                    PyObject **queue)
{
    return find_copy_queue(state, device_id, queue) == 0
               ? 0
               : refuse(state, source, "no queue could be made for its device");
}

/* --- to the host ---------------------------------------------------------- */

typedef struct {
    dls_state *state;
    PyObject *source;
    PyObject *syclobj; /* borrowed */
    int64_t itemsize;
} fetcher;

/* What shows these bytes by the SYCL interface, a new reference or NULL. */
static PyObject *
show_bytes(const fetcher *f, const char *address, int64_t bytes)
{
    PyObject *shown = NULL, *types = PyImport_ImportModule("types");
    PyObject *class = types != NULL ? PyObject_GetAttrString(types, "SimpleNamespace")
                                    : NULL;
    PyObject *fields = Py_BuildValue(
        "{s:{s:(KO),s:(L),s:O,s:s,s:i,s:O}}", "__sycl_usm_array_interface__", "data",
        (unsigned long long)(uintptr_t)address, Py_False, "shape", (long long)bytes,
        "strides", Py_None, "typestr", "|u1", "version", 1, "syclobj", f->syclobj);
    PyObject *none = PyTuple_New(0);
    if (class != NULL && fields != NULL && none != NULL) {
        shown = PyObject_Call(class, none, fields);
    }
    Py_XDECREF(none);
    Py_XDECREF(fields);
    Py_XDECREF(class);
    Py_XDECREF(types);
    return shown;
}

/* The library's memory object for these bytes.  0, or -1. */
static int
find_memory(const fetcher *f, const char *address, int64_t bytes, PyObject **memory)
{
    PyObject *shown = show_bytes(f, address, bytes);
    int got = shown != NULL ? dls_library_sycl(f->state, DLS_SYCL_VIEW, shown, memory)
                            : -1;
    Py_XDECREF(shown);
    return got > 0 ? 0 : -1;
}

/* Have the memory's queue copy, and wait for it.  0, or -1. */
static int
copy_bytes(PyObject *memory, PyObject *to, PyObject *from, int64_t bytes)
{
    PyObject *result = NULL, *queue = PyObject_GetAttrString(memory, "sycl_queue");
    if (queue != NULL) {
        result = PyObject_CallMethod(queue, "memcpy", "OOL", to, from,
                                     (long long)bytes);
    }
    Py_XDECREF(queue);
    Py_XDECREF(result);
    return result != NULL ? 0 : -1;
}

/* Fetch bytes that lie together.  0, or -1. */
static int
fetch(const fetcher *f, char *dst, const char *src, int64_t bytes)
{
    PyObject *memory = NULL, *view = NULL;
    int code = find_memory(f, src, bytes, &memory);
    if (code == 0) {
        view = PyMemoryView_FromMemory(dst, (Py_ssize_t)bytes, DLS_BUF_MAY_WRITE);
        code = view != NULL ? copy_bytes(memory, view, memory, bytes) : -1;
    }
    Py_XDECREF(view);
    Py_XDECREF(memory);
    return code < 0 ? refuse(f->state, f->source, "copying it to the host failed") : 0;
}

/* Gather on the host.  0, or -1 with MemoryError. */
static int
gather(char *dst, const dl_tensor *tensor, int64_t itemsize, bool large)
{
    PyThreadState *away = large ? PyEval_SaveThread() : NULL;
    int code = dls_host_copy(dst, tensor, itemsize);
    if (away != NULL) {
        PyEval_RestoreThread(away);
    }
    if (code != DLS_OK) {
        PyErr_NoMemory();
    }
    return code == DLS_OK ? 0 : -1;
}

/* Fetch what lies between the lowest and the highest byte, and gather. */
static int
fetch_span(const fetcher *f, char *dst, dl_tensor part, int64_t low, int64_t high)
{
    char *slab = dls_alloc((size_t)(high - low));
    if (slab == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    int code = fetch(f, slab, (const char *)part.data + low, high - low);
    if (code == 0) {
        part.data = slab - low;
        code = gather(dst, &part, f->itemsize, high - low >= GATHER_WITHOUT_GIL);
    }
    dls_free(slab);
    return code;
}

/* Would its halves along the outermost axis take half of the memory? */
static bool
is_worth_halving(const dl_tensor *part, int64_t span, int64_t payload)
{
    int64_t stride = part->strides[0] < 0 ? -part->strides[0] : part->strides[0];
    for (int32_t i = 1; i < part->ndim; i++) {
        int64_t other = part->strides[i] < 0 ? -part->strides[i] : part->strides[i];
        if (part->shape[i] > 1 && other > stride) {
            return false;
        }
    }
    return part->shape[0] > 1 && span > SPAN_MAX && span / 2 > payload;
}

/* part->data is element zero, and part->shape is the caller's own: it is changed, and
 * changed back. */
static int
fetch_part(const fetcher *f, char *dst, dl_tensor part)
{
    int64_t count, low, high;
    dls_error err;
    if (dls_layout_count(part.ndim, part.shape, &count, &err) != DLS_OK
        || dls_layout_span(part.ndim, part.shape, part.strides, f->itemsize, &low,
                           &high, &err)
               != DLS_OK) {
        return dls_refuse_error(f->state, f->source, &err);
    }
    int64_t payload = count * f->itemsize;
    if (dls_layout_is_contiguous(part.ndim, part.shape, part.strides)) {
        return fetch(f, dst, part.data, payload);
    }
    if (!is_worth_halving(&part, high - low, payload)) {
        return fetch_span(f, dst, part, low, high);
    }
    int64_t extent = part.shape[0], first = extent / 2;
    part.shape[0] = first;
    int code = fetch_part(f, dst, part);
    part.shape[0] = extent - first;
    if (code == 0) {
        part.data = (char *)part.data + first * part.strides[0] * f->itemsize;
        code = fetch_part(f, dst + payload / extent * first, part);
    }
    part.shape[0] = extent;
    return code;
}

int
dls_sycl_copy_to_host(dls_state *state, PyObject *source, void *dst,
                      const dl_tensor *tensor, int64_t itemsize, PyObject *syclobj)
{
    dl_tensor whole = *tensor;
    PyObject *queue = NULL;
    bool named = syclobj != NULL && !PyUnicode_Check(syclobj);
    if (!named
        && dls_sycl_copy_queue(state, source, tensor->device.device_id, &queue) < 0) {
        return -1;
    }
    int code = -1;
    whole.data = (char *)tensor->data + tensor->byte_offset;
    whole.byte_offset = 0;
    whole.shape = dls_alloc((size_t)(tensor->ndim + 1) * sizeof *whole.shape);
    if (whole.shape == NULL) {
        PyErr_NoMemory();
    }
    else {
        for (int32_t i = 0; i < tensor->ndim; i++) {
            whole.shape[i] = tensor->shape[i];
        }
        const fetcher f = {state, source, named ? syclobj : queue, itemsize};
        code = fetch_part(&f, dst, whole);
    }
    dls_free(whole.shape);
    Py_XDECREF(queue);
    return code;
}

/* --- from the host -------------------------------------------------------- */

/* The queue that the library itself uses for the device.  0, or -1. */
static int
find_default_queue(dls_state *state, int32_t device_id, PyObject **queue)
{
    PyObject *name = filter_string(device_id);
    int got = name != NULL ? dls_library_sycl(state, DLS_SYCL_DEFAULT, name, queue)
                           : -1;
    Py_XDECREF(name);
    return got > 0 ? 0 : -1;
}

/* New memory for the bytes, a new reference or NULL.  An empty array has memory as
 * well, because dpctl takes none whose address is NULL. */
static PyObject *
allocate(dls_state *state, PyObject *queue, const dls_sycl_block *block)
{
    PyObject *memory = NULL, *class = NULL;
    PyObject *keywords = Py_BuildValue("{s:L,s:O}", "alignment",
                                       (long long)block->alignment, "queue", queue);
    PyObject *size = Py_BuildValue("(L)", (long long)(block->bytes + !block->bytes));
    if (keywords != NULL && size != NULL
        && dls_library_sycl_find(state, DLS_SYCL_MEMORY, &class) > 0) {
        memory = PyObject_Call(class, size, keywords);
    }
    Py_XDECREF(class);
    Py_XDECREF(size);
    Py_XDECREF(keywords);
    return memory;
}

static int
fill_memory(PyObject *memory, const dls_sycl_block *block)
{
    char *start = (char *)(uintptr_t)block->src; /* only read */
    PyObject *view = PyMemoryView_FromMemory(start, (Py_ssize_t)block->bytes,
                                             DLS_BUF_MAY_READ);
    int code = view != NULL ? copy_bytes(memory, memory, view, block->bytes) : -1;
    Py_XDECREF(view);
    return code;
}

/* Name the memory as the reader of the interface would.  0, or -1. */
static int
name_memory(PyObject *memory, PyObject *queue, dls_sycl_block *block)
{
    PyObject *shown = PyObject_GetAttrString(memory, "__sycl_usm_array_interface__");
    PyObject *address = shown != NULL ? PyObject_GetAttrString(memory, "_pointer")
                                      : NULL;
    block->data = address != NULL ? PyLong_AsVoidPtr(address) : NULL;
    if (block->data != NULL) {
        block->hold = PyTuple_Pack(3, memory, shown, queue);
    }
    Py_XDECREF(address);
    Py_XDECREF(shown);
    return block->hold != NULL ? 0 : -1;
}

int
dls_sycl_copy_from_host(dls_state *state, PyObject *source, dls_sycl_block *block)
{
    PyObject *queue = NULL, *memory = NULL;
    char what[96];
    assert(block->hold == NULL);
    int code = find_default_queue(state, block->device_id, &queue);
    if (code == 0) {
        memory = allocate(state, queue, block);
        code = memory != NULL && (block->bytes == 0 || fill_memory(memory, block) == 0)
                   ? name_memory(memory, queue, block)
                   : -1;
    }
    Py_XDECREF(memory);
    Py_XDECREF(queue);
    if (code == 0) {
        return 0;
    }
    snprintf(what, sizeof what, "copying %lld bytes to oneAPI device %d failed",
             (long long)block->bytes, (int)block->device_id);
    return refuse(state, source, what);
}

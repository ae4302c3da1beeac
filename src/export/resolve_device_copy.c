/* Makes the copy of an export in device memory.  Allocates by the driver, and on the
 * host where strides are gathered. Tests: tests/device/test_copies_to_devices.py,
 * tests/device/test_like.py. */
#include "export/resolve.h"

#include "core/alloc.h"
#include "core/copy.h"
#include "core/dtype.h"
#include "gpu/device_copy.h"
#include "gpu/pointer.h"
#include "gpu/sync_rules.h"
#include "python/errors.h"
#include "sync/sync_exchange.h"

/* --- memory of another library -------------------------------------------- */

/* Memory by the allocator of the library of which like= named an array (S19). */

/* Does like= name a library that allocates on this device? */
static inline bool
like_allocates(const dls_request *request, dl_device device)
{
    return request->want.like != NULL
           && request->want.like_device.device_type == device.device_type
           && request->want.like_device.device_id == device.device_id;
}

/* Memory that is wanted. */
typedef struct {
    dl_device device;
    int64_t bytes;
    int64_t align;        /* a power of two */
    uint64_t copy_stream; /* dlshim's own on that device, which will write there */
} wanted_memory;

/* The stream on which the library works; unknown where it does not tell. */
static dls_producer_stream
work_stream(const dls_request *request, dl_device device)
{
    dls_producer_stream p = {.known = DLS_P_UNKNOWN};
    const dl_exchange_api *table = request->want.like;
    void *stream = NULL;
    if (!request->want.like_tells_stream || table->current_work_stream == NULL) {
        return p;
    }
    if (table->current_work_stream(device.device_type, device.device_id, &stream)
        != 0) {
        PyErr_Clear();
        return p;
    }
    p.known = DLS_P_KNOWN;
    p.handle = stream != NULL ? (uint64_t)(uintptr_t)stream
                              : dls_driver_of(device.device_type)->legacy;
    return p;
}

/* Note an allocator's words about its failure. */
static void
note_failure(void *context, const char *kind, const char *message)
{
    dls_error *err = context;
    dls_fail(err, DLS_EBUFFER, "%s: %s", kind != NULL ? kind : "an error",
             message != NULL ? message : "");
}

/* Ask for bytes, whatever the elements are: a library has fewer dtypes than DLPack.
 * NULL with an exception. */
static dl_managed_tensor_versioned *
call_allocator(const dls_exchange *x, dl_device device, int64_t bytes)
{
    dls_error err = {.text = "it does not say why"};
    int64_t stride = 1;
    dl_managed_tensor_versioned *managed = NULL;
    dl_tensor prototype = {.device = device,
                           .ndim = 1,
                           .dtype = {dl_kDLUInt, 8, 1},
                           .shape = &bytes,
                           .strides = &stride};
    int code = x->request.want.like->managed_tensor_allocator(&prototype, &managed,
                                                              &err, note_failure);
    PyErr_Clear();
    if (code == 0 && managed != NULL && managed->version.major == DL_MAJOR
        && managed->dl_tensor.data != NULL
        && managed->dl_tensor.device.device_type == device.device_type
        && managed->dl_tensor.device.device_id == device.device_id) {
        return managed;
    }
    if (code == 0 && managed != NULL) {
        dls_managed_run_deleter(managed, true);
        dls_fail(&err, DLS_EBUFFER, "what it gave lies elsewhere");
    }
    dls_refuse(
        x->state, DLS_EOPTION, x->source,
        "the library of like= gave no memory for the %lld bytes of the copy (%s)\n"
        "  free some on device (%d, %d), or drop like=: device= says where, and no "
        "more",
        (long long)bytes, err.text, (int)device.device_type, (int)device.device_id);
    return NULL;
}

static int
sync_with(const dls_exchange *x, dl_device device, dls_producer_stream p,
          const void *address, uint64_t copy_stream)
{
    const dls_sync_job job = {
        .task = DLS_TASK_SYNC,
        .p = p,
        .s = copy_stream,
        .has_s = true,
        .policy = DLS_UNKNOWN_AUTO,
        .device = device,
        .memory.address = address,
    };
    return dls_sync_run_job(x->state, x->source, &job);
}

/* Ask that library for memory.  The copy stream comes after the work that the library
 * has given to its own stream, because memory that it hands out again may be in use
 * there.  0: *hold owns the memory, which begins at *address.  -1 with an exception: a
 * capture on the library's stream, or no memory; *hold is empty, or the caller's to
 * drop. */
static int
like_allocate(const dls_exchange *x, const wanted_memory *wanted, dls_hold *hold,
              void **address)
{
    dl_device device = wanted->device;
    uintptr_t more = (uintptr_t)wanted->align - 1;
    dls_producer_stream p = work_stream(&x->request, device);
    bool captures;
    Py_BEGIN_ALLOW_THREADS
    captures = dls_sync_run_sees_capture(device, p);
    Py_END_ALLOW_THREADS
    /* mutant: capture of a library */
    if (captures) {
        return dls_refuse(x->state, DLS_ECAPTURE, x->source, "%s", DLS_CAPTURE_REFUSAL);
    }
    dl_managed_tensor_versioned *managed = call_allocator(
        x, device, wanted->bytes + wanted->align - 1);
    if (managed == NULL) {
        return -1;
    }
    *hold = (dls_hold){.base = managed, .kind = DLS_HOLD_VERSIONED};
    uintptr_t start = (uintptr_t)managed->dl_tensor.data
                      + (uintptr_t)managed->dl_tensor.byte_offset;
    *address = (void *)((start + more) & ~more);
    /* mutant: memory of a library */
    return sync_with(x, device, p, *address, wanted->copy_stream);
}

/* --- copies --------------------------------------------------------------- */

/* One copy in progress. */
typedef struct {
    const dls_exchange *x;
    const dl_tensor *from;
    dl_device to;
    int64_t itemsize;
    int64_t bytes;
    int64_t align;
    uint64_t s;      /* the consumer's stream; L: it named none */
    uint64_t stream; /* of device memory: the copy stream of its device */
    dls_copy_target target;
    dls_hold made; /* the memory of the copy */
    void *address;
} device_copy;

/* --- memory that the host reads ------------------------------------------- */

/* Strided elements are gathered on the host, and so is memory that another holder of
 * the capsule could free while other threads run.  *block is for the caller to free;
 * NULL: they lie together already, at *dense.  0, or -1 with MemoryError. */
static int
gather(const device_copy *copy, bool dense_already, void **block, const void **dense)
{
    const char *data = copy->from->data;
    *block = NULL;
    *dense = data + copy->from->byte_offset;
    if (dense_already) {
        return 0;
    }
    *block = dls_alloc_bytes(copy->bytes);
    *dense = *block;
    if (*block == NULL || dls_host_copy(*block, copy->from, copy->itemsize) != DLS_OK) {
        dls_free(*block);
        *block = NULL;
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

/* Find the target and allocate there: by the library of like=, else by the driver.
 * source: device memory that will be copied there, or NULL.  0, or -1 with an
 * exception.
 */
static int
allocate_copy(device_copy *copy, const void *source)
{
    const dls_exchange *x = copy->x;
    dls_device_memory *memory = NULL;
    dls_error err;
    int code;
    bool by_library = like_allocates(&x->request, copy->to);
    Py_BEGIN_ALLOW_THREADS
    code = dls_copy_target_find(copy->to, copy->s, source, &copy->target, &err);
    if (code == DLS_OK && !by_library) {
        code = dls_device_memory_new(&copy->target.place, copy->target.stream,
                                     copy->bytes, copy->align, &memory, &copy->address,
                                     &err);
    }
    Py_END_ALLOW_THREADS
    if (code != DLS_OK) {
        return dls_refuse_error(x->state, x->source, &err);
    }
    if (by_library) {
        const wanted_memory wanted = {.device = copy->to,
                                      .bytes = copy->bytes,
                                      .align = copy->align,
                                      .copy_stream = copy->target.stream};
        return like_allocate(x, &wanted, &copy->made, &copy->address);
    }
    copy->made = (dls_hold){.base = memory, .kind = DLS_HOLD_DEVICE};
    return 0;
}

static int
copy_from_host(device_copy *copy, bool contiguous)
{
    dls_error err;
    void *block;
    const void *dense;
    int code;
    if (gather(copy, contiguous, &block, &dense) < 0) {
        return -1;
    }
    if (allocate_copy(copy, NULL) < 0) {
        dls_free(block);
        return -1;
    }
    Py_BEGIN_ALLOW_THREADS
    code = dls_copy_from_host(&copy->target, copy->address, dense, copy->bytes, &err);
    dls_free(block);
    Py_END_ALLOW_THREADS
    return code == DLS_OK ? 0 : dls_refuse_error(copy->x->state, copy->x->source, &err);
}

/* --- device memory -------------------------------------------------------- */

/* Strides that no copy of the driver brings together. */
static int
check_layout(const device_copy *copy)
{
    dls_error err;
    int possible = dls_copy_is_possible(copy->from, copy->itemsize, &err);
    if (possible == 0) {
        return dls_refuse(copy->x->state, DLS_EBUFFER, copy->x->source,
                          "a copy on the device is needed, and its strides are none "
                          "that the driver copies\n"
                          "  pass its .contiguous() or .copy()");
    }
    return possible < 0 ? dls_refuse_error(copy->x->state, copy->x->source, &err) : 0;
}

/* A copy on its own device: the copy stream of the memory's place comes after the
 * consumer's stream, with which the memory was synced.  0, or -1. */
static int
find_own_stream(device_copy *copy)
{
    const dls_exchange *x = copy->x;
    dls_memory memory = {.address = copy->from->data};
    dls_error err;
    bool lost;
    int code;
    Py_BEGIN_ALLOW_THREADS
    code = dls_copy_stream(copy->to, &memory, &copy->stream, &lost, &err);
    Py_END_ALLOW_THREADS
    return code == DLS_OK ? dls_copy_sync(x, copy->from, copy->stream)
                          : dls_refuse_error(x->state, x->source, &err);
}

static int
copy_from_device(device_copy *copy, bool to_peer)
{
    dls_error err;
    int code;
    copy->stream = copy->x->acquired.copy.stream;
    if (check_layout(copy) < 0 || (!to_peer && find_own_stream(copy) < 0)
        || allocate_copy(copy, copy->from->data) < 0) {
        return -1;
    }
    Py_BEGIN_ALLOW_THREADS
    code = dls_copy_from_device(&copy->target, copy->address, copy->from,
                                copy->itemsize, copy->stream, &err);
    Py_END_ALLOW_THREADS
    return code == DLS_OK ? 0 : dls_refuse_error(copy->x->state, copy->x->source, &err);
}

/* --- the copy -------------------------------------------------------------- */

static int
fill_copy(device_copy *copy, const dls_resolved *resolved)
{
    int32_t have = copy->from->device.device_type;
    bool host_reads = dls_device_is_host(have) || have == dl_kDLCUDAManaged;
    if (copy->bytes == 0) {
        return 0; /* no driver is called (S10) */
    }
    return resolved->send && host_reads
               ? copy_from_host(copy,
                                resolved->scan.contiguous && !copy->x->acquired.shared)
               : copy_from_device(copy, resolved->send);
}

int
dls_resolve_device_copy(dls_exchange *x, dls_resolved *resolved)
{
    dl_tensor *tensor = &resolved->delivery.tensor;
    device_copy copy = {.x = x,
                        .from = tensor,
                        .to = resolved->send ? x->request.want.device : tensor->device,
                        .itemsize = resolved->scan.itemsize,
                        .bytes = resolved->scan.count * resolved->scan.itemsize,
                        .align = x->request.want.copy_align};
    int code = dls_copy_read_consumer(x, copy.to, &copy.s) < 0
                   ? -1
                   : fill_copy(&copy, resolved);
    resolved->made = copy.made;
    if (code < 0) {
        return -1; /* the caller drops the memory that was made */
    }
    DLS_COUNT(copied);
    resolved->copied = true;
    tensor->data = copy.address;
    tensor->byte_offset = 0;
    tensor->device = copy.to;
    resolved->delivery.canonical = true;
    return 0;
}

/* The functions of dlshim.h.  An extension calls them with any object: an import is the
 * exchange of from_dlpack() that ends in a struct, an export makes a Tensor of one.
 * Tests: tests/core/test_c_interface.py. */
#include "authors/c_api.h"

#include <assert.h>
#include <dlshim.h>
#include <stdatomic.h>
#include <stddef.h>

#include "core/alloc.h"
#include "core/dtype.h"
#include "core/tensor.h"
#include "export/export.h"
#include "export/fast_path.h"
#include "gpu/sync_rules.h"
#include "public/functions.h"
#include "public/tensor_type.h"
#include "python/errors.h"
#include "python/state.h"
#include "request/wanted.h"
#include "types/plan_cache.h"

#define NAME "_c_api_v1"
#define MODULE "dlshim._core"
/* In bytes: that of the first release.  One that says another size than a request can
 * have says none at all: it was not begun. */
#define SMALLEST_REQUEST (offsetof(dlshim_request, detach) + sizeof(int32_t))
#define LARGEST_REQUEST 1024

static_assert(sizeof(dlshim_array) == sizeof(dl_tensor)
                  && offsetof(dlshim_array, shape) == offsetof(dl_tensor, shape)
                  && offsetof(dlshim_array, byte_offset)
                         == offsetof(dl_tensor, byte_offset)
                  && sizeof(dlshim_dtype) == sizeof(dl_dtype),
              "dlshim_array is a DLTensor");

/* --- the state ------------------------------------------------------------ */

/* Global: the state that was used last. */
static _Atomic(dls_state *) known;

/* The module that is imported under our name, a new reference.  Something else may
 * stand in sys.modules (the mock of a test), so the module is that of the type Tensor
 * there. NULL; without an exception if it is not dlshim's. */
static PyObject *
imported_module(void)
{
    PyObject *imported = PyImport_ImportModule(MODULE);
    if (imported == NULL) {
        return NULL;
    }
    PyObject *type = PyObject_GetAttrString(imported, "Tensor");
    PyObject *module = NULL;
    if (type != NULL && PyType_Check(type)
        && dls_tensor_is_type((PyTypeObject *)type)) {
        module = Py_XNewRef(PyType_GetModule((PyTypeObject *)type));
    }
    if (dls_error_forget() < 0) {
        Py_CLEAR(module);
    }
    Py_XDECREF(type);
    Py_DECREF(imported);
    return module;
}

/* The module of this interpreter, which is imported if it is not yet; a new reference.
 * NULL with an exception. */
static PyObject *
module_here(void)
{
    PyObject *module = imported_module();
    if (module == NULL && PyErr_Occurred() == NULL) {
        module = dls_module_here();
        if (module == NULL && PyErr_ExceptionMatches(PyExc_RuntimeError)) {
            PyErr_Format(PyExc_ImportError,
                         "sys.modules['" MODULE "'] is not dlshim's module\n"
                         "  import dlshim before it is replaced");
        }
    }
    return module;
}

/* The state of that module; NULL with an exception.  The caller drops it (state_drop):
 * until then it outlives its module. */
DLS_INLINE dls_state *
state_share(void)
{
    int64_t here = PyInterpreterState_GetID(PyInterpreterState_Get());
    dls_state *state = atomic_load_explicit(&known, memory_order_acquire);
    if (state == NULL || state->interpreter != here) {
        PyObject *module = module_here();
        if (module == NULL) {
            return NULL;
        }
        state = dls_state_of(module);
        atomic_store_explicit(&known, state, memory_order_release);
        Py_DECREF(module);
    }
    Py_INCREF((PyObject *)state->tensor_type);
    return state;
}

static void
state_drop(const dls_state *state)
{
    Py_DECREF((PyObject *)state->tensor_type);
}

void
dls_c_api_forget(const dls_state *state)
{
    dls_state *gone = (dls_state *)(uintptr_t)state;
    atomic_compare_exchange_strong(&known, &gone, NULL);
}

/* --- the request ---------------------------------------------------------- */

/* Tell the author of the extension which value has no meaning. */
static int
refuse_value(const char *what, int64_t value)
{
    PyErr_Format(PyExc_ValueError, "%s may not be %lld", what, (long long)value);
    return -1;
}

/* Used in the two functions that look at the values of a struct. */
#define CHECK(type, from, member, rule)                                  \
    if (!(rule)) {                                                       \
        return refuse_value(#type "." #member, (int64_t)(from)->member); \
    }

/* No value without a meaning is taken for another (IF_NEEDED, say).  0, or -1. */
static int
check_request(const dlshim_request *r)
{
    const uint64_t alignment = (uint64_t)r->alignment;
    CHECK(dlshim_request, r, dtype_count, r->dtypes != NULL || r->dtype_count == 0)
    for (size_t i = 0; i < r->dtype_count; i++) {
        const dlshim_dtype *dtype = &r->dtypes[i];
        CHECK(dlshim_dtype, dtype, bits, dtype->bits != 0)
        CHECK(dlshim_dtype, dtype, lanes, dtype->lanes != 0)
    }
    CHECK(dlshim_request, r, device_type, r->device_type >= DLSHIM_ANY_DEVICE)
    CHECK(dlshim_request, r, device_id,
          r->device_id == 0 || (r->device_id > 0 && r->device_type > dl_kDLCPU))
    CHECK(dlshim_request, r, stream.kind,
          (uint32_t)r->stream.kind <= DLSHIM_STREAM_WAIT)
    CHECK(dlshim_request, r, alignment,
          (alignment & (alignment - 1)) == 0 && alignment <= 1 << 30)
    CHECK(dlshim_request, r, contiguous,
          (uint32_t)r->contiguous <= DLSHIM_ROW_OR_COLUMN_MAJOR)
    CHECK(dlshim_request, r, writable, (uint32_t)r->writable <= 1)
    CHECK(dlshim_request, r, copy, (uint32_t)r->copy <= DLSHIM_COPY_ALWAYS)
    CHECK(dlshim_request, r, detach, (uint32_t)r->detach <= 1)
    return 0;
}

/* A NULL from a call that failed keeps the exception of that.  Always -1. */
static int
refuse_null(void)
{
    if (PyErr_Occurred() == NULL) {
        PyErr_Format(PyExc_SystemError, "an object, array or tensor is NULL");
    }
    return -1;
}

/* The request, or the defaults where none is given.  Members that a newer dlshim.h has
 * must be zero.  Those that an older one lacks are zero in *whole, which is the request
 * then.  NULL with ValueError, or with RuntimeError; SystemError where obj is NULL. */
DLS_INLINE const dlshim_request *
read_request(PyObject *obj, const dlshim_request *given, dlshim_request *whole)
{
    static const dlshim_request defaults = DLSHIM_REQUEST_INIT;
    if (obj == NULL && refuse_null() < 0) {
        return NULL;
    }
    const dlshim_request *request = given != NULL ? given : &defaults;
    /* A request of zeros would be taken for one that takes everything. */
    if (request->size < SMALLEST_REQUEST || request->size > LARGEST_REQUEST) {
        refuse_value("dlshim_request.size (which DLSHIM_REQUEST_INIT writes)",
                     (int64_t)request->size);
        return NULL;
    }
    if (request->size < sizeof *request) {
        *whole = defaults;
        request = memcpy(whole, request, request->size);
    }
    for (size_t i = sizeof *request; i < request->size; i++) {
        if (((const char *)request)[i] != 0) {
            PyErr_Format(
                PyExc_RuntimeError,
                "the request is of a newer dlshim.h than that of dlshim " DLSHIM_VERSION
                ", which is installed\n"
                "  pip install --upgrade dlshim");
            return NULL;
        }
    }
    return check_request(request) < 0 ? NULL : request;
}

/* True if plain host memory satisfies the request without a copy. */
static inline bool
takes_host_memory(const dlshim_request *request)
{
    return request->device_type <= dl_kDLCPU && request->copy != DLSHIM_COPY_ALWAYS;
}

/* A new reference. */
static PyObject *
stream_value(dls_state *state, const dlshim_stream *stream)
{
    return stream->kind == DLSHIM_STREAM ? PyLong_FromUnsignedLongLong(stream->handle)
           : stream->kind == DLSHIM_STREAM_READY ? Py_NewRef(state->minus_one)
                                                 : Py_NewRef(state->names.wait);
}

/* The options of from_dlpack() that say the same.  0, or -1 with an exception. */
static int
make_options(dls_state *state, PyObject *obj, const dlshim_request *request,
             dls_options **result)
{
    bool always = request->copy == DLSHIM_COPY_ALWAYS;
    bool never = request->copy == DLSHIM_COPY_NEVER || request->writable != 0;
    dls_options o = {.device = {request->device_type, request->device_id},
                     .copy = always,
                     .order = DLS_ORDER_C,
                     .align = request->alignment,
                     .detach = request->detach != 0 ? DLS_DETACH_YES : DLS_DETACH_NO};
    if (dls_wanted_check_copy(state, obj, request) < 0) {
        return -1;
    }
    if (request->stream.kind != DLSHIM_STREAM_DEFAULT) {
        o.stream = stream_value(state, &request->stream);
        if (o.stream == NULL) {
            return -1;
        }
    }
    o.given = (uint32_t)(request->device_type > 0) << DLS_OPTION_device
              | (uint32_t)(o.stream != NULL) << DLS_OPTION_stream
              | (uint32_t)(always || never) << DLS_OPTION_copy
              | (uint32_t)(request->contiguous == DLSHIM_ROW_MAJOR) << DLS_OPTION_order
              | (uint32_t)(request->alignment != 0) << DLS_OPTION_align
              | (uint32_t)request->detach << DLS_OPTION_detach;
    int code = dls_options_merge(state, &o, NULL, result);
    Py_XDECREF(o.stream);
    return code;
}

/* --- import --------------------------------------------------------------- */

static PyObject *export_tensor(void *managed, int versioned,
                               const dlshim_stream *stream);

static bool
is_empty(const dl_tensor *tensor)
{
    int32_t i = 0;
    while (i < tensor->ndim && tensor->shape[i] != 0) {
        i++;
    }
    return i < tensor->ndim;
}

static bool
is_column_major(const dl_tensor *tensor)
{
    int64_t count = 1;
    for (int32_t i = 0; i < tensor->ndim; i++) {
        if (tensor->shape[i] != 1 && tensor->strides[i] != count) {
            return false;
        }
        count *= tensor->shape[i];
    }
    return true;
}

/* Do the strides of the tensor, which has some, follow one another as the request says?
 */
DLS_INLINE bool
is_in_order(const dlshim_request *request, const dl_tensor *tensor)
{
    return request->contiguous == 0
           || dls_layout_is_contiguous(tensor->ndim, tensor->shape, tensor->strides)
           || (request->contiguous == DLSHIM_ROW_OR_COLUMN_MAJOR
               && is_column_major(tensor));
}

/* Is the plain tensor laid out as the request says?  No elements are so anywhere. */
DLS_INLINE bool
is_laid_out(const dlshim_request *request, const dl_tensor *plain)
{
    uintptr_t mask = request->alignment != 0 ? (uintptr_t)request->alignment - 1 : 0;
    return (((uintptr_t)plain->data & mask) == 0 || is_empty(plain))
           && is_in_order(request, plain);
}

/* In the form that has worked for the type.  NULL: with an exception if outcome->kind
 * is DLS_NOT_LEARNED, else it needs a decision, with *outcome. */
static dl_managed_tensor_versioned *
import_learned(dls_hot hot, const dlshim_request *request, dls_outcome *outcome)
{
    bool answer = hot.form & DLS_FORM_VERSIONED;
    hot = dls_ask_learned(hot, answer, false);
    if (!dls_hot_is_plain(hot, answer, true, hot.capsule != NULL)
        || !is_laid_out(request, dls_managed_tensor(hot.managed, answer))) {
        *outcome = dls_outcome_of(hot);
        return NULL;
    }
    if (hot.capsule == NULL) { /* the C table's */
        DLS_COUNT(handed_on);
        return hot.managed;
    }
    dl_managed_tensor_versioned *made = dls_fast_struct_of(hot, answer);
    return made != NULL ? made : dls_hot_drop(hot);
}

/* By the full exchange, with source, which is obj or has its memory.  outcome: as
 * dls_function_run. */
static dl_managed_tensor_versioned *
exchange(dls_state *state, PyObject *obj, PyObject *source, const dlshim_request *given,
         dls_outcome *outcome)
{
    dls_options *options = NULL;
    dls_request request;
    dl_managed_tensor_versioned *managed = NULL;
    dls_request_init(&request, NULL);
    request.want.versioned = true;
    request.who.supports_anything = true;
    request.who.host_reads = given->device_type == 0;
    request.want.detaches = given->detach != 0;
    if (make_options(state, source, given, &options) == 0) {
        managed = dls_function_run(state, source, options, &request, outcome,
                                   DLS_EXPORT_STRUCT);
    }
    else if (outcome != NULL) {
        dls_outcome_drop(outcome);
    }
    if (managed == NULL) {
        dls_wanted_refuse(state, obj, given, NULL);
    }
    return managed;
}

/* Nobody gets it: an exception is pending.  Always NULL. */
static dl_managed_tensor_versioned *
give_back(dl_managed_tensor_versioned *managed)
{
    PyObject *error = dls_error_take();
    dls_managed_delete(managed, true);
    dls_error_restore(error);
    return NULL;
}

/* The same elements in row-major order, as far as the request allows a copy.  managed,
 * of obj, is stolen. */
static dl_managed_tensor_versioned *
put_in_order(dls_state *state, PyObject *obj, const dlshim_request *given,
             dl_managed_tensor_versioned *managed)
{
    dlshim_request ordered = *given;
    ordered.contiguous = DLSHIM_ROW_MAJOR;
    PyObject *source = export_tensor(managed, true, NULL);
    if (source == NULL) {
        return give_back(managed);
    }
    managed = exchange(state, obj, source, &ordered, NULL);
    Py_DECREF(source);
    return managed;
}

/* No option of the exchange says "row-major or column-major": what comes is looked at.
 */
static dl_managed_tensor_versioned *
import_in_full(dls_state *state, PyObject *obj, const dlshim_request *given,
               dls_outcome *outcome)
{
    dl_managed_tensor_versioned *managed = exchange(state, obj, obj, given, outcome);
    return managed == NULL || is_in_order(given, &managed->dl_tensor)
               ? managed
               : put_in_order(state, obj, given, managed);
}

/* The plan of the type, with a new count, if the type's usual answer may satisfy the
 * request; or NULL. */
static dls_plan *
find_plan(dls_state *state, PyObject *obj, const dlshim_request *request)
{
    return takes_host_memory(request) ? dls_plan_known(state, obj) : NULL;
}

/* The tensor that obj gives, not yet compared with the request.  plan: of find_plan,
 * stolen.  NULL with an exception. */
static dl_managed_tensor_versioned *
acquire(dls_state *state, PyObject *obj, const dlshim_request *request, dls_plan *plan)
{
    dls_outcome outcome = {.kind = DLS_NOT_LEARNED};
    dl_managed_tensor_versioned *managed = NULL;
    bool detach = plan != NULL && request->detach
                  && dls_plan_has(plan, DLS_LIB_AUTOGRAD);
    dls_form form = plan != NULL && !detach ? dls_fast_form_of(plan, true) : 0;
    if (form & DLS_FORM_FAST) {
        dls_hot hot = {.state = state, .source = obj, .plan = plan, .form = form};
        managed = import_learned(hot, request, &outcome);
    }
    if (plan != NULL) {
        dls_plan_drop(plan);
    }
    bool done = managed != NULL
                || ((form & DLS_FORM_FAST) && outcome.kind == DLS_NOT_LEARNED);
    return done ? managed
                : import_in_full(state, obj, request,
                                 form & DLS_FORM_FAST ? &outcome : NULL);
}

/* As acquire, compared with the request. */
static dl_managed_tensor_versioned *
import(dls_state *state, PyObject *obj, const dlshim_request *request, dls_plan *plan)
{
    dl_managed_tensor_versioned *managed = acquire(state, obj, request, plan);
    if (managed != NULL
        && !dls_wanted_accepts(request, &managed->dl_tensor, managed->flags)) {
        dls_wanted_refuse(state, obj, request, &managed->dl_tensor);
        return give_back(managed);
    }
    return managed;
}

static int
import_tensor(PyObject *obj, const dlshim_request *given,
              struct DLManagedTensorVersioned **out)
{
    dlshim_request whole;
    const dlshim_request *request = read_request(obj, given, &whole);
    dls_state *state = request != NULL ? state_share() : NULL;
    *out = NULL;
    if (state == NULL) {
        return -1;
    }
    *out = (struct DLManagedTensorVersioned *)import(state, obj, request,
                                                     find_plan(state, obj, request));
    state_drop(state);
    return *out != NULL ? 0 : -1;
}

/* --- borrow --------------------------------------------------------------- */

/* May the type's own C table lend the memory?  It says no flags, so for writing only
 * that of a library whose memory is never read-only. */
static inline bool
may_lend(const dls_plan *plan, const dlshim_request *request)
{
    const dls_form form = dls_fast_form_of(plan, true);
    return (form & DLS_FORM_FAST) && dls_form_protocol(form) == DLS_PROTOCOL_TABLE
           && plan->table->dltensor_from_py_object_no_sync != NULL
           && (request->writable == 0
               || (dls_plan_has(plan, DLS_LIB_LAZY_BITS)
                   && !dls_plan_has(plan, DLS_LIB_WRAPS_READ_ONLY)));
}

/* 1 = the object lends its memory, 0 = it must be imported, -1 = an exception. */
static int
lend(dls_state *state, const dls_plan *plan, PyObject *obj,
     const dlshim_request *request, dl_tensor *tensor)
{
    if (dls_plan_has(plan, DLS_LIB_AUTOGRAD) && request->detach == 0
        && dls_refuse_autograd(state, plan, obj) < 0) {
        return -1;
    }
    if (plan->table->dltensor_from_py_object_no_sync(obj, tensor) != 0) {
        return dls_error_forget();
    }
    dls_error_report();
    if (dls_plan_has(plan, DLS_LIB_LAZY_BITS)
        && dls_refuse_lazy_bits(state, plan, obj, tensor->dtype) < 0) {
        return -1;
    }
    return dls_tensor_is_plain(tensor) && dls_wanted_accepts(request, tensor, 0)
           && is_laid_out(request, tensor);
}

static int
borrow_of(dls_state *state, PyObject *obj, const dlshim_request *request,
          dlshim_view *view)
{
    dl_tensor *tensor = (dl_tensor *)&view->array;
    int lent = 0;
    dls_plan *plan = find_plan(state, obj, request);
    view->flags = 0;
    if (plan != NULL && may_lend(plan, request)) {
        lent = lend(state, plan, obj, request, tensor);
    }
    if (lent < 0) {
        dls_wanted_refuse(state, obj, request, NULL);
    }
    if (lent != 0) {
        dls_plan_drop(plan);
    }
    else {
        dl_managed_tensor_versioned *managed = import(state, obj, request, plan);
        if (managed == NULL) {
            return -1;
        }
        *tensor = managed->dl_tensor;
        view->flags = managed->flags;
        view->owner = (struct DLManagedTensorVersioned *)managed;
    }
    view->flags |= request->writable == 0 ? DL_FLAG_READ_ONLY : 0;
    return lent < 0 ? -1 : 0;
}

static int
borrow(PyObject *obj, const dlshim_request *given, dlshim_view *view)
{
    dlshim_request whole;
    const dlshim_request *request = read_request(obj, given, &whole);
    dls_state *state = request != NULL ? state_share() : NULL;
    view->owner = NULL;
    if (state == NULL) {
        return -1;
    }
    int code = borrow_of(state, obj, request, view);
    state_drop(state);
    return code;
}

static void
release(struct DLManagedTensorVersioned *tensor)
{
    if (tensor != NULL) {
        dls_managed_delete(tensor, true);
    }
}

/* --- export --------------------------------------------------------------- */

/* Read the stream on which the data of this device are ready.  0, or -1 with
 * ValueError. */
static int
read_ready(const dlshim_stream *stream, dl_device device, dls_producer_stream *ready)
{
    int32_t kind = stream != NULL ? stream->kind : DLSHIM_STREAM_DEFAULT;
    bool said = device.device_type != dl_kDLCPU && kind == DLSHIM_STREAM;
    if ((uint32_t)kind > DLSHIM_STREAM_READY) {
        return refuse_value("dlshim_stream.kind", kind);
    }
    if (said && stream->handle == 0
        && dls_family_of(device.device_type) == DLS_FAMILY_CUDA) {
        return refuse_value("dlshim_stream.handle", 0);
    }
    *ready = (dls_producer_stream){.known = DLS_P_READY};
    if (said) {
        *ready = (dls_producer_stream){.known = DLS_P_KNOWN, .handle = stream->handle};
    }
    else if (kind != DLSHIM_STREAM_READY && device.device_type != dl_kDLCPU) {
        ready->known = DLS_P_UNKNOWN;
    }
    return 0;
}

/* A struct around plain memory: in one block with shape and strides. */
typedef struct {
    dl_managed_tensor_versioned managed;
    void (*deleter)(void *);
    int64_t dims[];
} plain_memory;

static void
delete_memory(dl_managed_tensor_versioned *managed)
{
    plain_memory *self = (plain_memory *)managed;
    void (*deleter)(void *) = self->deleter;
    void *context = managed->manager_ctx;
    dls_free(self);
    if (deleter != NULL) {
        deleter(context);
    }
}

/* An error in the extension's own struct speaks of that struct, and not of the capsule
 * that is made of it.  newer: NULL for a legacy struct.  0, or -1 with an exception. */
static int
check_tensor(const dl_tensor *tensor, const dl_managed_tensor_versioned *newer)
{
    dls_scan scan;
    dls_error err;
    bool array = newer != NULL && newer->deleter == delete_memory;
    if (newer != NULL && (newer->flags & ~DL_FLAGS_KNOWN) != 0) {
        return refuse_value("flags", (int64_t)newer->flags);
    }
    if (tensor->device.device_type < 1) {
        return refuse_value(array ? "dlshim_array.device_type" : "device.device_type",
                            tensor->device.device_type);
    }
    if (dls_tensor_scan(tensor, &scan, &err) < 0) {
        PyErr_Format(PyExc_BufferError, "%s: %s",
                     array ? "dlshim_array" : "the managed tensor", err.text);
        return -1;
    }
    return 0;
}

/* On failure nothing is taken: the capsule has no destructor and is renamed last. */
static PyObject *
export_tensor(void *managed, int versioned, const dlshim_stream *stream)
{
    dls_producer_stream ready;
    PyObject *tensor = NULL;
    dl_managed_tensor_versioned *newer = versioned ? managed : NULL;
    if (managed == NULL && refuse_null() < 0) {
        return NULL;
    }
    if (newer != NULL && newer->version.major != DL_MAJOR) {
        return PyErr_Format(PyExc_BufferError,
                            "the managed tensor is not of DLPack 1.x");
    }
    const dl_tensor *given = dls_managed_tensor(managed, versioned);
    bool right = check_tensor(given, newer) == 0
                 && read_ready(stream, given->device, &ready) == 0;
    dls_state *state = right ? state_share() : NULL;
    if (state == NULL) {
        return NULL;
    }
    const char *name = versioned ? DL_NAME_VERSIONED : DL_NAME_LEGACY;
    PyObject *capsule = PyCapsule_New(managed, name, NULL);
    if (capsule != NULL) {
        tensor = dls_tensor_from_capsule(state, capsule);
        Py_DECREF(capsule);
    }
    if (tensor != NULL) {
        dls_tensor_set_ready(dls_tensor_data(tensor), ready);
    }
    state_drop(state);
    return tensor;
}

/* Reject values that no library uses.  Allow dtype codes that DLPack has not assigned
 * yet.  0, or -1. */
static int
check_array(const dlshim_array *a)
{
    CHECK(dlshim_array, a, device_id, a->device_id >= 0)
    CHECK(dlshim_array, a, dtype.code, a->dtype.code < 32)
    CHECK(dlshim_array, a, dtype.bits, a->dtype.bits < 8 || a->dtype.bits % 8 == 0)
    return 0;
}
#undef CHECK

/* Copy dims that stand elsewhere to `place`, and let *dims point there. */
static void
keep_dims(int64_t **dims, int64_t *place, size_t n)
{
    if (n != 0 && *dims != NULL) {
        *dims = memcpy(place, *dims, n * sizeof *place);
    }
}

static PyObject *
export_array(const dlshim_array *array, uint64_t flags, void *context,
             void (*deleter)(void *), const dlshim_stream *stream)
{
    const dl_tensor *from = (const dl_tensor *)array;
    if ((array == NULL ? refuse_null() : check_array(array)) < 0) {
        return NULL;
    }
    size_t ndim = from->ndim > 0 && from->ndim <= DLS_NDIM_ABSURD ? (size_t)from->ndim
                                                                  : 0;
    plain_memory *self = dls_alloc(sizeof *self + 2 * ndim * sizeof *self->dims);
    if (self == NULL) {
        return PyErr_NoMemory();
    }
    self->managed = (dl_managed_tensor_versioned){.version = {DL_MAJOR, DL_MINOR},
                                                  .manager_ctx = context,
                                                  .deleter = delete_memory,
                                                  .flags = flags,
                                                  .dl_tensor = *from};
    self->deleter = deleter;
    keep_dims(&self->managed.dl_tensor.shape, self->dims, ndim);
    keep_dims(&self->managed.dl_tensor.strides, self->dims + ndim, ndim);
    PyObject *made = export_tensor(&self->managed, true, stream);
    if (made == NULL) {
        dls_free(self);
    }
    return made;
}

/* --- the table ------------------------------------------------------------ */

static const dlshim_table table = {
    .abi = DLSHIM_ABI,
    .size = sizeof(dlshim_table),
    .import_tensor = import_tensor,
    .borrow = borrow,
    .release = release,
    .export_tensor = export_tensor,
    .export_array = export_array,
};

int
dls_c_api_add(PyObject *module)
{
    PyObject *capsule = PyCapsule_New((void *)(uintptr_t)&table, "dlshim." NAME, NULL);
    int code = capsule != NULL ? PyModule_AddObjectRef(module, NAME, capsule) : -1;
    Py_XDECREF(capsule);
    return code;
}

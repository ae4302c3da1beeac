#include "module/exchange.h"

#include <stddef.h>

#include "core/alloc.h"
#include "core/layout.h"
#include "core/tensor.h"
#include "module/borrowed.h"
#include "module/express.h"
#include "module/functions.h"
#include "module/work_stream.h"
#include "python/capsule.h"
#include "python/raise.h"

/* Where the interpreter's dict has the module. */
#define MODULE_KEY "dlshim._core"
/* What allocators align to, and so do copies made by dlshim. */
#define ALIGNMENT 64

/* Consumers pass objects of the type on which they found the table: a Producer or a
 * Tensor, which have the state in the same place. */
static_assert(offsetof(dls_producer, state) == offsetof(dls_tensor, state), "state's place");

static bool
is_producer(PyObject *self)
{
    return Py_IS_TYPE(self, dls_producer_data(self)->state->producer_type);
}

/* --- out: an owned tensor ------------------------------------------------------------- */

/* answer: what the source gave on the express road, or NULL. */
static PyObject *
export_versioned(PyObject *self, dls_answer *answer, dls_request *request)
{
    dls_state *state = dls_producer_data(self)->state;
    bool producer = is_producer(self);
    PyObject *source = producer ? dls_producer_data(self)->source : self;
    dls_plan *plan = producer ? dls_producer_data(self)->plan : NULL;
    dls_pending p;
    PyObject *minus, *capsule = NULL;
    void *managed;
    dls_request_init(request, producer ? dls_producer_data(self)->options : NULL);
    request->answer = answer;
    request->want.versioned = true;
    request->want.kernel_asks = true;
    request->bears_anything = true;
    if (dls_work_stream_begin(state, source, plan, request, &p, &minus) == 0) {
        capsule = producer ? dls_producer_export(dls_producer_data(self), request)
                           : dls_serve_capsule(state, self, NULL, request);
    }
    if (capsule != NULL) {
        dls_capsule_look_for(capsule, true, &managed);
        dl_device device = ((dl_managed_tensor_versioned *)managed)->dl_tensor.device;
        dls_work_stream_leave(state, request, device, p);
    }
    Py_XDECREF(minus);
    if (request->answer != NULL) {
        dls_express_drop(request->answer); /* nobody got as far as to use it */
    }
    return capsule;
}

static int
managed_tensor_from_py_object(void *object, dl_managed_tensor_versioned **out)
{
    dls_request request;
    void *managed;
    dls_answer answer, *given = NULL;
    dls_producer *self = object;
    if (is_producer(object) && dls_express_bare(self)) {
        unsigned road = dls_express_road(self->plan, self->source, true);
        int got = road != 0 ? dls_express_owned(self, road, out, &answer) : 0;
        if (got != 0) {
            return got > 0 ? 0 : -1;
        }
        given = road != 0 ? &answer : NULL;
    }
    PyObject *capsule = export_versioned(object, given, &request);
    if (capsule == NULL) {
        return -1;
    }
    dls_capsule_look_for(capsule, true, &managed);
    int code = dls_capsule_take(capsule, true);
    if (code == 0) {
        *out = managed;
    }
    dls_drop_foreign(capsule);
    return code;
}

/* --- out: a borrowed one ----------------------------------------------------------------- */

static int
refuse_readonly(PyObject *self)
{
    PyErr_Format(PyExc_BufferError,
                 "%R is read-only, and who borrows it cannot be told so; wrap it with "
                 "dlshim.upgrade(x, readonly=False) to vouch that nothing is written, or with "
                 "legacy_readonly=\"copy\"",
                 self);
    return -1;
}

static int
tensor_borrow(PyObject *self, dl_tensor *out)
{
    dls_tensor *data = dls_tensor_data(self);
    if (data->readonly_stated && (data->flags & DL_FLAG_READ_ONLY)) {
        return refuse_readonly(self);
    }
    if (data->tensor.device.device_type != dl_kDLCPU) {
        dls_request request;
        PyObject *capsule = export_versioned(self, NULL, &request); /* orders, and says where */
        if (capsule == NULL) {
            return -1;
        }
        Py_DECREF(capsule);
    }
    *out = data->tensor;
    return 0;
}

static int
dltensor_from_py_object(void *object, dl_tensor *out)
{
    return is_producer(object) ? dls_producer_borrow(dls_producer_data(object), out)
                               : tensor_borrow(object, out);
}

static int
current_work_stream(int32_t device_type, int32_t device_id, void **out)
{
    *out = dls_work_stream_answer((dl_device){device_type, device_id});
    return 0;
}

/* --- in -------------------------------------------------------------------------------------- */

/* The module in this interpreter; a new reference, NULL with an exception. */
static PyObject *
find_module(void)
{
    PyObject *dict = PyInterpreterState_GetDict(PyInterpreterState_Get());
    PyObject *reference = dict != NULL ? PyDict_GetItemString(dict, MODULE_KEY) : NULL;
    PyObject *module = reference != NULL ? dls_late.PyWeakref_GetObject(reference) : NULL;
    if (module == NULL || module == Py_None) {
        PyErr_SetString(PyExc_RuntimeError, "dlshim is not imported in this interpreter");
        return NULL;
    }
    Py_INCREF(module);
    return module;
}

int
dls_exchange_register(PyObject *module)
{
    if (dls_work_stream_init() < 0) {
        return -1;
    }
    PyObject *dict = PyInterpreterState_GetDict(PyInterpreterState_Get());
    PyObject *reference = dict != NULL ? PyWeakref_NewRef(module, NULL) : NULL;
    int code = reference != NULL ? PyDict_SetItemString(dict, MODULE_KEY, reference) : -1;
    Py_XDECREF(reference);
    if (dict == NULL) {
        PyErr_SetString(PyExc_ImportError, "the interpreter has no dict");
    }
    return code;
}

/* On failure nothing is taken: the capsule has no destructor, and is renamed last. */
static int
managed_tensor_to_py_object(dl_managed_tensor_versioned *managed, void **out)
{
    if (managed == NULL || managed->version.major != DL_MAJOR) {
        PyErr_Format(PyExc_BufferError,
                     "a managed tensor of DLPack %u cannot be read; hand over one of 1.x",
                     managed != NULL ? (unsigned)managed->version.major : 0u);
        return -1;
    }
    PyObject *module = find_module();
    PyObject *capsule = module != NULL ? PyCapsule_New(managed, DL_NAME_VERSIONED, NULL) : NULL;
    PyObject *tensor = NULL;
    if (capsule != NULL) {
        tensor = dls_tensor_from_capsule(PyModule_GetState(module), capsule);
    }
    Py_XDECREF(capsule);
    Py_XDECREF(module);
    *out = tensor;
    return tensor != NULL ? 0 : -1;
}

/* --- new memory ----------------------------------------------------------------------------- */

typedef void (*set_error)(void *context, const char *kind, const char *message);

static int
fail(set_error tell, void *context, const char *kind, const char *message)
{
    if (tell != NULL) {
        tell(context, kind, message);
    }
    return -1;
}

/* Host memory for `what`, its address aligned; false: none. */
static bool
allocate(dls_delivery *what, int64_t bytes, dls_hold *hold)
{
    void *block = NULL;
    if (bytes <= PTRDIFF_MAX - ALIGNMENT) {
        block = dls_alloc((size_t)bytes + ALIGNMENT);
    }
    if (block == NULL) {
        return false;
    }
    uintptr_t address = (uintptr_t)block + ALIGNMENT - 1;
    what->tensor.data = (void *)(address - address % ALIGNMENT);
    *hold = (dls_hold){.base = block, .kind = DLS_HOLD_BLOCK};
    return true;
}

/* Needs no Python at all: errors go through set_error. */
static int
managed_tensor_allocator(dl_tensor *prototype, dl_managed_tensor_versioned **out,
                         void *context, set_error tell)
{
    dls_scan scan;
    dls_error err;
    dls_hold hold;
    dls_delivery what = {.versioned = true, .canonical = true};
    what.tensor.device = prototype->device;
    what.tensor.dtype = prototype->dtype;
    what.tensor.ndim = prototype->ndim;
    what.tensor.shape = prototype->shape;
    if (prototype->device.device_type != dl_kDLCPU) {
        return fail(tell, context, "BufferError",
                    "dlshim allocates host memory only; use the allocator of the library "
                    "whose device it is");
    }
    what.tensor.data = &scan; /* any address: there are no data to look at yet */
    if (dls_tensor_scan(&what.tensor, &scan, &err) < 0) {
        return fail(tell, context, "ValueError", err.text);
    }
    if (!allocate(&what, scan.count * scan.itemsize, &hold)) {
        return fail(tell, context, "MemoryError", "out of memory");
    }
    dl_managed_tensor_versioned *managed = dls_export_new(&what);
    if (managed == NULL) {
        dls_free(hold.base);
        return fail(tell, context, "MemoryError", "out of memory");
    }
    dls_export_hold(managed, true, &hold);
    *out = managed;
    return 0;
}

/* --- the table --------------------------------------------------------------------------------- */

const dl_exchange_api dls_exchange_table = {
    .header = {.version = {DL_MAJOR, DL_MINOR}, .prev_api = NULL},
    .managed_tensor_allocator = managed_tensor_allocator,
    .managed_tensor_from_py_object_no_sync = managed_tensor_from_py_object,
    .managed_tensor_to_py_object_no_sync = managed_tensor_to_py_object,
    .dltensor_from_py_object_no_sync = dltensor_from_py_object,
    .current_work_stream = current_work_stream,
};

int
dls_exchange_add(dls_state *state, PyTypeObject *type)
{
    void *table = (void *)(uintptr_t)&dls_exchange_table;
    PyObject *capsule = PyCapsule_New(table, DL_NAME_EXCHANGE_API, NULL);
    PyObject *number = PyLong_FromVoidPtr(table);
    int code = -1;
    if (capsule != NULL && number != NULL) {
        code = PyObject_SetAttr((PyObject *)type, state->names.exchange_api, capsule);
        if (code == 0) {
            code = PyObject_SetAttr((PyObject *)type, state->names.exchange_api_old, number);
        }
    }
    Py_XDECREF(capsule);
    Py_XDECREF(number);
    return code == 0 ? dls_late.PyType_Freeze(type) : -1;
}

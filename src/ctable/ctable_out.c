/* The functions of our C table.  A consumer that found the C table on a type calls them
 * with objects of that type, the GIL held.  The two exports are hot.
 * Tests: tests/core/test_ctable.py, tests/core/test_ctable_threads.py,
 * tests/device/test_work_stream.py. */
#include "ctable/ctable_out.h"

#include <assert.h>

#include "abi/dlpack_abi.h"
#include "authors/producer_class.h"
#include "core/tensor.h"
#include "ctable/homes.h"
#include "export/export.h"
#include "export/fast_path.h"
#include "gpu/pointer.h"
#include "public/producer.h"
#include "public/tensor_type.h"
#include "python/capsule.h"
#include "sync/work_stream.h"

/* --- whose object it is --------------------------------------------------- */

/* Types that were seen, each at a place that follows from its address: classes of
 * Producers, and the type Tensor of the last import.  NULL: nothing was seen, or a
 * module has gone.  Borrowed, and only compared with: all others are known by their
 * type's dealloc.  Two of the few globals, because C tables are the process's. */
enum { KNOWN_PRODUCERS = 16 };
static DLS_ATOMIC(PyTypeObject *) known_producers[KNOWN_PRODUCERS];
static DLS_ATOMIC(PyTypeObject *) known_tensor;

static inline size_t
place_of(const PyTypeObject *type)
{
    return ((uintptr_t)type >> 5) % KNOWN_PRODUCERS;
}

typedef enum { FOREIGN, PRODUCER, TENSOR } object_kind;

/* The type was not seen, or the object is of a class that has copied our C table. */
static object_kind
kind_of_unknown(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    if (dls_producer_is_type(type)) {
        known_producers[place_of(type)] = type;
        return PRODUCER;
    }
    if (dls_tensor_is_type(Py_TYPE(object))) {
        return TENSOR;
    }
    PyErr_Format(PyExc_TypeError,
                 "%R is not dlshim's, but its class has dlshim's C table\n"
                 "  wrap the object with dlshim.upgrade() instead",
                 object);
    return FOREIGN;
}

/* A consumer may pass any object, so this is asked before anything else of it is read.
 * FOREIGN with TypeError. */
static inline object_kind
kind_of(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    return known_producers[place_of(type)] == type ? PRODUCER
           : type == known_tensor                  ? TENSOR
                                                   : kind_of_unknown(object);
}

/* --- export: an owned struct ---------------------------------------------- */

/* In this form, which is FAST. */
static int
export_fast(dls_producer *self, dls_form form, dl_managed_tensor_versioned **out)
{
    return dls_form_protocol(form) == DLS_PROTOCOL_TABLE
               ? dls_fast_struct_of_table(self, out)
               : dls_fast_struct(self, form, out);
}

/* By the full exchange, unless the Producer has kept an answer, or its source shows
 * that it lies on the host. */
static int
export_of_producer(dls_producer *self, dl_managed_tensor_versioned **out)
{
    dls_form form = dls_fast_form(self, true);
    PyObject *answer = dls_producer_take_answer(self);
    if (answer != NULL && dls_fast_gives_capsule(form)) {
        return dls_fast_struct_given(self, form, answer, out);
    }
    if (answer != NULL) {
        dls_drop_foreign(answer);
    }
    int shown = dls_fast_is_bare(self)
                    ? dls_fast_form_shown(self->plan, self->source, true, &form)
                    : 0;
    if (shown != 0) {
        return shown > 0 ? export_fast(self, form, out) : -1;
    }
    *out = dls_export_producer_struct(self, true, NULL);
    return *out != NULL ? 0 : -1;
}

static int
export_in_full(PyObject *object, object_kind kind, dl_managed_tensor_versioned **out)
{
    if (kind == PRODUCER) {
        return export_of_producer(dls_producer_data(object), out);
    }
    *out = dls_export_tensor_struct(dls_tensor_data(object), true);
    return *out != NULL ? 0 : -1;
}

/* All calls but the first are tail calls, so this function saves no registers. */
static int
managed_tensor_from_py_object(void *object, dl_managed_tensor_versioned **out)
{
    assert(object != NULL && out != NULL);
    object_kind kind = kind_of(object);
    if (kind == FOREIGN) {
        return -1;
    }
    if (kind == TENSOR && dls_fast_is_simple(dls_tensor_data(object))) {
        return dls_fast_struct_of_tensor(dls_tensor_data(object), out);
    }
    dls_producer *self = kind == PRODUCER ? dls_producer_data(object) : NULL;
    bool bare = self != NULL && dls_fast_is_bare(self);
    dls_form form = bare ? dls_fast_form(self, true) : 0;
    if (!(form & DLS_FORM_FAST)) {
        return export_in_full(object, kind, out);
    }
    return dls_form_protocol(form) == DLS_PROTOCOL_TABLE
               ? dls_fast_struct_of_table(self, out)
               : dls_fast_struct(self, form, out);
}

/* An object of a class that dlshim.producer changed. */
static int
managed_tensor_of_class(void *object, dl_managed_tensor_versioned **out)
{
    dls_class_call call;
    int code = -1;
    if (dls_class_enter(&call, object) == 0) {
        code = managed_tensor_from_py_object(call.producer, out);
    }
    dls_class_leave(&call);
    return code;
}

/* --- export: a borrowed view ---------------------------------------------- */

/* May the memory be lent as it is (T8)?  A Tensor keeps no copy of it for borrowers. */
static bool
may_lend(const dls_tensor *data)
{
    bool strict = data->readonly == DLS_READONLY_ERROR
                  || data->readonly == DLS_READONLY_COPY;
    return !(data->flags & DL_FLAG_READ_ONLY) || data->readonly == DLS_READONLY_SHARE
           || (!data->readonly_stated && !strict);
}

static int
tensor_borrow(PyObject *self, dl_tensor *out)
{
    dls_tensor *data = dls_tensor_data(self);
    if (!may_lend(data)) {
        PyErr_Format(PyExc_BufferError,
                     "%R is read-only, and who borrows it cannot be told so\n"
                     "  wrap it with dlshim.upgrade(x, readonly=\"share\") if nothing "
                     "writes, or with readonly=\"copy\" to lend a private copy",
                     self);
        return -1;
    }
    if (data->tensor.device.device_type != dl_kDLCPU) {
        /* Synchronises, and leaves the stream. */
        void *managed = dls_export_tensor_struct(data, true);
        if (managed == NULL) {
            return -1;
        }
        dls_managed_delete_attached(managed, true);
    }
    *out = data->tensor;
    return 0;
}

static int
dltensor_from_py_object(void *object, dl_tensor *out)
{
    object_kind kind = kind_of(object);
    assert(out != NULL);
    return kind == PRODUCER ? dls_ctable_view(dls_producer_data(object), out)
           : kind == TENSOR ? tensor_borrow(object, out)
                            : -1;
}

static int
current_work_stream(int32_t device_type, int32_t device_id, void **out)
{
    const dl_device device = {device_type, device_id};
    *out = dls_work_stream_answer(device);
    dls_work_stream_note(device, *out);
    return 0;
}

/* --- import --------------------------------------------------------------- */

/* The memory was written on the stream that the consumer was answered, or else on the
 * default stream: nothing waits for the whole device (H6). */
static void
set_ready(dls_tensor *tensor)
{
    dl_device device = tensor->tensor.device;
    if (tensor->ready != NULL && dls_work_stream_is_synced(device.device_type)) {
        uint64_t stream = dls_driver_of(device.device_type)->legacy;
        dls_work_stream_answered(device, &stream);
        /* mutant: stream of a result */
        dls_tensor_set_ready_stream(tensor, stream);
    }
}

/* The capsule has no destructor and is renamed last. */
int
dls_ctable_to_python(dl_managed_tensor_versioned *managed, void **out)
{
    if (managed == NULL || managed->version.major != DL_MAJOR) {
        PyErr_Format(PyExc_BufferError,
                     "a managed tensor of DLPack %u cannot be read\n"
                     "  hand over one of 1.x",
                     managed != NULL ? (unsigned)managed->version.major : 0u);
        return -1;
    }
    PyObject *module = dls_module_here();
    PyObject *capsule = NULL;
    *out = NULL;
    if (module != NULL) {
        capsule = PyCapsule_New(managed, DL_NAME_VERSIONED, NULL);
    }
    if (capsule != NULL) {
        *out = dls_tensor_from_capsule(dls_state_of(module), capsule);
    }
    if (*out != NULL) {
        set_ready(dls_tensor_data(*out));
    }
    Py_XDECREF(capsule);
    Py_XDECREF(module);
    return *out != NULL ? 0 : -1;
}

/* --- the C table ---------------------------------------------------------- */

/* Classes that dlshim.producer changed give no views: nothing would keep the memory of
 * a view as long as the object. */
const dl_exchange_api dls_ctables[] = {
    {
        .header = {.version = {DL_MAJOR, DL_MINOR}, .prev_api = NULL},
        .managed_tensor_allocator = dls_ctable_allocate,
        .managed_tensor_from_py_object_no_sync = managed_tensor_from_py_object,
        .managed_tensor_to_py_object_no_sync = dls_ctable_to_python,
        .dltensor_from_py_object_no_sync = dltensor_from_py_object,
        .current_work_stream = current_work_stream,
    },
    {
        .header = {.version = {DL_MAJOR, DL_MINOR}, .prev_api = NULL},
        .managed_tensor_allocator = dls_ctable_allocate,
        .managed_tensor_from_py_object_no_sync = managed_tensor_of_class,
        .managed_tensor_to_py_object_no_sync = dls_ctable_to_python,
        .current_work_stream = current_work_stream,
    },
};

int
dls_ctable_add(dls_state *state, PyTypeObject *type, const dl_exchange_api *table)
{
    void *address = (void *)(uintptr_t)table;
    PyObject *object = (PyObject *)type;
    PyObject *capsule = PyCapsule_New(address, DL_NAME_EXCHANGE_API, NULL);
    PyObject *number = dls_address_object(address);
    int code = -1;
    if (capsule != NULL && number != NULL
        && PyObject_SetAttr(object, state->names.exchange_api, capsule) == 0
        && PyObject_SetAttr(object, state->names.exchange_api_old, number) == 0) {
        code = dls_compat.PyType_Freeze(type);
    }
    Py_XDECREF(capsule);
    Py_XDECREF(number);
    return code;
}

int
dls_ctable_register(dls_state *state, PyObject *module, bool alone)
{
    if (dls_work_stream_init() < 0) {
        return -1;
    }
    known_tensor = state->tensor_type;
    state->own_table = dls_ctables;
    if (dls_homes_init() < 0) {
        return -1;
    }
    return dls_module_register(state, module, alone);
}

void
dls_ctable_forget(const dls_state *state)
{
    for (int i = 0; i < KNOWN_PRODUCERS; i++) {
        known_producers[i] = NULL; /* which state a class is of is not known */
    }
    if (known_tensor == state->tensor_type) {
        known_tensor = NULL;
    }
}

#include "module/ctable_out.h"

#include "core/alloc.h"
#include "core/tensor.h"
#include "exchange/borrowed_list.h"
#include "export/fast_path.h"
#include "module/functions.h"
#include "python/capsule.h"
#include "sync/work_stream.h"

/* Where the interpreter's dict has the module. */
#define MODULE_KEY "dlshim._core"

/* --- whose object it is ----------------------------------------------------------- */

/* Types of the last import, to compare addresses with; NULL when its module has gone.
 */
static PyTypeObject *known_producer, *known_tensor;

typedef enum { FOREIGN, PRODUCER, TENSOR } object_kind;

/* Of another interpreter's import, or of a class that borrowed the table. */
DLS_COLD static object_kind
look_carefully(PyObject *object)
{
    if (dls_producer_is_type(Py_TYPE(object))) {
        return PRODUCER;
    }
    if (dls_tensor_is_type(Py_TYPE(object))) {
        return TENSOR;
    }
    PyErr_Format(PyExc_TypeError,
                 "%R is not dlshim's, but its class has dlshim's exchange table; wrap "
                 "the object "
                 "with dlshim.upgrade() instead",
                 object);
    return FOREIGN;
}

/* Nothing of the object is read before its type is known.  FOREIGN with a TypeError. */
static inline object_kind
kind_of(PyObject *object)
{
    return Py_IS_TYPE(object, known_producer) ? PRODUCER
           : Py_IS_TYPE(object, known_tensor) ? TENSOR
                                              : look_carefully(object);
}

/* --- out: an owned tensor --------------------------------------------------------- */

DLS_APART static int
own_carefully(PyObject *object, dls_answer *answer, dl_managed_tensor_versioned **out)
{
    dl_managed_tensor_versioned *managed = dls_export_for_table(object, true, answer);
    if (managed == NULL) {
        return -1;
    }
    *out = managed;
    return 0;
}

/* Not through a table. */
DLS_FLAT DLS_APART static int
own_by_method(PyObject *object, unsigned road, dl_managed_tensor_versioned **out)
{
    dls_answer answer;
    if (road == 0) {
        return own_carefully(object, NULL, out);
    }
    int got = dls_express_owned(dls_producer_data(object), road, out, &answer);
    return DLS_RARE(got > 0) ? own_carefully(object, &answer, out) : got;
}

DLS_COLD static int
own_after_table(PyObject *object, dl_managed_tensor_versioned **out)
{
    dls_answer answer;
    dl_managed_tensor_versioned *given = *out;
    *out = NULL; /* who looks at it after a failure finds nothing to delete */
    dls_express_not_through(given, &answer);
    return own_carefully(object, &answer, out);
}

DLS_FLAT DLS_APART static int
own_through_table(PyObject *object, dl_managed_tensor_versioned **out)
{
    bool done = dls_express_through(dls_producer_data(object), out);
    return done ? 0 : own_after_table(object, out);
}

/* Only tail calls: who is called saves the registers that it needs, once. */
static int
managed_tensor_from_py_object(void *object, dl_managed_tensor_versioned **out)
{
    dls_producer *self = object;
    object_kind kind = kind_of(object);
    if (DLS_RARE(kind == FOREIGN)) {
        return -1;
    }
    bool bare = kind == PRODUCER && dls_express_bare(self);
    unsigned road = bare ? dls_express_road(self->plan, self->source, true) : 0;
    return road & DLS_EXPRESS_TABLE ? own_through_table(object, out)
                                    : own_by_method(object, road, out);
}

/* --- out: a borrowed one ---------------------------------------------------------- */

DLS_COLD static int
refuse_readonly(PyObject *self)
{
    PyErr_Format(
        PyExc_BufferError,
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
        void *managed = dls_export_for_table(self, true,
                                             NULL); /* orders, and says where */
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
    return kind == PRODUCER ? dls_producer_borrow(dls_producer_data(object), out)
           : kind == TENSOR ? tensor_borrow(object, out)
                            : -1;
}

static int
current_work_stream(int32_t device_type, int32_t device_id, void **out)
{
    *out = dls_work_stream_answer((dl_device){device_type, device_id});
    return 0;
}

/* --- in --------------------------------------------------------------------------- */

/* The module in this interpreter; a new reference, NULL with an exception. */
DLS_COLD static PyObject *
find_module(void)
{
    PyObject *dict = PyInterpreterState_GetDict(PyInterpreterState_Get());
    PyObject *reference = dict != NULL ? PyDict_GetItemString(dict, MODULE_KEY) : NULL;
    PyObject *module = reference != NULL ? dls_late.PyWeakref_GetObject(reference)
                                         : NULL;
    if (module == NULL || module == Py_None) {
        PyErr_SetString(PyExc_RuntimeError,
                        "dlshim is not imported in this interpreter");
        return NULL;
    }
    Py_INCREF(module);
    return module;
}

DLS_COLD int
dls_exchange_register(dls_state *state, PyObject *module)
{
    if (dls_work_stream_init() < 0) {
        return -1;
    }
    known_producer = state->producer_type;
    known_tensor = state->tensor_type;
    state->own_table = &dls_exchange_table;
    PyObject *dict = PyInterpreterState_GetDict(PyInterpreterState_Get());
    PyObject *reference = dict != NULL ? PyWeakref_NewRef(module, NULL) : NULL;
    int code = reference != NULL ? PyDict_SetItemString(dict, MODULE_KEY, reference)
                                 : -1;
    Py_XDECREF(reference);
    if (dict == NULL) {
        PyErr_SetString(PyExc_ImportError, "the interpreter has no dict");
    }
    return code;
}

void
dls_exchange_forget(const dls_state *state)
{
    if (known_producer == state->producer_type) {
        known_producer = known_tensor = NULL;
    }
}

/* On failure nothing is taken: the capsule has no destructor, and is renamed last. */
static int
managed_tensor_to_py_object(dl_managed_tensor_versioned *managed, void **out)
{
    if (managed == NULL || managed->version.major != DL_MAJOR) {
        PyErr_Format(
            PyExc_BufferError,
            "a managed tensor of DLPack %u cannot be read; hand over one of 1.x",
            managed != NULL ? (unsigned)managed->version.major : 0u);
        return -1;
    }
    PyObject *module = find_module();
    PyObject *capsule = module != NULL ? PyCapsule_New(managed, DL_NAME_VERSIONED, NULL)
                                       : NULL;
    PyObject *tensor = NULL;
    if (capsule != NULL) {
        tensor = dls_tensor_from_capsule(PyModule_GetState(module), capsule);
    }
    Py_XDECREF(capsule);
    Py_XDECREF(module);
    *out = tensor;
    return tensor != NULL ? 0 : -1;
}

/* --- new memory ------------------------------------------------------------------- */

typedef void (*set_error)(void *context, const char *kind, const char *message);

DLS_COLD static int
fail(set_error tell, void *context, const char *kind, const char *message)
{
    if (tell != NULL) {
        tell(context, kind, message);
    }
    return -1;
}

/* Needs no Python at all: errors go through set_error. */
DLS_COLD static int
managed_tensor_allocator(dl_tensor *prototype, dl_managed_tensor_versioned **out,
                         void *context, set_error tell)
{
    dls_scan scan;
    dls_error err;
    dls_hold hold = {.kind = DLS_HOLD_BLOCK};
    dls_delivery what = {.versioned = true, .canonical = true};
    what.tensor.device = prototype->device;
    what.tensor.dtype = prototype->dtype;
    what.tensor.ndim = prototype->ndim;
    what.tensor.shape = prototype->shape;
    if (prototype->device.device_type != dl_kDLCPU) {
        return fail(
            tell, context, "BufferError",
            "dlshim allocates host memory only; use the allocator of the library "
            "whose device it is");
    }
    what.tensor.data = &scan; /* any address: there are no data to look at yet */
    if (dls_tensor_scan(&what.tensor, &scan, &err) < 0) {
        return fail(tell, context, "ValueError", err.text);
    }
    hold.base = dls_alloc_aligned(scan.count * scan.itemsize, DLS_ALIGNMENT,
                                  &what.tensor.data);
    if (hold.base == NULL) {
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

/* --- the table -------------------------------------------------------------------- */

const dl_exchange_api dls_exchange_table = {
    .header = {.version = {DL_MAJOR, DL_MINOR}, .prev_api = NULL},
    .managed_tensor_allocator = managed_tensor_allocator,
    .managed_tensor_from_py_object_no_sync = managed_tensor_from_py_object,
    .managed_tensor_to_py_object_no_sync = managed_tensor_to_py_object,
    .dltensor_from_py_object_no_sync = dltensor_from_py_object,
    .current_work_stream = current_work_stream,
};

DLS_COLD int
dls_exchange_add(dls_state *state, PyTypeObject *type)
{
    void *table = (void *)(uintptr_t)&dls_exchange_table;
    PyObject *capsule = PyCapsule_New(table, DL_NAME_EXCHANGE_API, NULL);
    PyObject *number = PyLong_FromVoidPtr(table);
    int code = -1;
    if (capsule != NULL && number != NULL) {
        code = PyObject_SetAttr((PyObject *)type, state->names.exchange_api, capsule);
        if (code == 0) {
            code = PyObject_SetAttr((PyObject *)type, state->names.exchange_api_old,
                                    number);
        }
    }
    Py_XDECREF(capsule);
    Py_XDECREF(number);
    return code == 0 ? dls_late.PyType_Freeze(type) : -1;
}

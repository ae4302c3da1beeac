#include "older_protocols/sycl_interface.h"

#include "core/base.h"
#include "exchange/plan_cache.h"
#include "older_protocols/interface_dict.h"
#include "python/errors.h"

#define VERSION 1

static const char protocol[] = "__sycl_usm_array_interface__";

/* What ['syclobj'] comes to. */
typedef struct {
    PyObject *named;  /* strong: names it to others, again and again */
    PyObject *queue;  /* strong: `named`, where that is a queue */
    PyObject *device; /* strong: the SyclDevice, NULL if nobody can tell */
} sycl_object;

static const char forms[] =
    "be a SyclQueue, a SyclContext, a capsule of one of them, an "
    "object with _get_capsule() that gives one, or a filter string";

static void
sycl_object_clear(sycl_object *sycl)
{
    Py_CLEAR(sycl->named);
    Py_CLEAR(sycl->queue);
    Py_CLEAR(sycl->device);
}

/* --- version and offset ------------------------------------------------------------
 */

static int
check_version(const dls_interface *from)
{
    static const char wanted[] = "be the int 1";
    PyObject *value = NULL;
    int64_t version;
    int got = dls_interface_get_text(from, "version", &value);
    if (got <= 0) {
        return got < 0 ? -1 : dls_interface_fail_missing(from, "version", wanted);
    }
    int result = dls_interface_refuse_bool(from, "version", wanted, value);
    if (result == 0) {
        result = dls_interface_read_int(from, "version", wanted, value, &version);
    }
    if (result == 0 && version != VERSION) {
        result = dls_interface_fail_value(from, "version", wanted, value);
    }
    Py_DECREF(value);
    return result;
}

/* In elements; memory below the base is nobody's. */
static int
read_offset(const dls_interface *from)
{
    static const char wanted[] = "be an int, 0 or above, that counts elements";
    PyObject *value = NULL;
    int64_t offset = 0, bytes = 0;
    int got = dls_interface_get(from, from->reading.state->names.offset, &value);
    if (got <= 0) {
        return got;
    }
    int result = dls_interface_refuse_bool(from, "offset", wanted, value);
    if (result == 0) {
        result = dls_interface_read_int(from, "offset", wanted, value, &offset);
    }
    if (result == 0
        && (offset < 0 || !dls_mul(offset, from->reading.itemsize, &bytes))) {
        result = dls_interface_fail_value(from, "offset", wanted, value);
    }
    from->reading.loan->tensor.byte_offset = (uint64_t)bytes;
    Py_DECREF(value);
    return result;
}

/* --- strides -------------------------------------------------------------------------
 */

/* Elements to bytes, in place, as the last step of every reader wants them.  Those that
 * count for nothing may be anything. */
static int
read_strides(dls_interface *from)
{
    dl_tensor *tensor = &from->reading.loan->tensor;
    if (dls_interface_read_strides(from) < 0) {
        return -1;
    }
    for (int32_t i = 0; tensor->strides != NULL && i < tensor->ndim; i++) {
        int64_t bytes;
        if (dls_mul(tensor->strides[i], from->reading.itemsize, &bytes)) {
            tensor->strides[i] = bytes;
        }
        else if (tensor->shape[i] < 2) {
            tensor->strides[i] = 0;
        }
        else {
            return dls_reading_fail(
                &from->reading,
                "['strides'][%d] is %lld elements, which overflows as "
                "bytes; the dict has to be corrected where it is made",
                (int)i, (long long)tensor->strides[i]);
        }
    }
    return 0;
}

/* --- data
 * ----------------------------------------------------------------------------- */

/* dpctl.memory says True of memory that it writes itself, against dpctl's own page. */
static bool
is_writable(const dls_interface *from)
{
    const dls_plan *plan = dls_plan_known(from->reading.state, from->reading.obj);
    return plan != NULL && dls_plan_has(plan, DLS_LIB_WRITABLE);
}

static int
read_data(dls_interface *from)
{
    static const char wanted[] = "be a pair (USM pointer, read-only)";
    PyObject *value = NULL, *pair = NULL;
    int result = -1;
    int got = dls_interface_get(from, from->reading.state->names.data, &value);
    if (got <= 0) {
        return got < 0 ? -1 : dls_interface_fail_missing(from, "data", wanted);
    }
    if (!PyTuple_Check(value) && !PyList_Check(value)) {
        dls_interface_fail_type(from, "data", wanted, value);
        goto done;
    }
    pair = PySequence_Tuple(value);
    if (pair == NULL) {
        goto done;
    }
    if (PyTuple_Size(pair) != 2) {
        dls_interface_fail_value(from, "data", wanted, value);
        goto done;
    }
    PyObject *address = PyTuple_GetItem(pair, 0), *readonly = PyTuple_GetItem(pair, 1);
    if (dls_interface_refuse_bool(from, "data", "start with an address as int", address)
            < 0
        || dls_interface_set_data(from, address, readonly) < 0) {
        goto done;
    }
    if (is_writable(from)) {
        from->reading.loan->flags &= ~(uint64_t)DL_FLAG_READ_ONLY;
    }
    result = 0;
done:
    Py_XDECREF(pair);
    Py_DECREF(value);
    return result;
}

/* --- syclobj: its forms
 * ------------------------------------------------------------------ */

/* object.name: 1 = *value is a new reference, 0 = missing, -1 = exception. */
static int
get_attribute(PyObject *object, const char *name, PyObject **value)
{
    PyObject *key = PyUnicode_FromString(name);
    *value = NULL;
    if (key == NULL) {
        return -1;
    }
    int got = dls_get_optional(object, key, value);
    Py_DECREF(key);
    return got;
}

/* A SyclQueue tells its device at once. */
static int
try_queue(PyObject *value, sycl_object *sycl)
{
    int got = get_attribute(value, "sycl_device", &sycl->device);
    if (got > 0) {
        Py_INCREF(value);
        Py_INCREF(value);
        sycl->named = sycl->queue = value;
    }
    return got;
}

/* A SyclContext has a list of them; memory in it is taken to lie on the first. */
static int
try_context(PyObject *value, sycl_object *sycl)
{
    PyObject *method, *devices = NULL;
    int got = get_attribute(value, "get_devices", &method);
    if (got <= 0) {
        return got;
    }
    devices = PyObject_CallFunctionObjArgs(method, NULL);
    Py_DECREF(method);
    sycl->device = devices != NULL ? PySequence_GetItem(devices, 0) : NULL;
    Py_XDECREF(devices);
    if (sycl->device == NULL) {
        return -1;
    }
    Py_INCREF(value);
    sycl->named = value;
    return 1;
}

/* The library's classes copy what a capsule holds and then call it used.  The dict may
 * show it again, so they get a capsule of ours around the same content. */
static int
open_alias(const dls_interface *from, PyObject *capsule, const char *name,
           dls_sycl_form form, PyObject **made)
{
    PyObject *alias = PyCapsule_New(PyCapsule_GetPointer(capsule, name), name, NULL);
    if (alias == NULL) {
        return -1;
    }
    int got = dls_library_sycl(from->reading.state, form, alias, made);
    Py_DECREF(alias);
    return got;
}

/* 1, 0: nobody here can open it, or -1. */
static int
open_capsule(const dls_interface *from, PyObject *capsule, sycl_object *sycl)
{
    static const struct {
        const char *name, *used;
        dls_sycl_form form;
        int (*read)(PyObject *, sycl_object *);
    } kinds[] = {
        {"SyclQueueRef", "used_SyclQueueRef", DLS_SYCL_QUEUE, try_queue},
        {"SyclContextRef", "used_SyclContextRef", DLS_SYCL_CONTEXT, try_context},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        PyObject *made = NULL;
        if (PyCapsule_IsValid(capsule, kinds[i].used)) {
            return dls_reading_fail(
                &from->reading,
                "the capsule in ['syclobj'] has been used: the dict has "
                "to name a new one");
        }
        if (!PyCapsule_IsValid(capsule, kinds[i].name)) {
            continue;
        }
        int got = open_alias(from, capsule, kinds[i].name, kinds[i].form, &made);
        if (got > 0) {
            got = kinds[i].read(made, sycl);
            Py_DECREF(made);
        }
        return got;
    }
    return dls_interface_fail_value(from, "syclobj", forms, capsule);
}

static int
open_getter(const dls_interface *from, PyObject *value, PyObject *method,
            sycl_object *sycl)
{
    PyObject *capsule = PyObject_CallFunctionObjArgs(method, NULL);
    if (capsule == NULL) {
        return -1;
    }
    int got = PyCapsule_CheckExact(capsule)
                  ? open_capsule(from, capsule, sycl)
                  : dls_interface_fail_value(from, "syclobj", forms, value);
    Py_DECREF(capsule);
    return got;
}

/* 1, 0: only its library could tell more and is not imported, -1. */
static int
open_form(const dls_interface *from, PyObject *value, sycl_object *sycl)
{
    PyObject *method;
    if (PyUnicode_Check(value)) {
        Py_INCREF(value);
        sycl->named = value;
        return dls_library_sycl(from->reading.state, DLS_SYCL_DEVICE, value,
                                &sycl->device);
    }
    if (PyCapsule_CheckExact(value)) {
        return open_capsule(from, value, sycl);
    }
    int got = try_queue(value, sycl);
    got = got != 0 ? got : try_context(value, sycl);
    if (got != 0) {
        return got;
    }
    got = get_attribute(value, "_get_capsule", &method);
    if (got > 0) {
        got = open_getter(from, value, method, sycl);
        Py_DECREF(method);
        return got;
    }
    return got < 0 ? -1 : dls_interface_fail_type(from, "syclobj", forms, value);
}

/* --- syclobj: its device
 * ------------------------------------------------------------------- */

/* What the objects of others raise (SyclDeviceCreationError is no kind of BufferError).
 */
static int
fail_foreign(const dls_interface *from)
{
    if (dls_error_is_fatal() || PyErr_ExceptionMatches(PyExc_BufferError)) {
        return -1;
    }
    PyObject *error = dls_error_take();
    dls_reading_fail(
        &from->reading,
        "['syclobj'] does not tell its device: %S; assume_device=(14, number) "
        "names it",
        error);
    dls_raise_with_cause(error);
    return -1;
}

static int
read_number(const dls_interface *from, PyObject *device, int32_t *number)
{
    PyObject *value = PyObject_CallMethod(device, "get_device_id", NULL);
    long id = value != NULL ? PyLong_AsLong(value) : -1;
    Py_XDECREF(value);
    if (PyErr_Occurred() != NULL) {
        return fail_foreign(from);
    }
    if (id < 0 || id > INT32_MAX) {
        return dls_reading_fail(
            &from->reading,
            "the device of ['syclobj'] has the number %ld, which DLPack "
            "has no word for; assume_device=(14, number) names another",
            id);
    }
    *number = (int32_t)id;
    return 0;
}

static int
fail_not_imported(const dls_interface *from, PyObject *value)
{
    return dls_reading_fail(
        &from->reading,
        "which device ['syclobj'], %R, means only the library can tell "
        "that made it, and it is not imported: import dpctl, or name "
        "the device with assume_device=(14, number)",
        value);
}

static int
read_syclobj(const dls_interface *from, const dls_want *want, sycl_object *sycl)
{
    PyObject *value = NULL;
    dl_device *device = &from->reading.loan->tensor.device;
    int got = dls_interface_get_text(from, "syclobj", &value);
    if (got <= 0) {
        return got < 0 ? -1 : dls_interface_fail_missing(from, "syclobj", forms);
    }
    got = open_form(from, value, sycl);
    *device = (dl_device){dl_kDLOneAPI, 0};
    if (got < 0) {
        got = fail_foreign(from);
    }
    else if (want->has_assumed) {
        *device = want->assumed;
        if (device->device_type != dl_kDLOneAPI) {
            Py_CLEAR(sycl->queue); /* orders nothing there */
        }
        got = 0;
    }
    else {
        got = sycl->device == NULL
                  ? fail_not_imported(from, value)
                  : read_number(from, sycl->device, &device->device_id);
    }
    if (got == 0 && sycl->named == NULL) {
        sycl->named = value;
        value = NULL;
    }
    Py_XDECREF(value);
    return got;
}

/* --- the protocol
 * ----------------------------------------------------------------------------- */

static int
read_dict(dls_interface *from, const dls_want *want, sycl_object *sycl)
{
    if (dls_interface_check_dict(from) < 0 || check_version(from) < 0
        || dls_interface_read_typestr(from) < 0 || dls_interface_read_shape(from) < 0
        || read_strides(from) < 0 || read_offset(from) < 0 || read_data(from) < 0
        || dls_reading_finish(&from->reading, NULL, NULL) < 0
        || read_syclobj(from, want, sycl) < 0) {
        return -1;
    }
    from->reading.loan->hold.py = PyTuple_Pack(3, from->reading.obj, from->dict,
                                               sycl->named);
    return from->reading.loan->hold.py != NULL ? 0 : -1;
}

int
dls_read_sycl_interface(dls_state *state, PyObject *obj, const dls_want *want,
                        dls_loan *loan, PyObject **queue)
{
    PyObject *dict = NULL;
    *queue = NULL;
    int got = dls_get_optional(obj, state->names.sycl_usm_array_interface, &dict);
    if (got > 0 && dict == Py_None) {
        got = 0; /* how a class says that it does not offer what its base does */
    }
    if (got > 0) {
        sycl_object sycl = {NULL, NULL, NULL};
        dls_interface from = {.reading = dls_reading_begin(state, obj, protocol, loan),
                              .dict = dict};
        got = dls_reading_end(&from.reading, read_dict(&from, want, &sycl));
        if (got > 0) {
            *queue = sycl.queue;
            sycl.queue = NULL;
        }
        sycl_object_clear(&sycl);
    }
    Py_XDECREF(dict);
    return got;
}

PyObject *
dls_sycl_named(const dls_hold *hold)
{
    while (hold->kind == DLS_HOLD_SHARED) {
        hold = &((const dls_shared *)hold->base)->hold;
    }
    PyObject *tuple = hold->py;
    bool ours = hold->kind == DLS_HOLD_NONE && tuple != NULL
                && PyTuple_CheckExact(tuple) && PyTuple_Size(tuple) == 3
                && PyDict_Check(PyTuple_GetItem(tuple, 1));
    return ours ? PyTuple_GetItem(tuple, 2) : NULL;
}

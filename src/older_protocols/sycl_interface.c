/* Reads __sycl_usm_array_interface__ (version 1).  The device and the queue are what
 * ['syclobj'] tells, with the help of its library if that is imported.
 * Called through the table in older_protocols.c, with the GIL; runs code of the object
 * and of its library.
 * Tests: tests/core/test_sycl_interface.py. */
#include "older_protocols/sycl_interface.h"

#include "exchange/plan_cache.h"
#include "older_protocols/interface_dict.h"
#include "python/errors.h"
#include "sync/producer_stream.h"

/* What ['syclobj'] comes to. */
typedef struct {
    PyObject *named;  /* strong: what may be given to others again and again; NULL:
                       * ['syclobj'] itself */
    PyObject *device; /* strong: the SyclDevice; NULL where it cannot be known */
    bool is_queue;    /* `named` is a queue */
} sycl_object;

#define SYCLOBJ                                                    \
    "be a SyclQueue, a SyclContext, a capsule of one of them, an " \
    "object with _get_capsule() that gives one, or a filter string"

/* --- data ----------------------------------------------------------------- */

/* dpctl.memory says "read-only" of memory that it writes itself, against dpctl's own
 * page (libraries.def, WRITABLE). */
static bool
is_writable(const dls_reading *reading)
{
    dls_plan *plan = dls_plan_known(reading->state, reading->obj);
    bool writable = plan != NULL && dls_plan_has(plan, DLS_LIB_WRITABLE);
    dls_plan_drop(plan);
    return writable;
}

static int
read_data(dls_reading *reading)
{
    int64_t offset;
    if (dls_dict_read_offset(reading, &offset) < 0 || dls_dict_read_data(reading) < 0) {
        return -1;
    }
    reading->acquired->tensor.byte_offset = (uint64_t)offset;
    if (is_writable(reading)) {
        reading->acquired->flags &= ~(uint64_t)DL_FLAG_READ_ONLY;
    }
    return dls_reading_finish(reading);
}

/* --- syclobj: its forms --------------------------------------------------- */

/* A SyclQueue tells its device at once: 1, 0: it is none, or -1. */
static int
try_queue(const dls_reading *reading, PyObject *value, sycl_object *sycl)
{
    int got = dls_get_optional(value, reading->state->names.sycl_device, &sycl->device);
    sycl->is_queue = got > 0;
    return got;
}

/* A SyclContext has a list of devices; memory in it is taken to lie on the first.  1,
 * 0: it is none, or -1. */
static int
try_context(const dls_reading *reading, PyObject *value, sycl_object *sycl)
{
    PyObject *method = NULL;
    int got = dls_get_optional(value, reading->state->names.get_devices, &method);
    if (got <= 0) {
        return got;
    }
    PyObject *devices = PyObject_CallFunctionObjArgs(method, NULL);
    Py_DECREF(method);
    sycl->device = devices != NULL ? PySequence_GetItem(devices, 0) : NULL;
    Py_XDECREF(devices);
    return sycl->device != NULL ? 1 : -1;
}

/* The library's classes copy what a capsule holds and then call it used.  The dict may
 * show the capsule again, so they get one of ours around the same content.  1, 0: the
 * library is not imported, or -1. */
static int
open_capsule(const dls_reading *reading, PyObject *capsule, sycl_object *sycl)
{
    static const struct {
        const char *name, *used;
        dls_sycl_form form;
        int (*read)(const dls_reading *, PyObject *, sycl_object *);
    } kinds[] = {
        {"SyclQueueRef", "used_SyclQueueRef", DLS_SYCL_QUEUE, try_queue},
        {"SyclContextRef", "used_SyclContextRef", DLS_SYCL_CONTEXT, try_context},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (PyCapsule_IsValid(capsule, kinds[i].used)) {
            return dls_reading_fail(reading, "the capsule in ['syclobj'] has been "
                                             "used: the dict has to name a new one");
        }
        if (!PyCapsule_IsValid(capsule, kinds[i].name)) {
            continue;
        }
        PyObject *alias = PyCapsule_New(PyCapsule_GetPointer(capsule, kinds[i].name),
                                        kinds[i].name, NULL);
        if (alias == NULL) {
            return -1;
        }
        int got = dls_library_sycl(reading->state, kinds[i].form, alias, &sycl->named);
        Py_DECREF(alias);
        return got > 0 ? kinds[i].read(reading, sycl->named, sycl) : got;
    }
    const dls_dict_value given = {DLS_ENTRY_syclobj, SYCLOBJ, capsule};
    return dls_dict_fail_value(reading, &given);
}

static int
open_getter(const dls_reading *reading, const dls_dict_value *entry, PyObject *method,
            sycl_object *sycl)
{
    PyObject *capsule = PyObject_CallFunctionObjArgs(method, NULL);
    if (capsule == NULL) {
        return -1;
    }
    int got = PyCapsule_CheckExact(capsule) ? open_capsule(reading, capsule, sycl)
                                            : dls_dict_fail_value(reading, entry);
    Py_DECREF(capsule);
    return got;
}

/* One of the forms of `syclobj`.  1, 0: its library is not imported, or -1. */
static int
open_form(const dls_reading *reading, const dls_dict_value *entry, sycl_object *sycl)
{
    PyObject *value = entry->value, *method = NULL;
    if (PyUnicode_Check(value)) {
        return dls_library_sycl(reading->state, DLS_SYCL_DEVICE, value, &sycl->device);
    }
    if (PyCapsule_CheckExact(value)) {
        return open_capsule(reading, value, sycl);
    }
    int got = try_queue(reading, value, sycl);
    got = got != 0 ? got : try_context(reading, value, sycl);
    if (got != 0) {
        return got;
    }
    got = dls_get_optional(value, reading->state->names.get_capsule, &method);
    if (got > 0) {
        got = open_getter(reading, entry, method, sycl);
        Py_DECREF(method);
        return got;
    }
    return got < 0 ? -1 : dls_dict_fail_type(reading, entry);
}

/* --- syclobj: its device -------------------------------------------------- */

/* What the library's objects raise becomes the cause of a BufferError
 * (SyclDeviceCreationError is no kind of it).  Always -1. */
static int
fail_foreign(const dls_reading *reading)
{
    if (dls_error_is_fatal() || PyErr_ExceptionMatches(PyExc_BufferError)) {
        return -1;
    }
    PyObject *error = dls_error_take();
    dls_reading_fail(
        reading,
        "['syclobj'] does not tell its device: %S; assume_device=(14, number) names it",
        error);
    return dls_refuse_with_cause(error);
}

static int
read_number(const dls_reading *reading, PyObject *device, int32_t *number)
{
    PyObject *value = PyObject_CallMethod(device, "get_device_id", NULL);
    long id = value != NULL ? PyLong_AsLong(value) : -1;
    Py_XDECREF(value);
    if (PyErr_Occurred() != NULL) {
        return fail_foreign(reading);
    }
    if (id < 0 || id > INT32_MAX) {
        return dls_reading_fail(
            reading,
            "the device of ['syclobj'] has the number %ld, which DLPack "
            "has no word for; assume_device=(14, number) names another",
            id);
    }
    *number = (int32_t)id;
    return 0;
}

static int
read_syclobj(const dls_reading *reading, sycl_object *sycl)
{
    const dls_request *request = reading->request;
    dl_device *device = &reading->acquired->tensor.device;
    const dls_dict_value entry = dls_dict_get(reading, DLS_ENTRY_syclobj, SYCLOBJ);
    if (dls_dict_require(reading, &entry) < 0) {
        return -1;
    }
    int got = open_form(reading, &entry, sycl);
    *device = request->has_assumed ? request->assumed : (dl_device){dl_kDLOneAPI, 0};
    if (got < 0) {
        return fail_foreign(reading);
    }
    if (request->has_assumed) {
        return 0;
    }
    if (sycl->device == NULL) {
        return dls_reading_fail(
            reading,
            "which device ['syclobj'], %R, means only the library can tell that made "
            "it, and it is not imported: import dpctl, or name the device with "
            "assume_device=(14, number)",
            entry.value);
    }
    return read_number(reading, sycl->device, &device->device_id);
}

/* --- the reader ----------------------------------------------------------- */

int
dls_sycl_interface_read(dls_reading *reading)
{
    dls_acquired *acquired = reading->acquired;
    sycl_object sycl = {NULL, NULL, false};
    if (dls_dict_open(reading) < 0 || read_data(reading) < 0) {
        return -1;
    }
    if (read_syclobj(reading, &sycl) == 0) {
        PyObject *named = sycl.named != NULL ? sycl.named
                                             : reading->entries[DLS_ENTRY_syclobj];
        acquired->hold.py = PyTuple_Pack(3, reading->obj, reading->given, named);
        /* A queue orders nothing on a device that is assumed to be another kind. */
        if (sycl.is_queue && acquired->tensor.device.device_type == dl_kDLOneAPI) {
            *reading->p = dls_producer_stream_of_object(named);
        }
    }
    Py_XDECREF(sycl.named);
    Py_XDECREF(sycl.device);
    return acquired->hold.py != NULL ? 0 : -1;
}

PyObject *
dls_syclobj_find(const dls_hold *hold)
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

/* Reads __sycl_usm_array_interface__ (version 1).  ['syclobj'] tells the device and the
 * queue by shim/oneapi.py, with the help of its library if that is imported. Called
 * through the table in protocols.c, with the GIL; runs code of the object and of
 * its library. Tests: tests/core/test_sycl_interface.py. */
#include "protocols/protocols.h"

#include "protocols/interface_dict.h"
#include "python/errors.h"
#include "python/state.h"
#include "sync/producer_stream.h"
#include "types/plan_cache.h"

#define SYCLOBJ                                                    \
    "be a SyclQueue, a SyclContext, a capsule of one of them, an " \
    "object with _get_capsule() that gives one, or a filter string"

/* --- data ----------------------------------------------------------------- */

/* dpctl.memory says "read-only" of memory that it writes itself, against dpctl's own
 * page (WRITABLE, shim/habits.py). */
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

/* --- syclobj -------------------------------------------------------------- */

/* The result of `read_syclobj` of shim/oneapi.py: a tuple of the syclobj in a form that
 * may be given to others again and again, the number of its device, and whether it is a
 * queue. */
enum { OPENED_NAMED, OPENED_NUMBER, OPENED_IS_QUEUE, OPENED };

/* The library's classes copy the content of a capsule and then mark it as used.  The
 * dict may show the capsule again, so they get one of ours around the same content.
 * The tuple, or NULL. */
static PyObject *
open_capsule(const dls_reading *reading, PyObject *capsule)
{
    static const struct {
        const char *name, *used, *class;
    } kinds[] = {
        {"SyclQueueRef", "used_SyclQueueRef", "SyclQueue"},
        {"SyclContextRef", "used_SyclContextRef", "SyclContext"},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (PyCapsule_IsValid(capsule, kinds[i].used)) {
            dls_reading_fail(reading, "the capsule in ['syclobj'] has been used\n"
                                      "  the dict has to name a new one");
            return NULL;
        }
        if (PyCapsule_IsValid(capsule, kinds[i].name)) {
            void *content = PyCapsule_GetPointer(capsule, kinds[i].name);
            return dls_in_python_with(
                reading->state, DLS_IN_ONEAPI, "read_syclobj", "(Nis)",
                PyCapsule_New(content, kinds[i].name, NULL),
                !reading->request->want.has_assumed, kinds[i].class);
        }
    }
    const dls_dict_value given = {DLS_ENTRY_syclobj, SYCLOBJ, capsule};
    dls_dict_fail_value(reading, &given);
    return NULL;
}

/* The tuple of one of the forms, or NULL.  The tuple of an object that gives a capsule
 * has one item; that of an object of no form has none. */
static PyObject *
open_form(const dls_reading *reading, const dls_dict_value *entry)
{
    PyObject *capsule = entry->value, *opened = NULL, *result = NULL;
    if (!PyCapsule_CheckExact(capsule)) {
        opened = dls_in_python_with(reading->state, DLS_IN_ONEAPI, "read_syclobj",
                                    "(Oi)", capsule,
                                    !reading->request->want.has_assumed);
        Py_ssize_t n = opened != NULL ? PyTuple_Size(opened) : OPENED;
        if (n == OPENED) {
            return opened;
        }
        capsule = n == 1 ? PyTuple_GetItem(opened, 0) : NULL;
    }
    if (capsule == NULL) {
        dls_dict_fail_type(reading, entry);
    }
    else if (PyCapsule_CheckExact(capsule)) {
        result = open_capsule(reading, capsule);
    }
    else {
        dls_dict_fail_value(reading, entry);
    }
    Py_XDECREF(opened);
    return result;
}

/* Make an exception of the library's objects the cause of a BufferError
 * (SyclDeviceCreationError is no BufferError).  Always -1. */
static int
fail_foreign(const dls_reading *reading)
{
    if (dls_error_is_fatal() || PyErr_ExceptionMatches(PyExc_BufferError)) {
        return -1;
    }
    PyObject *error = dls_error_take();
    dls_reading_fail_option(reading,
                            "['syclobj'] does not tell its device: %S\n"
                            "  pass assume_device=(14, number)",
                            error);
    return dls_refuse_with_cause(error);
}

static int
read_number(const dls_reading *reading, PyObject *value, PyObject *number,
            int32_t *device_id)
{
    if (number == Py_None) {
        return dls_reading_fail_option(
            reading,
            "the device of ['syclobj'] %R is known only to dpctl, which is not "
            "imported\n"
            "  import dpctl, or pass assume_device=(14, number)",
            value);
    }
    long id = PyLong_AsLong(number);
    if (PyErr_Occurred() != NULL) {
        return fail_foreign(reading);
    }
    if (id < 0 || id > INT32_MAX) {
        return dls_reading_fail_option(reading,
                                       "the device of ['syclobj'] has the number %ld, "
                                       "which DLPack cannot describe\n"
                                       "  pass assume_device=(14, another number)",
                                       id);
    }
    *device_id = (int32_t)id;
    return 0;
}

/* The tuple, or NULL; the device is set. */
static PyObject *
read_syclobj(const dls_reading *reading)
{
    const dls_request *request = reading->request;
    dl_device *device = &reading->acquired->tensor.device;
    const dls_dict_value entry = dls_dict_get(reading, DLS_ENTRY_syclobj, SYCLOBJ);
    if (dls_dict_require(reading, &entry) < 0) {
        return NULL;
    }
    PyObject *opened = open_form(reading, &entry);
    *device = request->want.has_assumed ? request->want.assumed
                                        : (dl_device){dl_kDLOneAPI, 0};
    if (opened == NULL) {
        fail_foreign(reading);
    }
    else if (!request->want.has_assumed
             && read_number(reading, entry.value,
                            PyTuple_GetItem(opened, OPENED_NUMBER), &device->device_id)
                    < 0) {
        Py_CLEAR(opened);
    }
    return opened;
}

/* --- the reader ----------------------------------------------------------- */

int
dls_sycl_interface_read(dls_reading *reading)
{
    dls_acquired *acquired = reading->acquired;
    if (dls_dict_open(reading) < 0 || read_data(reading) < 0) {
        return -1;
    }
    PyObject *opened = read_syclobj(reading);
    if (opened == NULL) {
        return -1;
    }
    PyObject *named = PyTuple_GetItem(opened, OPENED_NAMED);
    bool is_queue = PyTuple_GetItem(opened, OPENED_IS_QUEUE) == Py_True;
    acquired->hold.py = Py_BuildValue("(OOO)", reading->obj, reading->given, named);
    /* A queue orders nothing on a device that is assumed to be another kind. */
    if (is_queue && acquired->tensor.device.device_type == dl_kDLOneAPI) {
        *reading->p = dls_producer_stream_of_object(named);
    }
    Py_DECREF(opened);
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

/* Reads __cuda_array_interface__ (versions 0 to 3), which torch and CuPy offer for ROCm
 * too.  Called through the table in protocols.c, with the GIL, which is released
 * while the driver is asked whose memory the address is.
 * Tests: tests/core/test_cuda_interface.py, tests/device/test_cuda_interface.py. */
#include "protocols/reading.h"

#include "gpu/pointer.h"
#include "protocols/interface_dict.h"
#include "python/errors.h"
#include "sync/producer_stream.h"
#include "sync/stream_value.h"

#define STREAM_VERSION 3 /* the first version whose dict has a word for the stream */

/* --- producer stream ------------------------------------------------------ */

/* 0 could mean the legacy default stream or a per-thread one.  It is ignored if the
 * consumer wants no sync, or if the user names the producer stream. */
static int
read_zero(const dls_reading *reading)
{
    const dls_request *request = reading->request;
    bool named = request->streams.producer != NULL
                 && request->streams.producer != Py_None;
    if (named || dls_stream_is_minus_one(request->streams.consumer)) {
        *reading->p = (dls_producer_stream){.known = DLS_P_UNKNOWN};
        return 0;
    }
    return dls_reading_fail_option(
        reading, "['stream'] must not be 0, which the protocol forbids as ambiguous\n"
                 "  the dict has to say 1 for the legacy default stream or 2 for the "
                 "per-thread one, or pass producer_stream= to upgrade");
}

/* Before version 3 the dict says nothing of the producer stream; from then on None
 * means that nothing has to be waited for. */
static int
read_stream(const dls_reading *reading)
{
    const dls_dict_value entry = dls_dict_get(reading, DLS_ENTRY_stream,
                                              "be None or a stream handle as int");
    uint64_t handle = 0;
    if (reading->version < STREAM_VERSION) {
        return 0;
    }
    *reading->p = (dls_producer_stream){.known = DLS_P_READY};
    if (entry.value == NULL) {
        return 0;
    }
    if (dls_dict_read_unsigned(reading, &entry, &handle) < 0) {
        return -1;
    }
    /* mutant: stream of an interface */
    *reading->p = dls_producer_stream_of_handle(handle);
    return handle == 0 ? read_zero(reading) : 0;
}

/* --- device --------------------------------------------------------------- */

/* A device number; -1: the value (NULL allowed) is none. */
static int
number_of(PyObject *value)
{
    if (value == NULL || !PyLong_Check(value) || PyBool_Check(value)) {
        return -1;
    }
    long number = PyLong_AsLong(value);
    PyErr_Clear(); /* too large for a device */
    return number >= 0 && number <= INT32_MAX ? (int)number : -1;
}

/* *number in obj.name, -1: there is none.  0, or -1 with an exception. */
static int
probe_number(PyObject *obj, PyObject *name, int *number)
{
    PyObject *value = NULL;
    if (dls_get_optional(obj, name, &value) < 0) {
        return dls_error_forget();
    }
    *number = number_of(value);
    Py_XDECREF(value);
    return 0;
}

/* Ask the object for its device: the number in obj.device.id (CuPy), obj.device_id or
 * obj.device, the first that is a device number; *ordinal is -1 if none is.  An
 * exception means "no number", unless no probe may hide it: 0, or -1 with such an
 * exception. */
static int
ask_object(dls_state *state, PyObject *obj, int *ordinal)
{
    PyObject *device = NULL;
    int got = dls_get_optional(obj, state->names.device, &device);
    int result = got < 0 ? dls_error_forget() : 0;
    *ordinal = -1;
    if (result == 0 && device != NULL) {
        result = probe_number(device, state->names.id, ordinal);
    }
    if (result == 0 && *ordinal < 0) {
        result = probe_number(obj, state->names.device_id, ordinal);
    }
    if (result == 0 && *ordinal < 0) {
        *ordinal = number_of(device);
    }
    Py_XDECREF(device);
    return result;
}

/* The driver tells whose memory the address is; where it does not tell the number, the
 * object's own word decides, else the current device. */
static int
find_device(const dls_reading *reading)
{
    dls_memory *memory = dls_acquired_memory(reading->acquired);
    dl_device *device = &reading->acquired->tensor.device;
    dls_error err;
    int code, ordinal;
    Py_BEGIN_ALLOW_THREADS
    code = dls_pointer_device(memory, device, &err);
    Py_END_ALLOW_THREADS
    if (code == DLS_ENODRIVER) {
        return dls_refuse(reading->state, DLS_EOPTION, reading->obj,
                          "%s%spass assume_device=, such as (2, 0) for the first CUDA "
                          "device",
                          err.text, dls_cure_joint(err.text));
    }
    if (code != DLS_OK) {
        return dls_refuse_error(reading->state, reading->obj, &err);
    }
    if (device->device_type == 0) {
        return dls_reading_fail_option(
            reading,
            "the CUDA driver knows no memory at its address %p: it is no CUDA memory, "
            "or it has been freed\n"
            "  pass assume_device= for other memory",
            memory->address);
    }
    if (device->device_id >= 0) {
        return 0;
    }
    if (ask_object(reading->state, reading->obj, &ordinal) < 0) {
        return -1;
    }
    if (ordinal < 0) {
        Py_BEGIN_ALLOW_THREADS
        ordinal = dls_pointer_current_device();
        Py_END_ALLOW_THREADS
    }
    device->device_id = ordinal;
    return 0;
}

/* An array without elements has no address to ask about, and the driver is not called
 * (S10): the object's own word decides, else it is device 0. */
static int
label_empty(const dls_reading *reading)
{
    int ordinal;
    if (ask_object(reading->state, reading->obj, &ordinal) < 0) {
        return -1;
    }
    int32_t type;
    Py_BEGIN_ALLOW_THREADS
    type = dls_pointer_default_type();
    Py_END_ALLOW_THREADS
    reading->acquired->tensor.device = (dl_device){type, ordinal >= 0 ? ordinal : 0};
    return 0;
}

/* --- the reader ----------------------------------------------------------- */

int
dls_cuda_interface_read(dls_reading *reading)
{
    dl_device *device = &reading->acquired->tensor.device;
    /* The data come last: an array that is refused anyway must not pin the memory. */
    if (dls_dict_open(reading) < 0 || read_stream(reading) < 0
        || dls_dict_read_data(reading) < 0 || dls_reading_finish(reading) < 0) {
        return -1;
    }
    bool empty = reading->high == 0;
    if (empty) {
        *reading->p = (dls_producer_stream){.known = DLS_P_READY};
    }
    if (reading->request->want.has_assumed) {
        *device = reading->request->want.assumed;
    }
    else if ((empty ? label_empty(reading) : find_device(reading)) < 0) {
        return -1;
    }
    bool rocm = device->device_type == dl_kDLROCM
                || device->device_type == dl_kDLROCMHost;
    if (rocm && reading->p->handle == 1) {
        reading->p->handle = 0; /* HIP's null stream; 2 is per-thread there too */
    }
    return 0;
}

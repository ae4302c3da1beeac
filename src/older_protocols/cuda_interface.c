#include "older_protocols/cuda_interface.h"

#include "gpu/hip.h"
#include "gpu/pointer.h"
#include "older_protocols/interface_dict.h"
#include "python/errors.h"
#include "sync/stream_value.h"

#define NEWEST_VERSION 3

/* --- version and stream --------------------------------------------------------- */

static int
read_version(const dls_interface *from, int64_t *version)
{
    static const char wanted[] = "be an int from 0 to 3";
    PyObject *value = NULL;
    int got = dls_interface_get_text(from, "version", &value);
    if (got <= 0) {
        return got < 0 ? -1 : dls_interface_fail_missing(from, "version", wanted);
    }
    int result = dls_interface_refuse_bool(from, "version", wanted, value);
    if (result == 0) {
        result = dls_interface_read_int(from, "version", wanted, value, version);
    }
    if (result == 0 && *version > NEWEST_VERSION) {
        result =
            dls_reading_fail(&from->reading,
                             "its version %lld is newer than %d, the newest that is "
                             "known here: ask the producer for an older one, or "
                             "update dlshim",
                             (long long)*version, NEWEST_VERSION);
    }
    else if (result == 0 && *version < 0) {
        result = dls_interface_fail_value(from, "version", wanted, value);
    }
    Py_DECREF(value);
    return result;
}

/* 0 could mean the legacy default stream or a per-thread one.  It is nobody's word
 * where no order is wanted, or somebody else knows. */
static int
read_zero(const dls_interface *from, const dls_want *want, dls_pending *p)
{
    bool named = want->producer_stream != NULL && want->producer_stream != Py_None;
    if (named || dls_stream_is_minus_one(want->stream)) {
        *p = (dls_pending){.known = DLS_P_UNKNOWN};
        return 0;
    }
    return dls_reading_fail(
        &from->reading, "['stream'] must not be 0, which the protocol forbids as "
                        "ambiguous: the dict has to say 1 for the legacy default "
                        "stream or 2 for the per-thread one; or pass producer_stream= "
                        "to upgrade");
}

/* Which stream has the pending work?  Before version 3 the dict had no word for it;
 * from then on None means that no synchronisation is needed. */
static int
read_stream(const dls_interface *from, const dls_want *want, int64_t version,
            dls_pending *p)
{
    static const char wanted[] = "be None or a stream handle as int";
    PyObject *value = NULL;
    *p = (dls_pending){.known = version < 3 ? DLS_P_UNKNOWN : DLS_P_READY};
    if (version < 3) {
        return 0;
    }
    int got = dls_interface_get(from, from->reading.state->names.stream, &value);
    if (got <= 0) {
        return got;
    }
    uint64_t handle = 0;
    int result = dls_interface_refuse_bool(from, "stream", wanted, value);
    if (result == 0) {
        result = dls_interface_read_unsigned(from, "stream", wanted, value, &handle);
    }
    if (result == 0) {
        *p = (dls_pending){.known = DLS_P_KNOWN, .handle = handle};
        result = handle == 0 ? read_zero(from, want, p) : 0;
    }
    Py_DECREF(value);
    return result;
}

/* --- data ------------------------------------------------------------------------- */

/* The items of a sequence that may make them up on the spot: each is asked for once. */
static int
read_pair(dls_interface *from, PyObject *pair, Py_ssize_t size)
{
    static const char wanted[] = "be a pair (address, read-only)";
    PyObject *address = NULL, *readonly = NULL;
    int result = -1;
    if (size != 2) {
        return dls_interface_fail_value(from, "data", wanted, pair);
    }
    /* The address last: giving it away can pin the memory for good. */
    readonly = PySequence_GetItem(pair, 1);
    address = readonly != NULL ? PySequence_GetItem(pair, 0) : NULL;
    if (address != NULL) {
        result = dls_interface_refuse_bool(from, "data", "start with an address as int",
                                           address);
    }
    if (result == 0) {
        result = dls_interface_set_data(from, address, readonly);
    }
    Py_XDECREF(address);
    Py_XDECREF(readonly);
    return result;
}

static int
read_data(dls_interface *from)
{
    static const char wanted[] = "be a pair (address, read-only)";
    PyObject *value = NULL;
    int got = dls_interface_get(from, from->reading.state->names.data, &value);
    if (got <= 0) {
        return got < 0 ? -1 : dls_interface_fail_missing(from, "data", wanted);
    }
    int result = -1;
    if (!PySequence_Check(value) || PyUnicode_Check(value) || PyBytes_Check(value)) {
        dls_interface_fail_type(from, "data", wanted, value);
    }
    else {
        Py_ssize_t size = PySequence_Size(value);
        result = size < 0 ? -1 : read_pair(from, value, size);
    }
    Py_DECREF(value);
    return result;
}

/* --- device -------------------------------------------------------------------------
 */

/* obj.name, a new reference; NULL, nothing set, if it has none or does not tell.  0, or
 * -1 with an exception that nothing may hide. */
static int
ask_attribute(PyObject *obj, const char *name, PyObject **value)
{
    PyObject *key = PyUnicode_FromString(name);
    *value = NULL;
    if (key == NULL) {
        return -1;
    }
    int got = dls_get_optional(obj, key, value);
    Py_DECREF(key);
    return got < 0 ? dls_error_forget() : 0;
}

/* A device number; -1: this is none. */
static int
number_of(PyObject *value)
{
    if (!PyLong_Check(value) || PyBool_Check(value)) {
        return -1;
    }
    long number = PyLong_AsLong(value);
    PyErr_Clear(); /* too large for a device */
    return number >= 0 && number <= INT32_MAX ? (int)number : -1;
}

/* The number in obj.name, if there is one.  0, or -1 with an exception. */
static int
ask_number(PyObject *obj, const char *name, int *number)
{
    PyObject *value;
    if (ask_attribute(obj, name, &value) < 0) {
        return -1;
    }
    if (value != NULL) {
        *number = number_of(value);
        Py_DECREF(value);
    }
    return 0;
}

/* The object's own word: .device.id (CuPy), .device_id, .device; *ordinal -1 if it has
 * none.  0, or -1 with an exception. */
static int
ask_object(PyObject *obj, int *ordinal)
{
    PyObject *device;
    *ordinal = -1;
    int result = ask_attribute(obj, "device", &device);
    if (result == 0 && device != NULL) {
        result = ask_number(device, "id", ordinal);
    }
    if (result == 0 && *ordinal < 0) {
        result = ask_number(obj, "device_id", ordinal);
    }
    if (result == 0 && *ordinal < 0 && device != NULL) {
        *ordinal = number_of(device);
    }
    Py_XDECREF(device);
    return result;
}

/* Number of the current device; 0 where there is none, or no driver is in use.  Without
 * the GIL. */
static int
current_ordinal(void)
{
    const dls_cuda_api *api = dls_cuda_if_mapped();
    CUdevice current, device;
    if (api == NULL || api->cuCtxGetDevice(&current) != CU_OK) {
        return 0;
    }
    for (int i = 0; api->cuDeviceGet(&device, i) == CU_OK; i++) {
        if (device == current) {
            return i;
        }
    }
    return 0;
}

/* Where the driver cannot say: the object's own word, else the current device. */
static int
guess_device(const dls_interface *from, int32_t device_type)
{
    int ordinal;
    if (ask_object(from->reading.obj, &ordinal) < 0) {
        return -1;
    }
    if (ordinal < 0) {
        Py_BEGIN_ALLOW_THREADS
        ordinal = current_ordinal();
        Py_END_ALLOW_THREADS
    }
    from->reading.loan->tensor.device = (dl_device){device_type, ordinal};
    return 0;
}

/* Not every driver need answer where no context is current (CuPy makes one first): ask
 * once more inside one that lives already.  Without the GIL. */
static void
ask_again_in_context(const dls_cuda_api *api, const void *address,
                     dls_cuda_pointer *found)
{
    CUcontext current;
    CUdevice device;
    bool entered = false;
    if (api->cuCtxGetCurrent(&current) != CU_OK || current != NULL) {
        return;
    }
    for (int i = 0; !entered && api->cuDeviceGet(&device, i) == CU_OK; i++) {
        entered = dls_cuda_enter_device(api, i);
    }
    if (entered) {
        dls_cuda_ask_pointer(api, address, found);
        dls_cuda_pop(api);
    }
}

/* torch and CuPy offer this protocol for ROCm too. */
static bool
rocm_only(void)
{
    return dls_hip_is_mapped() && dls_cuda_if_mapped() == NULL;
}

/* Without the GIL.  Does a HIP runtime own the memory?  Managed memory counts as
 * ROCm's. */
static bool
find_rocm(const void *address, dl_device *device)
{
    dls_hip_pointer found;
    if (!rocm_only()) {
        return false;
    }
    dls_hip_ask_pointer(address, &found);
    if (found.api != NULL) {
        *device = (dl_device){found.on_host ? dl_kDLROCMHost : dl_kDLROCM,
                              found.on_host || found.device < 0 ? 0 : found.device};
    }
    return found.api != NULL;
}

/* Whose memory it is, the driver tells. */
static int
find_device(const dls_interface *from)
{
    dl_tensor *tensor = &from->reading.loan->tensor;
    const dls_cuda_api *api;
    dls_cuda_pointer found;
    dls_error err;
    bool rocm;
    int code;
    Py_BEGIN_ALLOW_THREADS
    rocm = find_rocm(tensor->data, &tensor->device);
    Py_END_ALLOW_THREADS
    if (rocm) {
        return 0;
    }
    Py_BEGIN_ALLOW_THREADS
    code = dls_cuda_load(&api, &err);
    if (code == DLS_OK) {
        dls_cuda_ask_pointer(api, tensor->data, &found);
        if (found.type == 0) {
            ask_again_in_context(api, tensor->data, &found);
        }
    }
    Py_END_ALLOW_THREADS
    if (code != DLS_OK) {
        return dls_raise_error(from->reading.state, from->reading.obj, &err);
    }
    if (found.type == 0) {
        return dls_reading_fail(
            &from->reading,
            "the CUDA driver knows no memory at its address %p: it is "
            "no CUDA memory, or it has been freed (assume_device= says "
            "where other memory lies)",
            tensor->data);
    }
    /* Managed first: the driver may call its memory the host's while it lies there. */
    if (!found.managed && found.type == CU_TYPE_HOST) {
        tensor->device = (dl_device){dl_kDLCUDAHost, 0};
        return 0;
    }
    int32_t device_type = found.managed ? dl_kDLCUDAManaged : dl_kDLCUDA;
    if (found.ordinal < 0) {
        return guess_device(from, device_type);
    }
    tensor->device = (dl_device){device_type, found.ordinal};
    return 0;
}

/* --- the protocol
 * --------------------------------------------------------------------- */

static int
read_dict(dls_interface *from, const dls_want *want, dls_pending *p)
{
    int64_t version = 0, low, high;
    /* The data come last: what is refused anyway must not pin the memory. */
    if (dls_interface_check_dict(from) < 0 || read_version(from, &version) < 0
        || dls_interface_check_mask(from) < 0 || dls_interface_read_typestr(from) < 0
        || dls_interface_read_shape(from) < 0 || dls_interface_read_strides(from) < 0
        || read_stream(from, want, version, p) < 0 || read_data(from) < 0
        || dls_reading_finish(&from->reading, &low, &high) < 0) {
        return -1;
    }
    bool empty = high == 0;
    int32_t family = empty && rocm_only() ? dl_kDLROCM : dl_kDLCUDA;
    if (empty) {
        *p = (dls_pending){.known = DLS_P_READY};
    }
    if (want->has_assumed) {
        from->reading.loan->tensor.device = want->assumed;
    }
    else if ((empty ? guess_device(from, family) : find_device(from)) < 0) {
        return -1;
    }
    int32_t type = from->reading.loan->tensor.device.device_type;
    if ((type == dl_kDLROCM || type == dl_kDLROCMHost) && p->handle == 1) {
        p->handle = 0; /* the null stream; 2 is hipStreamPerThread there too */
    }
    return dls_interface_hold(from);
}

int
dls_read_cuda_interface(dls_state *state, PyObject *obj, const dls_want *want,
                        dls_loan *loan, dls_pending *p)
{
    PyObject *dict = NULL;
    int got = dls_get_optional(obj, state->names.cuda_array_interface, &dict);
    if (got > 0 && dict == Py_None) {
        got = 0; /* how a class says that it does not offer what its base does */
    }
    if (got > 0) {
        dls_interface from = {.reading = dls_reading_begin(state, obj,
                                                           "__cuda_array_interface__",
                                                           loan),
                              .dict = dict};
        got = dls_reading_end(&from.reading, read_dict(&from, want, p));
    }
    Py_XDECREF(dict);
    return got;
}

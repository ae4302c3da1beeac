#include "sync/producer_stream.h"

#include "core/device.h"
#include "gpu/driver.h"
#include "gpu/sync_rules.h"
#include "python/errors.h"

/* The handle of the legacy default stream. */
static uint64_t
legacy_of(dl_device device)
{
    return dls_driver_of(device.device_type)->legacy;
}

/* A stream that was named for P.  0, or -1. */
static int
name_pending(dls_state *state, dls_family family, PyObject *stream, dls_pending *p)
{
    dls_stream named;
    if (family == DLS_FAMILY_OTHER) {
        int got = dls_stream_read_opaque(state, stream, &named);
        bool ready = got == 0 && named.value == DLS_VALUE_MINUS_ONE;
        *p = ready ? (dls_pending){.known = DLS_P_READY}
                   : dls_pending_handle(named.handle);
        return got;
    }
    if (dls_stream_read(state, stream, &named) < 0) {
        return -1;
    }
    if (named.value == DLS_VALUE_OBJECT && family == DLS_FAMILY_ONEAPI) {
        *p = dls_pending_object(stream);
        return 0;
    }
    if (family == DLS_FAMILY_ONEAPI && named.value != DLS_VALUE_MINUS_ONE) {
        return dls_order_raise_value(state, family, DLS_DUTY_TYPE, stream);
    }
    bool rocm = family == DLS_FAMILY_ROCM || family == DLS_FAMILY_ROCM_HOST;
    switch (named.value) {
    case DLS_VALUE_MINUS_ONE:
        *p = (dls_pending){.known = DLS_P_READY};
        return 0;
    case DLS_VALUE_HANDLE:
        *p = dls_pending_handle(named.handle);
        return 0;
    case DLS_VALUE_ONE:
    case DLS_VALUE_TWO:
        if (!rocm) {
            *p = dls_pending_handle(named.handle);
            return 0;
        }
        return dls_order_raise_value(state, DLS_FAMILY_ROCM, DLS_DUTY_VALUE, stream);
    case DLS_VALUE_ZERO:
        if (rocm || named.from_object) {
            *p = dls_pending_handle(!rocm);
            return 0;
        }
        return dls_order_raise_value(state, DLS_FAMILY_CUDA, DLS_DUTY_VALUE, stream);
    default:
        return dls_order_raise_value(state, family, DLS_DUTY_TYPE, stream);
    }
}

/* What the type's exchange table says.  Its failure says nothing. */
static void
ask_table(const dls_plan *plan, dl_device device, dls_pending *p)
{
    void *stream = NULL;
    if (device.device_type == dl_kDLOneAPI) {
        return; /* a sycl::queue of C++, which Python cannot wait for */
    }
    if (plan->table == NULL || plan->table->current_work_stream == NULL
        || dls_plan_has(plan, DLS_LIB_NO_WORK_STREAM)) {
        return;
    }
    if (plan->table->current_work_stream(device.device_type, device.device_id, &stream)
        == 0) {
        *p = dls_pending_handle(stream != NULL ? (uint64_t)(uintptr_t)stream
                                               : legacy_of(device));
    }
    PyErr_Clear();
}

/* What the library says of its current stream.  0, or -1 with a fatal exception. */
DLS_COLD static int
ask_library(dls_state *state, const dls_plan *plan, PyObject *obj, dls_order *order,
            dls_pending *p)
{
    PyObject *stream = NULL;
    if (plan->library == NULL) {
        return 0;
    }
    bool entered = dls_order_enter(order);
    int got = dls_library_stream(state, plan->library, obj, order->device, &stream);
    if (entered) {
        dls_order_leave(order);
    }
    dls_stream named;
    if (got > 0 && dls_stream_read(state, stream, &named) < 0) {
        got = -1;
    }
    if (got < 0) {
        Py_XDECREF(stream);
        return dls_error_forget(); /* it does not know */
    }
    if (got > 0 && named.value == DLS_VALUE_OBJECT
        && order->device.device_type == dl_kDLOneAPI) {
        *p = dls_pending_object(stream);
        order->queue = stream;
        stream = NULL;
    }
    else if (got > 0 && named.value != DLS_VALUE_OBJECT
             && named.value != DLS_VALUE_MINUS_ONE
             && (named.handle != 0 || !dls_plan_has(plan, DLS_LIB_ZERO_UNSAID))) {
        *p = dls_pending_handle(named.handle != 0 ? named.handle
                                                  : legacy_of(order->device));
    }
    Py_XDECREF(stream);
    return 0;
}

int
dls_pending_ask(dls_state *state, const dls_plan *plan, PyObject *obj, dls_order *order,
                dls_pending *p)
{
    ask_table(plan, order->device, p);
    return p->known == DLS_P_UNKNOWN ? ask_library(state, plan, obj, order, p) : 0;
}

DLS_COLD int
dls_pending_learn(dls_state *state, const dls_plan *plan, PyObject *obj,
                  const dls_want *want, dls_order *order, dls_pending *p)
{
    if (p->known != DLS_P_UNKNOWN) {
        return 0;
    }
    dls_family family = dls_family_of(order->device.device_type);
    if (want->producer_stream != NULL && want->producer_stream != Py_None) {
        return name_pending(state, family, want->producer_stream, p);
    }
    /* Nobody tracks copies into pinned memory, and a current stream says nothing of it;
     * of the streams of other devices nothing is known. */
    if (plan == NULL || family == DLS_FAMILY_OTHER
        || dls_device_is_host(order->device.device_type)) {
        return 0;
    }
    return dls_pending_ask(state, plan, obj, order, p);
}

DLS_COLD int
dls_pending_of(dls_state *state, const dls_plan *plan, PyObject *obj,
               const dls_want *want, dl_device device, dls_pending *p)
{
    dls_order order = {.device = device};
    int code = dls_pending_learn(state, plan, obj, want, &order, p);
    if (p->object != NULL) {
        *p = (dls_pending){.known = DLS_P_UNKNOWN}; /* a queue that nobody holds */
    }
    dls_order_end(&order);
    return code;
}

DLS_COLD int
dls_pending_queue(dls_state *state, const dls_plan *plan, PyObject *obj,
                  dl_device device, PyObject **queue)
{
    dls_order order = {.device = device};
    dls_pending p = {.known = DLS_P_UNKNOWN};
    int result = ask_library(state, plan, obj, &order, &p);
    *queue = order.queue;
    return result;
}

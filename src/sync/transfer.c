#include "sync/transfer.h"

#include "acquire/learned.h"
#include "core/device.h"
#include "core/layout.h"
#include "gpu/device_copy.h"
#include "gpu/driver.h"
#include "gpu/hip.h"
#include "gpu/pointer.h"
#include "gpu/sync_rules.h"
#include "python/errors.h"
#include "sync/producer_stream.h"
#include "sync/sycl_queue.h"
#include "sync/sync_exchange.h"

/* A copy stream for nothing: an empty tensor needs none, and no driver. */
#define NO_COPY 1

/* --- routes -------------------------------------------------------------------------
 */

dls_route
dls_route_of(const dls_want *want, dl_device have)
{
    dl_device to = want->device;
    if (!want->has_device
        || (to.device_type == have.device_type && to.device_id == have.device_id)) {
        return DLS_ROUTE_HERE;
    }
    bool managed = have.device_type == dl_kDLCUDAManaged;
    if (to.device_type == dl_kDLCPU) {
        return managed || dls_device_is_host(have.device_type) ? DLS_ROUTE_AS_HOST
               : have.device_type == dl_kDLCUDA || have.device_type == dl_kDLROCM
                   ? DLS_ROUTE_TO_HOST
                   : DLS_ROUTE_MOVE;
    }
    bool same_id = to.device_id == have.device_id;
    return managed && same_id && to.device_type == dl_kDLCUDA ? DLS_ROUTE_AS_CUDA
                                                              : DLS_ROUTE_MOVE;
}

int
dls_want_stream(dls_state *state, const dls_want *want, dls_stream *out)
{
    dls_stream_memory *seen = want->seen;
    if (seen == NULL || want->stream == NULL) {
        return dls_stream_read(state, want->stream, out);
    }
    if (seen->object != want->stream) {
        if (dls_stream_read(state, want->stream, &seen->read) < 0) {
            return -1;
        }
        seen->object = want->stream;
    }
    *out = seen->read;
    return 0;
}

/* The same, as the device's family knows streams. */
static int
read_s(dls_state *state, const dls_want *want, dls_family family, dls_stream *out)
{
    return family == DLS_FAMILY_OTHER ? dls_stream_read_opaque(state, want->stream, out)
                                      : dls_want_stream(state, want, out);
}

/* --- before the call
 * ------------------------------------------------------------------ */

DLS_COLD int
dls_order_raise_value(dls_state *state, dls_family family, dls_duty duty,
                      PyObject *stream)
{
    static const char *const cures[DLS_FAMILIES] = {
        [DLS_FAMILY_CUDA] =
            "pass 1 for the legacy default stream or 2 for the per-thread one",
        [DLS_FAMILY_CUDA_MANAGED] = "pass 1 for the legacy default stream or 2 for the "
                                    "per-thread one",
        [DLS_FAMILY_ROCM] = "pass 0 for the default stream",
        [DLS_FAMILY_ONEAPI] = "oneAPI takes None, -1 or a SyclQueue",
    };
    const char *cure = cures[family] != NULL ? cures[family] : "pass None";
    dls_raise(state, duty == DLS_DUTY_VALUE ? DLS_EVALUE : DLS_ETYPE, NULL,
              "stream=%R is not a stream of %s: %s", stream, dls_family_names[family],
              cure);
    return -1;
}

/* S, as the route makes it: the host has no stream, whatever torch passes with it. */
static void
route_stream(const dls_want *want, dls_order *order, dls_family family)
{
    dls_stream *s = &order->s;
    bool cuda = family == DLS_FAMILY_CUDA || family == DLS_FAMILY_CUDA_MANAGED
                || family == DLS_FAMILY_CUDA_HOST;
    if (cuda && s->from_object && s->value == DLS_VALUE_ZERO) {
        *s = (dls_stream){DLS_VALUE_ONE, 1, true}; /* an object is not ambiguous */
    }
    bool host_reads = order->route == DLS_ROUTE_AS_HOST
                      || (want->host_reads
                          && dls_device_is_host(order->device.device_type));
    if (host_reads && s->value != DLS_VALUE_MINUS_ONE) {
        *s = (dls_stream){.value = DLS_VALUE_NONE};
    }
    if (order->route == DLS_ROUTE_AS_CUDA && s->value == DLS_VALUE_NONE) {
        *s = (dls_stream){.value = DLS_VALUE_ONE, .handle = 1};
    }
    if (order->route == DLS_ROUTE_TO_HOST) {
        bool found = order->copy_stream != 0;
        *s = (dls_stream){.value = found ? DLS_VALUE_HANDLE : DLS_VALUE_MINUS_ONE,
                          .handle = order->copy_stream};
    }
}

static void
find_copy_stream(dls_order *order, const void *address)
{
    Py_BEGIN_ALLOW_THREADS
    if (dls_copy_stream(order->device, address, &order->copy_stream, &order->no_place,
                        &order->no_stream)
        != DLS_OK) {
        order->copy_stream = 0;
    }
    Py_END_ALLOW_THREADS
}

static PyObject *
passed_value(const dls_order *order, PyObject *stream)
{
    switch (order->argument) {
    case DLS_ARGUMENT_NULL_:
        Py_RETURN_NONE;
    case DLS_ARGUMENT_MINUS:
        return PyLong_FromLong(-1);
    case DLS_ARGUMENT_NIL:
        return PyLong_FromLong(0);
    case DLS_ARGUMENT_L:
        return PyLong_FromLong(1);
    default:
        break;
    }
    bool opaque = dls_family_of(order->device.device_type) == DLS_FAMILY_OTHER;
    if (!opaque && (order->s.handle != 0 || order->s.value == DLS_VALUE_ZERO)) {
        return PyLong_FromUnsignedLongLong(order->s.handle);
    }
    Py_INCREF(
        stream); /* a SyclQueue, or what only its producer knows: the very object */
    return stream;
}

DLS_COLD int
dls_order_begin(dls_state *state, const dls_want *want, dl_device device,
                const void *address, dls_producer_kind kind, dls_order *order)
{
    *order = (dls_order){.device = device,
                         .kind = kind,
                         .route = dls_route_of(want, device)};
    dls_family family = dls_family_of(device.device_type);
    if (read_s(state, want, family, &order->s) < 0) {
        return -1;
    }
    order->empty = want->empty;
    if (order->route == DLS_ROUTE_TO_HOST && order->empty) {
        order->no_place = true; /* not looked for */
    }
    else if (order->route == DLS_ROUTE_TO_HOST) {
        find_copy_stream(order, address);
    }
    route_stream(want, order, family);
    dls_stream_rule rule = dls_order_decide(family, kind, order->s.value);
    if (rule.duty == DLS_DUTY_VALUE || rule.duty == DLS_DUTY_TYPE) {
        return dls_order_raise_value(state, family, rule.duty, want->stream);
    }
    order->argument = rule.argument;
    if (rule.argument != DLS_ARGUMENT_NOTHING) {
        order->passed = passed_value(order, want->stream);
        return order->passed != NULL ? 0 : -1;
    }
    return 0;
}

void
dls_order_end(dls_order *order)
{
    Py_CLEAR(order->passed);
    Py_CLEAR(order->queue);
}

DLS_COLD bool
dls_order_enter(dls_order *order)
{
    dls_family family = dls_family_of(order->device.device_type);
    bool cuda = family == DLS_FAMILY_CUDA || family == DLS_FAMILY_CUDA_MANAGED;
    int id = order->device.device_id, entered = 0;
    if (!cuda && family != DLS_FAMILY_ROCM) {
        return false;
    }
    Py_BEGIN_ALLOW_THREADS
    if (cuda) {
        const dls_cuda_api *api = dls_cuda_if_mapped();
        entered = api != NULL && dls_cuda_enter_device(api, id);
    }
    else {
        entered = dls_hip_enter_device(id, order->before);
    }
    Py_END_ALLOW_THREADS
    return entered;
}

DLS_COLD void
dls_order_leave(const dls_order *order)
{
    PyObject *error = dls_error_take();
    Py_BEGIN_ALLOW_THREADS
    if (dls_family_of(order->device.device_type) == DLS_FAMILY_ROCM) {
        dls_hip_leave(order->before);
    }
    else {
        const dls_cuda_api *api = dls_cuda_if_mapped();
        if (api != NULL) {
            dls_cuda_pop(api);
        }
    }
    Py_END_ALLOW_THREADS
    if (error != NULL) {
        dls_error_restore(error);
    }
}

/* --- captures
 * -------------------------------------------------------------------------- */

DLS_COLD int
dls_order_meets_capture(dls_state *state, dls_plan *plan, PyObject *obj,
                        dls_order *order)
{
    bool replaced = order->route == DLS_ROUTE_TO_HOST
                    || (order->argument == DLS_ARGUMENT_L
                        && order->s.value != DLS_VALUE_ONE)
                    || order->argument == DLS_ARGUMENT_NIL;
    const dls_driver *driver = dls_driver_of(order->device.device_type);
    dls_pending p = {.known = DLS_P_UNKNOWN};
    bool captured = false, in_use = false;
    if (!replaced || order->empty) {
        return 0;
    }
    Py_BEGIN_ALLOW_THREADS
    in_use = driver->in_use();
    Py_END_ALLOW_THREADS
    if (!in_use) {
        return 0; /* then nothing captures */
    }
    if (dls_pending_ask(state, plan, obj, order, &p) < 0) {
        return -1;
    }
    Py_BEGIN_ALLOW_THREADS
    captured = dls_handoff_captures(order->device, p);
    Py_END_ALLOW_THREADS
    return captured;
}

int
dls_order_raise_capture(dls_state *state, PyObject *obj)
{
    dls_raise(
        state, DLS_EBUFFER, obj,
        "a graph capture is running, and ordering the export would break it; export "
        "outside the capture, or pass stream= the capturing stream, or stream=-1");
    return -1;
}

/* --- after the call
 * ------------------------------------------------------------------------ */

static bool
is_empty(const dl_tensor *tensor)
{
    int64_t count;
    bool sane = tensor->ndim >= 0 && tensor->ndim <= DLS_NDIM_ABSURD
                && (tensor->ndim == 0 || tensor->shape != NULL);
    /* What lies about itself is refused later, before anybody reads it. */
    return !sane || dls_layout_count(tensor->ndim, tensor->shape, &count, NULL) < 0
           || count == 0;
}

static bool
needs_p(dls_duty duty)
{
    return duty == DLS_DUTY_ORDER || duty == DLS_DUTY_ORDER_KNOWN
           || duty == DLS_DUTY_WAIT || duty == DLS_DUTY_WAIT_KNOWN
           || duty == DLS_DUTY_REFUSE;
}

static uint64_t
handle_of_s(const dls_order *order, dls_family family)
{
    bool none = order->s.value == DLS_VALUE_NONE;
    bool rocm = family == DLS_FAMILY_ROCM || family == DLS_FAMILY_ROCM_HOST;
    return none && !rocm ? 1 : order->s.handle;
}

/* Only the memory's address told its context (a program of the driver API).  0, or -1:
 * none is to be had. */
DLS_COLD static int
find_late_stream(const dls_want *want, dls_order *order, dls_family family,
                 dls_loan *loan)
{
    if (order->no_place) {
        find_copy_stream(order,
                         (const char *)loan->tensor.data + loan->tensor.byte_offset);
    }
    if (order->copy_stream == 0) {
        return -1;
    }
    loan->copy_stream = order->copy_stream;
    route_stream(want, order, family);
    return 0;
}

/* Have the device's driver order what is owed.  0, or -1 with an exception. */
static int
carry_out(dls_state *state, PyObject *obj, const dls_want *want, const dls_order *order,
          dls_duty duty, dls_pending p, const dls_loan *loan)
{
    dls_family family = dls_family_of(order->device.device_type);
    const dls_ordering ordering = {
        .duty = duty,
        .p = p,
        .s = handle_of_s(order, family),
        .has_s = order->s.value != DLS_VALUE_NONE || family == DLS_FAMILY_CUDA
                 || family == DLS_FAMILY_ROCM,
        .policy = want->unknown_stream,
        .device = order->device,
        .address = (const char *)loan->tensor.data + loan->tensor.byte_offset,
    };
    dls_error err;
    int code;
    if (dls_handoff_needs_driver(&ordering)) {
        Py_BEGIN_ALLOW_THREADS
        code = dls_handoff(&ordering, &err);
        Py_END_ALLOW_THREADS
    }
    else {
        code = dls_handoff(&ordering, &err);
    }
    return code == DLS_OK ? 0 : dls_raise_error(state, obj, &err);
}

DLS_COLD int
dls_order_finish(dls_state *state, dls_plan *plan, PyObject *obj, const dls_want *want,
                 dls_order *order, dls_producer_kind kind, dls_pending p,
                 dls_loan *loan)
{
    /* When the two disagree about the device, the tensor decides (N5). */
    if (!want->has_assumed) {
        order->device = loan->tensor.device;
    }
    dls_family family = dls_family_of(order->device.device_type);
    dls_stream_rule rule = dls_order_decide(family, kind, order->s.value);
    loan->copy_stream = order->copy_stream;
    if (is_empty(&loan->tensor)) {
        loan->copy_stream = NO_COPY;
        return 0;
    }
    if (order->route == DLS_ROUTE_TO_HOST && order->copy_stream == 0) {
        if (find_late_stream(want, order, family, loan) < 0) {
            return dls_raise_error(state, obj, &order->no_stream);
        }
        kind = kind == DLS_PRODUCER_WAITED ? kind
                                           : DLS_PRODUCER_OLD; /* it was passed -1 */
        rule = dls_order_decide(family, kind, order->s.value);
    }
    if (rule.duty == DLS_DUTY_NOTHING) {
        loan->unordered = family == DLS_FAMILY_ONEAPI
                          && order->s.value == DLS_VALUE_NONE
                          && rule.argument == DLS_ARGUMENT_NULL_;
        return 0;
    }
    if (rule.duty == DLS_DUTY_VALUE || rule.duty == DLS_DUTY_TYPE) {
        return dls_order_raise_value(state, family, rule.duty, want->stream);
    }
    if (needs_p(rule.duty)
        && dls_pending_learn(state, plan, obj, want, order, &p) < 0) {
        return -1;
    }
    if (family == DLS_FAMILY_ONEAPI) {
        return dls_queue_order(state, obj, rule.duty, p, want);
    }
    return carry_out(state, obj, want, order, rule.duty, p, loan);
}

DLS_COLD int
dls_order_owed(dls_state *state, dls_plan *plan, PyObject *obj, const dls_want *want,
               dls_producer_kind kind, dls_pending p, dls_loan *loan)
{
    dls_order order;
    dl_device device = want->has_assumed ? want->assumed : loan->tensor.device;
    if (dls_refuse_move(state, obj, want, device) < 0) {
        return -1; /* before anything is ordered */
    }
    if (is_empty(&loan->tensor) && dls_route_of(want, device) == DLS_ROUTE_TO_HOST) {
        loan->copy_stream = NO_COPY;
        return 0;
    }
    const char *address = (const char *)loan->tensor.data + loan->tensor.byte_offset;
    int result = dls_order_begin(state, want, device, address, kind, &order);
    if (result == 0) {
        result = dls_order_finish(state, plan, obj, want, &order, kind, p, loan);
    }
    dls_order_end(&order);
    return result;
}

DLS_COLD dls_pending
dls_order_ready(dls_state *state, const dls_want *want, dl_device device)
{
    const dls_pending ready = {.known = DLS_P_READY},
                      unknown = {.known = DLS_P_UNKNOWN};
    dls_stream s;
    if (dls_device_is_host(device.device_type)) {
        return ready;
    }
    if (read_s(state, want, dls_family_of(device.device_type), &s) < 0) {
        PyErr_Clear();
        return unknown;
    }
    switch (s.value) {
    case DLS_VALUE_NONE: /* on managed memory the host has waited */
        return device.device_type == dl_kDLCUDA   ? dls_pending_handle(1)
               : device.device_type == dl_kDLROCM ? dls_pending_handle(0)
                                                  : ready;
    case DLS_VALUE_ZERO:
        return dls_pending_handle(s.from_object);
    case DLS_VALUE_ONE:
    case DLS_VALUE_TWO:
    case DLS_VALUE_HANDLE:
        return dls_pending_handle(s.handle);
    default:
        return s.value == DLS_VALUE_OBJECT ? dls_pending_object(want->stream) : unknown;
    }
}

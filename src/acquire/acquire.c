/* Acquire: the learned form first, else negotiation; and where the memory lies (N5).
 * Called by export/.
 * Tests: tests/core/test_negotiation.py, tests/core/test_devices.py. */
#include "acquire/acquire.h"

#include <assert.h>

#include "acquire/attempt.h"
#include "acquire/ctable.h"
#include "acquire/lazy_bits.h"
#include "acquire/negotiate.h"
#include "core/dtype.h"
#include "exchange/cures.h"
#include "exchange/device_question.h"
#include "exchange/tensor_object.h"
#include "python/errors.h"
#include "sync/sync_exchange.h"

/* --- where the memory lies ------------------------------------------------ */

/* Ask for the device before the export, where it must be known (N5).  1 = *device; 0 =
 * nobody was asked or could tell, and the memory is taken to lie on the host; -1 =
 * exception. */
static int
device_before_export(const dls_exchange *x, dl_device *device)
{
    const dls_plan *plan = x->plan;
    const dls_learned learned = dls_plan_learned(plan);
    if (x->request.has_assumed) {
        *device = x->request.assumed;
        return 1;
    }
    if (plan->cpu_only
        || (learned.met && !learned.off_host && !x->request.ask_device)) {
        return 0;
    }
    int got = plan->table != NULL ? dls_ctable_device(plan->table, x->source, device)
                                  : 0;
    return got == 0 && plan->has_device
               ? dls_device_ask(x->state, plan, x->source, device)
               : got;
}

static bool
is_pinned(dl_device device)
{
    return dls_device_is_host(device.device_type) && device.device_type != dl_kDLCPU;
}

/* Pinned memory is exported as host memory.  Where somebody knows of work on it that is
 * not finished, that work is waited for all the same. */
static int
sync_pinned(dls_exchange *x, dl_device device)
{
    const dls_producer_stream p = {.known = DLS_P_UNKNOWN};
    dls_request request = x->request;
    request.has_assumed = true;
    request.assumed = device;
    dls_sync_source from = dls_sync_source_of(x, device);
    from.request = &request;
    int code = dls_sync_acquired(&from, DLS_PRODUCER_OLD, p, &x->acquired);
    return dls_attempt_end(x, code, DLS_ATTEMPT_FINAL) == DLS_ATTEMPT_GOT ? 0 : -1;
}

/* Where only the export will tell the device, a stream object that has no handle to
 * give is refused before anybody is asked. */
static int
check_stream_object(const dls_exchange *x)
{
    dls_stream s;
    PyObject *stream = x->request.stream;
    return stream != NULL && !PyLong_Check(stream) && !x->plan->cpu_only
               ? dls_consumer_stream_read(x->state, &x->request, &s)
               : 0;
}

/* An attempt on the host has succeeded.  Memory that lies elsewhere was asked for
 * without a stream: it is dropped untaken and asked for again (N5).  said: what the
 * device question told, or NULL. */
static int
check_device(dls_exchange *x, const dl_device *said)
{
    dl_device came = x->acquired.tensor.device;
    if (x->synced) {
        return 0;
    }
    if (!dls_device_is_host(came.device_type)) {
        dls_acquired_drop(&x->acquired);
        return dls_negotiate_off_host(x, came);
    }
    dl_device pinned = said != NULL && is_pinned(*said) ? *said : came;
    return is_pinned(pinned) ? sync_pinned(x, pinned) : 0;
}

/* From the beginning, as if nothing were learned. */
static int
acquire_anew(dls_exchange *x)
{
    dl_device device;
    int known = device_before_export(x, &device);
    if (known < 0) {
        return -1;
    }
    if (known > 0 && !dls_device_is_host(device.device_type)) {
        return dls_negotiate_off_host(x, device);
    }
    if ((known == 0 && check_stream_object(x) < 0) || dls_negotiate_on_host(x) < 0) {
        return -1;
    }
    return check_device(x, known > 0 ? &device : NULL);
}

/* --- acquire -------------------------------------------------------------- */

/* What the fast path got.  The outcome is empty afterwards. */
static dls_attempt
read_outcome(dls_exchange *x)
{
    dls_outcome outcome = x->outcome;
    x->outcome = (dls_outcome){.kind = DLS_NOT_LEARNED};
    if (outcome.error != NULL) {
        dls_error_restore(outcome.error);
    }
    if (outcome.form & DLS_FAST_TABLE) {
        return dls_attempt_read_table(x, outcome.managed, true);
    }
    unsigned likely = outcome.form & DLS_FAST_VERSIONED ? DLS_ASK_VERSION : 0;
    return dls_attempt_read_capsule(x, outcome.capsule, likely);
}

/* A Tensor shares its memory, and knows on which stream its data are. */
static int
acquire_tensor(dls_exchange *x)
{
    dls_tensor *tensor = dls_tensor_data(x->source);
    if (dls_tensor_acquire(tensor, &x->acquired) < 0) {
        return -1;
    }
    if (x->acquired.tensor.device.device_type == dl_kDLCPU && !x->request.has_assumed) {
        return 0;
    }
    dls_attempt got = dls_attempt_sync(x, DLS_PRODUCER_OLD,
                                       dls_tensor_ready_stream(tensor));
    return got == DLS_ATTEMPT_GOT ? 0 : -1;
}

/* The learned form was asked: this is the end, or all protocols are negotiated, and
 * that form is not asked twice. */
static int
after_learned(dls_exchange *x, dls_form form, dls_attempt got)
{
    bool came = got == DLS_ATTEMPT_GOT;
    if (came && dls_device_is_host(x->acquired.tensor.device.device_type)) {
        return 0;
    }
    if (got == DLS_ATTEMPT_FINAL) {
        return -1;
    }
    if (got == DLS_ATTEMPT_RAISED && dls_error_class() == DLS_ERROR_FINAL) {
        return dls_refuse_export(x->state, x->source, true);
    }
    if (came) {
        dls_acquired_drop(&x->acquired);
    }
    else {
        x->tried = form;
        x->tried.known = true;
        x->tried_error = dls_error_take();
        x->learned_failed = true;
    }
    return acquire_anew(x);
}

int
dls_acquire(dls_exchange *x)
{
    assert(dls_exchange_check(x) && dls_acquired_is_empty(&x->acquired));
    if (dls_plan_is_tensor(x->plan)) {
        return acquire_tensor(x);
    }
    if (dls_plan_has(x->plan, DLS_LIB_ASKED_FIRST)
        && dls_refuse_object(x->state, x->plan, x->source) < 0) {
        return -1;
    }
    if (x->outcome.kind != DLS_NOT_LEARNED) {
        unsigned fast = x->outcome.form;
        const dls_form form = {.protocol = fast & DLS_FAST_TABLE ? DLS_PROTOCOL_TABLE
                                                                 : DLS_PROTOCOL_DLPACK,
                               .mask = fast & DLS_FAST_VERSION ? DLS_ASK_VERSION : 0};
        return after_learned(x, form, read_outcome(x));
    }
    const dls_request *request = &x->request;
    const dls_learned learned = dls_plan_learned(x->plan);
    const dls_form form = learned.forms[request->versioned];
    if (!form.known || !learned.met || learned.off_host || request->has_assumed) {
        return acquire_anew(x);
    }
    dl_device device;
    int known = device_before_export(x, &device); /* only if it must be known (N5) */
    if (known < 0 || (known > 0 && !dls_device_is_host(device.device_type))) {
        return known < 0 ? -1 : dls_negotiate_off_host(x, device);
    }
    if (known == 0 && check_stream_object(x) < 0) {
        return -1;
    }
    dls_protocol protocol = (dls_protocol)form.protocol;
    dls_attempt got = dls_attempt_on_host(x, protocol, form.mask);
    return got == DLS_ATTEMPT_GOT && known > 0 ? check_device(x, &device)
                                               : after_learned(x, form, got);
}

int
dls_acquire_device(const dls_exchange *x, dl_device *device)
{
    const dls_plan *plan = x->plan;
    uint32_t elsewhere = 1u << DLS_PROTOCOL_TABLE | 1u << DLS_PROTOCOL_DLPACK
                         | 1u << DLS_PROTOCOL_FUNCTION | 1u << DLS_PROTOCOL_CUDA
                         | 1u << DLS_PROTOCOL_SYCL;
    if (plan->cpu_only || !(plan->offers & elsewhere)) {
        *device = (dl_device){dl_kDLCPU, 0};
        return 1;
    }
    if (plan->table != NULL) {
        return dls_ctable_device(plan->table, x->source, device);
    }
    int got = plan->has_device ? dls_device_ask(x->state, plan, x->source, device) : 0;
    /* Only the device question says that memory is pinned; the tensor, which decides,
     * does not.  A label that is checked, is checked on the tensor. */
    bool checked = dls_plan_has(plan, DLS_LIB_LABEL_CHECKED);
    bool asks_tensor = got > 0
                       && (is_pinned(*device)
                           || (checked && !dls_device_is_host(device->device_type)));
    return asks_tensor ? 0 : got;
}

/* Exports an owned struct to a consumer of our C table, which asks for the stream
 * afterwards.  Called by ctable_out.c, by ctable_view.c and by the fast path.  Tests:
 * tests/core/test_ctable.py, tests/device/test_work_stream.py. */
#include "export/export.h"

#include "core/dtype.h"
#include "exchange/objects.h"
#include "export/device_answer.h"
#include "gpu/pointer.h"
#include "python/errors.h"
#include "sync/producer_stream.h"
#include "sync/sync_exchange.h"
#include "sync/work_stream.h"

/* An interface names its stream itself, at the export: nothing is learned for it
 * before. */
static bool
may_learn_stream(const dls_plan *plan)
{
    return dls_plan_learned(plan).off_host
           && (dls_plan_offers(plan, DLS_PROTOCOL_TABLE)
               || dls_plan_offers(plan, DLS_PROTOCOL_DLPACK)
               || dls_plan_offers(plan, DLS_PROTOCOL_FUNCTION));
}

/* Learn the producer stream before the export.  0, or -1 with an exception. */
static int
learn_stream(const dls_exchange *x, dls_producer_stream *p)
{
    const dls_options *options = x->request.options;
    dls_request request = x->request;
    dl_device device;
    if (dls_option_given(options, DLS_OPTION_producer_stream)) {
        request.streams.producer = options->producer_stream;
    }
    if (dls_plan_is_tensor(x->plan)) {
        /* mutant: stream of a Tensor for the table */
        *p = dls_tensor_ready_stream(dls_tensor_data(x->source));
        device = dls_tensor_data(x->source)->tensor.device;
    }
    else if (!may_learn_stream(x->plan)) {
        return 0;
    }
    else if (dls_device_answer(x->state, x->source, x->plan, options, &device) < 0) {
        return -1;
    }
    if (!dls_work_stream_is_synced(device.device_type)) {
        *p = (dls_producer_stream){.known = DLS_P_UNKNOWN};
        return 0;
    }
    dls_sync_source from = dls_sync_source_of(x, device);
    from.request = &request;
    return dls_producer_stream_find(&from, p, NULL);
}

/* If the producer stream is known, the consumer's stream becomes -1 (nothing is
 * synchronised) and *p names the producer stream; otherwise the export is synchronised
 * with the legacy default stream.  0, or -1 with an exception. */
static int
begin_stream(dls_exchange *x, dls_producer_stream *p)
{
    *p = (dls_producer_stream){.known = DLS_P_UNKNOWN};
    bool tensor = dls_plan_is_tensor(x->plan);
    if (tensor && !Py_IS_TYPE(x->source, x->state->tensor_type)) {
        return 0; /* a Producer that was cleared: the export says so */
    }
    bool host = tensor
                    ? dls_tensor_data(x->source)->tensor.device.device_type == dl_kDLCPU
                    : !dls_plan_learned(x->plan).off_host;
    if (host || dls_option_given(x->request.options, DLS_OPTION_stream)) {
        return 0;
    }
    if (learn_stream(x, p) < 0) {
        return -1;
    }
    /* mutant: unknown stream */
    if (p->known == DLS_P_UNKNOWN || p->object != NULL) {
        *p = (dls_producer_stream){.known = DLS_P_UNKNOWN};
    }
    else {
        x->request.streams.consumer = x->state->minus_one;
    }
    return 0;
}

/* Was the stream named by anybody else than the library?  Where P is not known, the
 * export was synchronised with L. */
static bool
is_stream_named(const dls_exchange *x, dl_device device, dls_producer_stream p)
{
    const dls_options *options = x->request.options;
    bool synced_with_l = p.known == DLS_P_UNKNOWN && !x->copied
                         && dls_work_stream_is_synced(device.device_type);
    return synced_with_l || dls_plan_is_tensor(x->plan)
           || dls_option_given(options, DLS_OPTION_stream)
           || dls_option_given(options, DLS_OPTION_producer_stream);
}

/* Leave the answer of current_work_stream() for this export.  A home whose library is
 * asked itself takes it only where somebody else named the stream (H3). */
static void
leave_stream(dls_exchange *x, const dl_tensor *tensor, dls_producer_stream p,
             const dls_home *home)
{
    dl_device device = tensor->device;
    bool named = is_stream_named(x, device, p);
    /* mutant: copied memory */
    if (x->copied) {
        p = (dls_producer_stream){.known = DLS_P_READY};
    }
    else if (p.known == DLS_P_UNKNOWN) {
        p = dls_device_is_host(device.device_type) ? p
            : dls_work_stream_is_synced(device.device_type)
                ? dls_sync_ready_stream(x->state, &x->request, device)
                : dls_sync_stream_of_source(x, device);
    }
    dls_work_stream_leave(device, p, named && home != NULL ? home->work_stream : NULL);
}

/* May the Producer stand in for an array of another library, whose stream its memory
 * shall follow?  Not where the user named one, nor where the memory is of the host. */
static bool
may_follow_home(const dls_exchange *x, const dls_home *home)
{
    const dls_learned learned = dls_plan_learned(x->plan);
    bool tensor = dls_plan_is_tensor(x->plan);
    if (tensor && !Py_IS_TYPE(x->source, x->state->tensor_type)) {
        return false; /* a Producer that was cleared */
    }
    bool host = tensor
                    ? dls_tensor_data(x->source)->tensor.device.device_type == dl_kDLCPU
                    : learned.met && !learned.off_host;
    return home != NULL && home->work_stream != NULL && !host
           && !dls_option_given(x->request.options, DLS_OPTION_stream);
}

/* Such an export is made for S, the work stream of the home on the memory's device
 * (H3). *stream: S, a new reference, or NULL: it is none that dlshim synchronises with.
 * 0, or -1 with an exception. */
static int
begin_foreign(dls_exchange *x, const dls_home *home, PyObject **stream)
{
    dl_device device;
    void *s = NULL;
    *stream = NULL;
    if (!may_follow_home(x, home)) {
        return 0;
    }
    PyTypeObject *own = dls_plan_home(x->state, x->plan, x->source);
    if (own == NULL || own == home->producer_type) {
        return own == NULL ? -1 : 0;
    }
    if (dls_plan_is_tensor(x->plan)) {
        device = dls_tensor_data(x->source)->tensor.device;
    }
    else if (dls_device_answer(x->state, x->source, x->plan, x->request.options,
                               &device)
             < 0) {
        return -1;
    }
    if (!dls_work_stream_is_synced(device.device_type)) {
        return 0;
    }
    if (home->work_stream(device.device_type, device.device_id, &s) != 0) {
        return dls_error_forget(); /* it has none: then L is its stream, too */
    }
    uint64_t handle = s != NULL ? (uint64_t)(uintptr_t)s
                                : dls_driver_of(device.device_type)->legacy;
    *stream = PyLong_FromUnsignedLongLong(handle);
    /* mutant: stream of another home */
    x->request.streams.consumer = *stream;
    return *stream != NULL ? 0 : -1;
}

static void *
export_struct(dls_exchange *x, bool versioned, const dls_home *home)
{
    dls_producer_stream p = {.known = DLS_P_UNKNOWN};
    PyObject *stream;
    void *managed = NULL;
    x->request.want.versioned = versioned;
    x->request.who.kernel_asks = true;
    x->request.streams.said = true; /* S21: it works on the stream that we answer */
    x->request.who.supports_anything = true;
    if (begin_foreign(x, home, &stream) == 0
        && (stream != NULL || begin_stream(x, &p) == 0)) {
        managed = dls_exchange_run(x, DLS_EXPORT_STRUCT);
    }
    if (managed != NULL) {
        leave_stream(x, dls_managed_tensor(managed, versioned), p, home);
    }
    Py_XDECREF(stream);
    return managed;
}

void *
dls_export_producer_struct(dls_producer *self, bool versioned, dls_outcome *outcome)
{
    dls_exchange x;
    dls_exchange_begin(&x, self->state, self->source, self->plan, self->options,
                       outcome);
    x.keeps = true;
    const dls_home *home = dls_home_of_class(self->state, Py_TYPE(DLS_OBJECT(self)));
    void *managed = export_struct(&x, versioned, home);
    dls_producer_keep(self, &x, managed != NULL);
    dls_exchange_end(&x);
    return managed;
}

void *
dls_export_tensor_struct(dls_tensor *self, bool versioned)
{
    dls_exchange x;
    dls_exchange_begin(&x, self->state, DLS_OBJECT(self), self->state->tensor_plan,
                       NULL, NULL);
    void *managed = export_struct(&x, versioned, NULL);
    dls_exchange_end(&x);
    return managed;
}

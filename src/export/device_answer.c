/* Answers the device question that is put to a Producer: by the source's attributes,
 * else by the options and by asking the source, else by an export.  Called by
 * public/producer and export_struct.c; foreign code runs.  Tests:
 * tests/core/test_devices.py, tests/core/test_fast_path.py. */
#include "export/device_answer.h"

#include "acquire/attempt.h"
#include "acquire/negotiate.h"
#include "core/dtype.h"
#include "exchange/objects.h"
#include "export/export.h"
#include "python/errors.h"
#include "types/plan_cache.h"

/* --- the short cut -------------------------------------------------------- */

int
dls_device_of_host_type(dls_state *state, const dls_plan *plan, PyObject *source)
{
    dl_device device = {0, 0};
    int got = 0;
    if (plan->table != NULL) {
        got = dls_ctable_device(plan, source, &device);
    }
    else if (plan->has_device) {
        got = dls_device_ask(state, plan, source, &device);
    }
    return dls_device_is_host_answer(got, device);
}

/* --- in full -------------------------------------------------------------- */

/* Only the struct tells, so one export is made, without synchronisation, and dropped.
 */
static int
device_by_export(dls_exchange *x, dl_device *device)
{
    x->request.want.versioned = true;
    x->request.streams.consumer = x->state->minus_one;
    if (dls_acquire(x) < 0) {
        return -1;
    }
    *device = x->acquired.tensor.device;
    return 0;
}

static bool
detaches(const dls_options *options)
{
    return dls_option_given(options, DLS_OPTION_detach)
           && options->detach != DLS_DETACH_NO;
}

/* 1 = *device, 0 = only an export can tell, -1 = exception. */
static int
device_without_export(dls_exchange *x, dl_device *device)
{
    const dls_options *options = x->request.options;
    if (dls_option_given(options, DLS_OPTION_assume_device)) {
        *device = options->assume_device; /* the source is not asked */
        return 1;
    }
    if (dls_plan_is_tensor(x->plan)) {
        *device = dls_tensor_data(x->source)->tensor.device;
        return 1;
    }
    if (detaches(options) || Py_TYPE(x->source) != x->plan->type) {
        return 0;
    }
    return dls_exchange_ask_author(x, true) < 0 ? -1 : dls_acquire_device(x, device);
}

/* Replace the source's device by that of device=. */
static void
apply_device_option(const dls_options *options, dl_device *device)
{
    dl_device wanted;
    if (dls_options_device(options, &wanted)
        && (wanted.device_type != dl_kDLCPU || device->device_type != dl_kDLCPU)) {
        *device = wanted;
    }
}

int
dls_device_answer(dls_state *state, PyObject *source, dls_plan *plan,
                  const dls_options *options, dl_device *device)
{
    dls_exchange x;
    dls_exchange_begin(&x, state, source, plan, options, NULL);
    /* A source that the plan does not fit is asked once it was met anew. */
    bool anew = options == NULL && Py_TYPE(source) != plan->type;
    int got = source == Py_None ? 0 : device_without_export(&x, device);
    if (got == 0 && dls_exchange_prepare(&x) == 0) {
        /* With detach="auto" there may have been nothing to detach. */
        anew |= detaches(options) && x.source == source;
        got = anew ? dls_acquire_device(&x, device) : 0;
        got = got == 0 ? device_by_export(&x, device) == 0 : got;
        /* An object that has lost the __dlpack__ that its plan calls is met anew,
         * once. */
        if (got == 0 && x.plan == plan && !dls_plan_is_tensor(plan)
            && (PyErr_ExceptionMatches(PyExc_AttributeError)
                || PyErr_ExceptionMatches(PyExc_BufferError))
            && dls_plan_retire(state, plan, source) && dls_exchange_prepare(&x) == 0) {
            got = device_without_export(&x, device);
            got = got == 0 ? device_by_export(&x, device) == 0 : got;
        }
    }
    dls_exchange_end(&x);
    if (got <= 0) {
        return -1;
    }
    apply_device_option(options, device);
    return 0;
}

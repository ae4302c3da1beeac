/* Attempts on the host: no stream is passed.
 * Tests: tests/core/test_negotiation.py, tests/core/test_ways_in.py. */
#include "acquire/attempt_host.h"

#include "acquire/call.h"
#include "acquire/lazy_bits.h"
#include "python/errors.h"

/* torch refuses the conjugate bit itself, without naming the cure: our text goes in
 * front of its own. */
static dls_attempt
explain_bits(dls_exchange *x)
{
    const dl_dtype any = {dl_kDLComplex, 64, 1};
    if (dls_error_is_fatal()) {
        return DLS_ATTEMPT_RAISED;
    }
    PyObject *error = dls_error_take();
    if (dls_refuse_lazy_bits(x->state, x->plan, x->source, any) < 0) {
        dls_refuse_with_cause(error);
    }
    else {
        dls_error_restore(error);
    }
    return DLS_ATTEMPT_RAISED;
}

/* Host producers are never passed a stream but None (N6). */
static dls_attempt
attempt_dlpack(dls_exchange *x, unsigned mask)
{
    if (dls_attempt_check_autograd(x) < 0) {
        return DLS_ATTEMPT_RAISED;
    }
    const dls_call_values values = {NULL, NULL, NULL};
    PyObject *capsule = dls_call_dlpack(x->state, x->plan, x->source, mask, &values);
    dls_attempt got = dls_attempt_read_capsule(x, capsule, mask);
    if (got == DLS_ATTEMPT_GOT) {
        return dls_attempt_check_bits(x);
    }
    return dls_plan_has(x->plan, DLS_LIB_LAZY_BITS) ? explain_bits(x) : got;
}

static dls_attempt
attempt_older(dls_exchange *x, dls_protocol protocol)
{
    dls_producer_stream p;
    return (dls_attempt)dls_attempt_read_older(x, protocol, &p);
}

/* The form that failed before this negotiation began fails once more. */
static dls_attempt
repeat_tried(dls_exchange *x)
{
    PyObject *error = x->tried_error;
    x->tried_error = NULL;
    x->tried.known = false;
    if (error == NULL) {
        return DLS_ATTEMPT_NOT_OFFERED;
    }
    dls_error_restore(error);
    return DLS_ATTEMPT_RAISED;
}

dls_attempt
dls_attempt_on_host(dls_exchange *x, dls_protocol protocol, unsigned mask)
{
    if (x->tried.known && x->tried.protocol == protocol && x->tried.mask == mask) {
        return repeat_tried(x);
    }
    switch (protocol) {
    case DLS_PROTOCOL_TABLE:
        return dls_attempt_table(x, true);
    case DLS_PROTOCOL_DLPACK:
        return attempt_dlpack(x, mask);
    case DLS_PROTOCOL_FUNCTION:
        return dls_attempt_function(x);
    case DLS_PROTOCOL_CUDA:
    case DLS_PROTOCOL_SYCL:
        return dls_attempt_interface(x, protocol);
    case DLS_PROTOCOL_STRUCT:
    case DLS_PROTOCOL_INTERFACE:
    case DLS_PROTOCOL_BUFFER:
        return attempt_older(x, protocol);
    default:
        return DLS_ATTEMPT_NOT_OFFERED;
    }
}

/* Off the host: everything is forwarded, nothing may be left owed. */
#include "source/climb.h"

#include "python/raise.h"
#include "source/call.h"
#include "source/order.h"

static PyObject *
device_pair(dl_device device)
{
    return Py_BuildValue("(ii)", (int)device.device_type, (int)device.device_id);
}

/* What a dropped keyword asked for is still owed (N4); paying comes with the device
 * roads. */
static int
refuse_debt(dls_climb *c, unsigned owed)
{
    const char *what = NULL;
    if (owed & DLS_ASK_DEVICE) {
        what = "its producer cannot move it to the wanted device; move it with the "
               "library's own function first (for example .cpu())";
    }
    else if ((owed & DLS_ASK_COPY) && c->want->copy == 1) {
        what = "its producer cannot copy it, and dlshim allocates no device memory; pass "
               "a .copy() or .clone()";
    }
    else if ((owed & DLS_ASK_STREAM) && !dls_stream_is_minus_one(c->want->stream)) {
        what = "its producer takes no stream, so its pending work cannot be ordered; "
               "synchronise it and pass stream=-1";
    }
    if (what == NULL) {
        return 0;
    }
    dls_loan_drop(c->loan);
    dls_raise(c->state, DLS_EBUFFER, c->obj, "%s", what);
    return -1;
}

static int
climb_device(dls_climb *c, dl_device device)
{
    dls_call_values values = {NULL, NULL, NULL};
    unsigned full = DLS_ASK_VERSION | DLS_ASK_STREAM;
    int result = -1;
    /* Managed memory is read where it lies: nobody is asked to move it. */
    bool aliased = device.device_type == dl_kDLCUDAManaged
                   && c->want->device.device_type == dl_kDLCPU;
    if (c->want->has_device && !aliased
        && (c->want->device.device_type != device.device_type
            || c->want->device.device_id != device.device_id)) {
        full |= DLS_ASK_DEVICE;
        values.dl_device = device_pair(c->want->device);
        if (values.dl_device == NULL) {
            return -1;
        }
    }
    if (c->want->copy >= 0) {
        full |= DLS_ASK_COPY;
        values.copy = c->want->copy ? Py_True : Py_False;
    }
    if (!(full & DLS_ASK_DEVICE)) {
        values.stream = dls_stream_for_producer(c->state, device, c->want->stream,
                                                dls_plan_has(c->plan, DLS_LIB_NO_MINUS_ONE));
    }
    else {
        Py_INCREF(Py_None); /* moving to the host is synchronous (rule 13) */
        values.stream = Py_None;
    }
    const unsigned steps[] = {full, full & ~DLS_ASK_VERSION, DLS_ASK_STREAM, 0};
    for (int i = 0; values.stream != NULL && i < 4; i++) {
        if (i > 0 && steps[i] == steps[i - 1]) {
            continue;
        }
        int got = dls_climb_capsule(c, dls_call_dlpack(c->state, c->obj, c->plan->by_type,
                                                    steps[i], &values));
        if (got > 0) {
            bool lazy = dls_plan_has(c->plan, DLS_LIB_LAZY_BITS);
            result = lazy && dls_climb_check_bits(c) < 0 ? -1 : refuse_debt(c, full & ~steps[i]);
            break;
        }
        if (i == 3 || !PyErr_ExceptionMatches(PyExc_TypeError)) {
            dls_raise_from_pending(c->state, c->obj, "it cannot be exported");
            break;
        }
        dls_climb_keep(c);
    }
    Py_XDECREF(values.stream);
    Py_XDECREF(values.dl_device);
    return result;
}

static int
raise_table(dls_climb *c)
{
    dls_raise_from_pending(c->state, c->obj, "it cannot be exported");
    return -1;
}

int
dls_climb_off_host(dls_climb *c, dl_device device)
{
    c->plan->off_host = true;
    c->plan->ways[0].known = c->plan->ways[1].known = false;
    bool moves = c->want->has_device || c->want->copy >= 0;
    if (dls_plan_offers(c->plan, DLS_RUNG_TABLE) && !moves) {
        int got = dls_climb_table(c);
        if (got != 0) {
            return got > 0 ? 0 : raise_table(c);
        }
    }
    if (!dls_plan_offers(c->plan, DLS_RUNG_DLPACK)) {
        dls_raise(c->state, DLS_EBUFFER, c->obj,
                  "its memory is on a device, and only __dlpack__ with a stream can order "
                  "work there; synchronise it and pass stream=-1, or its capsule");
        return -1;
    }
    return climb_device(c, device);
}

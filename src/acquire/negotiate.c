/* The whole negotiation: which protocols and call forms are tried, in which order, what
 * an error means, and what is learned.  Called by acquire.c.
 * Tests: tests/core/test_negotiation.py, tests/core/test_devices.py,
 * tests/device/test_matrix.py.
 *
 * acquire.c asks a type that was met before in its learned form.  Otherwise, or when
 * that fails, all protocols that the type offers are tried in this order (N2):
 *
 *   1. its C table: where nothing has to be synchronised
 *   2. __dlpack__ on the host:  max_version; bare; stream=None
 *      (libraries whose legacy answer is truthful: bare; max_version; stream=None)
 *      off the host: stream, max_version and copy; fewer and fewer of them
 *   3. a capsule function of its library
 *   4. __cuda_array_interface__     5. __sycl_usm_array_interface__
 *   6. __array_struct__             7. __array_interface__
 *   8. the buffer protocol
 *
 * Memory that turns out to lie off the host is dropped untaken and asked for again,
 * with its stream (N5).  The first error that deserves it is what the caller sees in
 * the end. */
#include "acquire/negotiate.h"

#include "acquire/attempt.h"
#include "acquire/attempt_device.h"
#include "core/dtype.h"
#include "exchange/cures.h"
#include "python/errors.h"
#include "sync/transfer.h"

/* --- what is learned ------------------------------------------------------ */

/* Is __dlpack_device__ the only one that tells where an object lies? */
static bool
device_is_asked(const dls_plan *plan)
{
    return !plan->cpu_only && plan->where.get == NULL && plan->table == NULL
           && plan->has_device && plan->device_method == NULL;
}

/* DLS_FAST_* of a form that worked; 0 where the library or the form needs a decision.
 */
static uint8_t
fast_form(const dls_exchange *x, dls_form form)
{
    uint32_t decides = DLS_LIB_SCALAR_IS_1D | DLS_LIB_IMMUTABLE | DLS_LIB_DOES_NOT_OWN
                       | DLS_LIB_ASKED_FIRST
                       | (form.protocol == DLS_PROTOCOL_DLPACK ? DLS_LIB_LAZY_BITS : 0);
    if (form.protocol > DLS_PROTOCOL_DLPACK || (form.mask & ~DLS_ASK_VERSION) != 0
        || dls_plan_learned(x->plan).off_host || dls_plan_has(x->plan, decides)) {
        return 0;
    }
    return (uint8_t)(DLS_FAST_OPEN
                     | (form.protocol == DLS_PROTOCOL_TABLE ? DLS_FAST_TABLE : 0)
                     | (form.mask != 0 ? DLS_FAST_VERSION : 0)
                     | (form.versioned ? DLS_FAST_VERSIONED : 0)
                     | (x->request.versioned ? DLS_FAST_WANTED : 0)
                     | (x->plan->method != NULL ? DLS_FAST_DIRECT : 0)
                     | (device_is_asked(x->plan) ? DLS_FAST_DEVICE : 0));
}

/* The attempt succeeded on the host: learn its form, which is then the first to be
 * asked from now on.  In three cases the form serves this exchange only (N1): the
 * learned form failed for this object; __dlpack__ refused this array (and not the
 * call), and an older protocol gave it; or an attempt before this one raised something
 * else than TypeError. */
static void
learn(dls_exchange *x, dls_protocol protocol, unsigned mask)
{
    bool after_refusal = protocol > DLS_PROTOCOL_DLPACK
                         && dls_plan_offers(x->plan, DLS_PROTOCOL_DLPACK)
                         && dls_plan_has(x->plan, DLS_LIB_OLDER_AFTER_REFUSAL);
    /* Another object of the type may be asked for more than this one can say (N3). */
    bool of_one = x->plan->on_instance
                  && (protocol != DLS_PROTOCOL_DLPACK || !(mask & DLS_ASK_VERSION));
    bool by_chance = x->learned_failed || of_one
                     || (x->refused_otherwise
                         && !dls_plan_has(x->plan, DLS_LIB_LEARN_ANY_REFUSAL));
    const dls_form form = {
        .known = !after_refusal && !by_chance,
        .versioned = x->acquired.generation == DLS_VERSIONED,
        .protocol = (unsigned)protocol & 31u,
        .mask = mask & 15u,
    };
    dls_plan_learn_form(x->plan, x->request.versioned, form, fast_form(x, form));
}

/* --- one protocol --------------------------------------------------------- */

/* After attempt i of __dlpack__ on the host failed: may the next form still do?  A
 * BufferError is about the data, unless it refuses the legacy generation and the
 * versioned one is next (N2). */
static bool
may_try_form(int i, bool legacy_first)
{
    dls_error_kind kind = dls_error_class();
    bool last = i == 2 || (i == 1 && !PyErr_ExceptionMatches(PyExc_TypeError));
    return !last
           && (kind == DLS_ERROR_STEP
               || (kind == DLS_ERROR_BUFFER && i == 0 && legacy_first));
}

/* __dlpack__ on the host, in up to three forms. */
static dls_attempt
try_dlpack(dls_exchange *x)
{
    bool legacy_first = !x->request.versioned
                        && dls_plan_has(x->plan, DLS_LIB_LEGACY_TRUTHFUL); /* N3 */
    const unsigned forms[] = {legacy_first ? 0 : DLS_ASK_VERSION,
                              legacy_first ? DLS_ASK_VERSION : 0, DLS_ASK_STREAM};
    for (int i = 0;; i++) {
        dls_attempt got = dls_attempt_on_host(x, DLS_PROTOCOL_DLPACK, forms[i]);
        if (got == DLS_ATTEMPT_GOT) {
            learn(x, DLS_PROTOCOL_DLPACK, forms[i]);
        }
        if (got != DLS_ATTEMPT_RAISED || !may_try_form(i, legacy_first)) {
            return got;
        }
        dls_error_keep(x);
    }
}

/* One protocol on the host.  A capsule function takes no stream, so the device memory
 * that it gives is synchronised as it came; it is not asked again. */
static dls_attempt
try_on_host(dls_exchange *x, dls_protocol protocol)
{
    if (protocol == DLS_PROTOCOL_DLPACK) {
        return try_dlpack(x);
    }
    dls_attempt got = dls_attempt_on_host(x, protocol, 0);
    if (got != DLS_ATTEMPT_GOT) {
        return got;
    }
    learn(x, protocol, 0);
    if (protocol != DLS_PROTOCOL_FUNCTION
        || dls_device_is_host(x->acquired.tensor.device.device_type)) {
        return got;
    }
    dls_plan_leave_host(x->plan, true);
    x->synced = true;
    return dls_attempt_sync_as_it_came(x);
}

/* A protocol raised on the host: may another one still serve (N2)?  __dlpack__ decides
 * what is refused, so a BufferError of the C table is not final; but where we check
 * what the table does not, it came from us, and is. */
static bool
may_try_next(const dls_exchange *x, dls_protocol protocol)
{
    dls_error_kind kind = dls_error_class();
    if (protocol == DLS_PROTOCOL_DLPACK) {
        return kind != DLS_ERROR_FINAL
               && (PyErr_ExceptionMatches(PyExc_NotImplementedError)
                   || PyErr_ExceptionMatches(PyExc_TypeError)
                   || dls_plan_has(x->plan, DLS_LIB_OLDER_AFTER_REFUSAL));
    }
    return kind == DLS_ERROR_STEP
           || (kind == DLS_ERROR_BUFFER && protocol == DLS_PROTOCOL_TABLE
               && !dls_plan_has(x->plan, DLS_LIB_AUTOGRAD));
}

/* --- what the caller sees ------------------------------------------------- */

/* The pending error of a protocol.  On the host, an older protocol may explain it
 * better than __dlpack__ did: both are kept.  What __dlpack__ says in the end stands
 * alone.  Always -1. */
static int
raise_refusal(dls_exchange *x, dls_protocol protocol, bool on_host)
{
    if (on_host && x->first_error != NULL && protocol > DLS_PROTOCOL_DLPACK
        && dls_error_class() != DLS_ERROR_FINAL) {
        dls_refuse_with_cause(x->first_error);
        x->first_error = NULL;
    }
    return dls_refuse_export(x->state, x->source, on_host);
}

/* No protocol gave the memory.  Always -1. */
static int
raise_nothing(dls_exchange *x, bool on_host)
{
    if (x->first_error == NULL) {
        return dls_refuse(
            x->state, DLS_EBUFFER, x->source,
            on_host ? "it offers an array protocol but gave nothing through it"
                    : "its memory is on a device, and none of its protocols gives that "
                      "away");
    }
    dls_error_restore(x->first_error);
    x->first_error = NULL;
    return dls_refuse_export(x->state, x->source, on_host);
}

/* --- all protocols -------------------------------------------------------- */

/* Try all protocols in order.  device: where the memory lies, NULL: on the host.
 * 0, or -1 with an exception. */
static int
negotiate(dls_exchange *x, const dl_device *device)
{
    for (int i = 0; i < DLS_PROTOCOL_TENSOR; i++) {
        dls_protocol protocol = (dls_protocol)i;
        if (!dls_plan_may_offer(x->plan, protocol)) {
            continue;
        }
        dls_attempt got = device != NULL ? dls_attempt_off_host(x, protocol, *device)
                                         : try_on_host(x, protocol);
        if (got == DLS_ATTEMPT_GOT) {
            return 0;
        }
        if (got == DLS_ATTEMPT_FINAL) {
            return -1;
        }
        if (got == DLS_ATTEMPT_RAISED) {
            if (device != NULL || !may_try_next(x, protocol)) {
                return raise_refusal(x, protocol, device == NULL);
            }
            dls_error_keep(x);
        }
    }
    return raise_nothing(x, device == NULL);
}

/* Does the object say that it has no elements?  Then no driver is needed to move them.
 * A wrong `.shape` is noticed when the tensor arrives.  0, or -1 with an exception. */
static int
find_empty(dls_exchange *x)
{
    PyObject *shape = NULL;
    int got = dls_get_optional(x->source, x->state->names.shape, &shape);
    Py_ssize_t n = got > 0 && PyTuple_Check(shape) ? PyTuple_Size(shape) : 0;
    x->request.empty = false;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *extent = PyTuple_GetItem(shape, i);
        x->request.empty |= PyLong_Check(extent) && !PyObject_IsTrue(extent);
    }
    Py_XDECREF(shape);
    return got < 0 ? dls_error_forget() : 0;
}

/* To another device, or to the host: the producer is asked to move the memory, if it
 * has __dlpack__.  Where it does not move it, dlshim copies: to the host, and to a
 * device of the same kind. */
static int
negotiate_transfer(dls_exchange *x, dl_device device, bool copies)
{
    dls_request *request = &x->request;
    /* A label that may name another device decides nothing yet (S26). */
    bool doubtful = request->device.device_type == device.device_type
                    && dls_plan_has(x->plan, DLS_LIB_LABEL_CHECKED);
    if (copies
        && ((!doubtful && dls_transfer_check(x->state, x->source, request, device) < 0)
            || find_empty(x) < 0)) {
        return -1;
    }
    dls_attempt got = dls_plan_offers(x->plan, DLS_PROTOCOL_DLPACK)
                          ? dls_attempt_move(x, device)
                          : DLS_ATTEMPT_NOT_OFFERED;
    if (got != DLS_ATTEMPT_NOT_OFFERED) {
        return got == DLS_ATTEMPT_GOT ? 0 : -1;
    }
    if (copies) {
        return negotiate(x, &device);
    }
    PyObject *cause = x->first_error;
    x->first_error = NULL;
    return dls_transfer_raise(x->state, x->source, request, device, cause);
}

int
dls_negotiate_on_host(dls_exchange *x)
{
    if (negotiate(x, NULL) < 0) {
        return -1;
    }
    if (x->acquired.generation != DLS_OLDER) {
        Py_CLEAR(
            x->first_error); /* of an attempt before: it explains nothing any more */
    }
    dls_library_gil_deleters(x->state); /* it may have been imported just now */
    return 0;
}

int
dls_negotiate_off_host(dls_exchange *x, dl_device device)
{
    dls_plan_leave_host(x->plan, true);
    dls_transfer route = dls_transfer_of(x->state, &x->request, device);
    if (route == DLS_TRANSFER_MOVE || dls_transfer_is_on_copy_stream(route)) {
        return negotiate_transfer(x, device, route != DLS_TRANSFER_MOVE);
    }
    if (route == DLS_TRANSFER_TO_DEVICE
        && dls_transfer_check(x->state, x->source, &x->request, device) < 0) {
        return -1;
    }
    return negotiate(x, &device);
}

/* One attempt: ask the producer through one protocol, once.  Called by negotiate.c,
 * which decides what is tried next, and by attempt_device.c for protocols that are
 * asked in the same way off the host.  The fast path uses the first two sections.  GIL
 * held; foreign code runs.
 *
 * An attempt that returns DLS_ATTEMPT_GOT has filled x->acquired, which then owns the
 * answer.  After every other result x->acquired is empty. */
#pragma once

#include "abi/dlpack_abi.h"
#include "core/base.h"
#include "exchange/exchange.h"
#include "python/errors.h"
#include "python/py.h"

/* --- one call of __dlpack__ ----------------------------------------------- */
/* With exactly the keywords that are wanted. */

/* Values for the keywords of a mask; those that are not in it are not looked at. */
typedef struct {
    PyObject *stream;    /* borrowed; NULL: None */
    PyObject *dl_device; /* borrowed */
    PyObject *copy;      /* borrowed */
} dls_call_values;

/* source.__dlpack__(...) with the keywords of the mask (DLS_ASK_*).  A new reference to
 * the result, or NULL with the exception of the call. */
PyObject *dls_call_dlpack(dls_state *state, const dls_plan *plan, PyObject *source,
                          unsigned mask, const dls_call_values *values);

/* The argument vector of a call: a place that the callee may use
 * (PY_VECTORCALL_ARGUMENTS_OFFSET), the source, the values of keywords. */
enum { DLS_CALL_SCRATCH, DLS_CALL_SELF, DLS_CALL_VALUES, DLS_CALL_ROOM = 6 };

/* Call `source.__dlpack__(...)`: an attribute of the object goes before its class's. */
static inline PyObject *
dls_call_method(const dls_plan *plan, PyObject **args, PyObject *kwnames)
{
    return dls_compat.PyObject_VectorcallMethod(plan->name, &args[DLS_CALL_SELF],
                                                1 | DLS_VECTORCALL_OFFSET, kwnames);
}

/* Call the function by which the author of a decorated class exports. */
static inline PyObject *
dls_call_author(const dls_plan *plan, PyObject **args, PyObject *kwnames)
{
    const PyObject *before = dls_plan_serve(plan, args[DLS_CALL_SELF]);
    PyObject *capsule = dls_compat.PyObject_Vectorcall(
        plan->method, &args[DLS_CALL_SELF], 1 | DLS_VECTORCALL_OFFSET, kwnames);
    (void)dls_plan_serve(plan, before);
    return capsule;
}

/* Call the method that the plan keeps: of a library, or what the author of a decorated
 * class wrote. */
static inline PyObject *
dls_call_directly(const dls_plan *plan, PyObject **args, PyObject *kwnames)
{
    if (plan->name == NULL) {
        return dls_call_author(plan, args, kwnames);
    }
    return dls_compat.PyObject_Vectorcall(plan->method, &args[DLS_CALL_SELF],
                                          1 | DLS_VECTORCALL_OFFSET, kwnames);
}

/* --- the C table of a producer -------------------------------------------- */
/* DLPack's C exchange API (the C table) of a producer, as a way in (N2).  It does not
 * synchronise: it is asked where nothing has to be waited for. */

/* A call has returned this code and given no tensor: make sure that an exception is
 * set, or for 0 that none is.  Always NULL. */
dl_managed_tensor_versioned *dls_ctable_failed(int code);

/* Owned export of obj; NULL with an exception, or with none when it gave nothing. */
static inline dl_managed_tensor_versioned *
dls_ctable_call(const dl_exchange_api *table, PyObject *obj)
{
    dl_managed_tensor_versioned *managed = NULL;
    int code = table->managed_tensor_from_py_object_no_sync(obj, &managed);
    if (code != 0 || managed == NULL) {
        return dls_ctable_failed(code);
    }
    dls_error_report(); /* it succeeded, whatever it left behind */
    return managed;
}

/* Device of obj by the borrowing entry of its type's C table, of the read-only one
 * where there is one: that copies no lazy copy.  1 = *device, 0 = cannot say, nothing
 * set, -1 = an exception that must not be lost. */
int dls_ctable_device(const dls_plan *plan, PyObject *obj, dl_device *device);

/* --- what a refusal is about (signature.c) -------------------------------- */

typedef enum {
    /* Its class knows: what is refused is learned.  So it is of all but a TypeError,
     * and where nothing tells. */
    DLS_REFUSED_KEYWORDS,
    /* This one object knows: the signature takes max_version, or another object of the
     * type has taken it, but this one may pass the call on to an array that does not.
     */
    DLS_REFUSED_OBJECT,
    /* No other keywords will do: the TypeError is of a class of the library's own, as
     * ArrowTypeError, and the method itself takes max_version, by its name. */
    DLS_REFUSED_DATA
} dls_refusal;

/* Judge the pending exception.  A fatal exception of the look-up takes its place. */
dls_refusal dls_refusal_of(const dls_exchange *x);

/* --- attempts ------------------------------------------------------------- */

typedef enum {
    DLS_ATTEMPT_GOT = 1,
    DLS_ATTEMPT_NOT_OFFERED = 0, /* nothing is set: try the next protocol */
    DLS_ATTEMPT_RAISED = -1,     /* an exception of the producer's: it may be kept */
    DLS_ATTEMPT_FINAL = -2       /* an exception that is shown as it is */
} dls_attempt;

/* The meaning of the pending exception for a negotiation (N2). */
typedef enum {
    DLS_ERROR_STEP,   /* try fewer keywords, or the next protocol */
    DLS_ERROR_BUFFER, /* BufferError, or a warning that is an error: it is not about the
                       * keywords */
    DLS_ERROR_FINAL   /* it is shown as it is */
} dls_error_kind;

dls_error_kind dls_error_class(void);
/* Take the pending exception away.  The first that is no TypeError and no
 * NotImplementedError is kept in x->first_error; a warning only if nothing else is. */
void dls_error_keep(dls_exchange *x);

/* The end of an attempt whose last step returned `code`: GOT for 0, else `failed`, and
 * x->acquired is dropped. */
dls_attempt dls_attempt_end(dls_exchange *x, int code, dls_attempt failed);

/* The memory came without a stream: do the synchronisation that it needs.  GOT or
 * FINAL. */
dls_attempt dls_attempt_sync(dls_exchange *x, dls_producer_kind kind,
                             dls_producer_stream p);
/* As dls_attempt_sync, for a producer that was asked without a stream and does not name
 * its own. */
dls_attempt dls_attempt_sync_unasked(dls_exchange *x);
/* How a producer behaves that was passed no stream: it has waited, or it orders
 * nothing. */
dls_producer_kind dls_kind_without_stream(const dls_plan *plan);

/* The capsule that `__dlpack__` or a capsule function returned (stolen; NULL: it
 * raised).  mask: DLS_ASK_*, how it was asked for. */
dls_attempt dls_attempt_read_capsule(dls_exchange *x, PyObject *capsule, unsigned mask);
/* Read the tensor that the C table gave (stolen).  strict: device memory only where no
 * synchronisation is needed. */
dls_attempt dls_attempt_read_table(dls_exchange *x,
                                   dl_managed_tensor_versioned *managed, bool strict);
dls_attempt dls_attempt_table(dls_exchange *x, bool strict);
/* Take over the column that the fast path has read, whose acquired is empty then.  GOT
 * or FINAL. */
dls_attempt dls_attempt_read_column(dls_exchange *x, dls_column *column);
/* Does the memory hold the values that the tensor shows (T12)?  Only libraries with
 * lazy bits are asked.  GOT or RAISED. */
dls_attempt dls_attempt_check_bits(dls_exchange *x);

/* Ask through a protocol without passing a stream.  mask: DLS_ASK_* for the protocol
 * DLPACK.  FUNCTION, CUDA and SYCL may give memory of a device.  CUDA and SYCL name the
 * device and the stream themselves: they are asked in the same way everywhere, and
 * their memory is synchronised (x->synced).  The memory of the others is not
 * synchronised yet: the caller does it. */
dls_attempt dls_attempt_ask(dls_exchange *x, dls_protocol protocol, unsigned mask);
/* As dls_attempt_ask, on the host, but no producer is asked twice in one form: x->tried
 * was asked before this negotiation began, and its exception is raised again, once. */
dls_attempt dls_attempt_on_host(dls_exchange *x, dls_protocol protocol, unsigned mask);

/* --- off the host, with the stream (attempt_device.c) --------------------- */

/* Ask for memory that lies on `device`, off the host: the stream is passed on, and
 * dlshim does the rest of the synchronisation (N4, N6). */
dls_attempt dls_attempt_off_host(dls_exchange *x, dls_protocol protocol,
                                 dl_device device);

/* Ask the producer to move the memory from `device` to the wanted one, because the
 * producer knows its own pools and streams.  NOT_OFFERED: it cannot, or it did not
 * (N7). */
dls_attempt dls_attempt_move(dls_exchange *x, dl_device device);

/* --- memory that does not hold what the object shows (refusals.c) --------- */
/* Checks that a library should make itself, but does not make in each of its ways out:
 * autograd, conjugate and negative bits, elements that are no numbers, masks (T12). */

/* Does a tensor of a library with autograd require grad?  1, 0, or -1 with the
 * exception of the object. */
int dls_requires_grad(dls_state *state, const dls_plan *plan, PyObject *obj);

/* Refuse a tensor that requires grad: 0 = it does not, -1 = BufferError that names the
 * cure, or the exception of the object. */
int dls_refuse_autograd(dls_state *state, const dls_plan *plan, PyObject *obj);

/* Refuse a tensor whose conjugate or negative bit is set: its memory holds other values
 * than the tensor shows.  dtype is that of the exported tensor.  Only complex numbers
 * have the conjugate bit; integers and bools have neither.  Results as above. */
int dls_refuse_lazy_bits(dls_state *state, const dls_plan *plan, PyObject *obj,
                         dl_dtype dtype);

/* Has the tensor such a bit?  1 = *resolved is a new reference to a tensor without one,
 * which the object's own methods made: its memory is new.  0, or -1 with an
 * exception. */
int dls_resolve_lazy_bits(dls_state *state, const dls_plan *plan, PyObject *obj,
                          PyObject **resolved);

/* Both, of a subclass past its library's hook (plan->plain_calls): under one guard,
 * which costs more than the questions.  autograd: whether the first is asked.  Results
 * as above. */
int dls_refuse_past_hook(dls_state *state, const dls_plan *plan, PyObject *obj,
                         bool autograd, dl_dtype dtype);

/* Ask the object itself before its producer (DLS_LIB_ASKED_FIRST), and refuse elements
 * that are no numbers, if the library ends the process when it is asked for them
 * (ABORTS), and elements that are hidden by a mask (MASKED).  Results as above. */
int dls_refuse_object(dls_state *state, const dls_plan *plan, PyObject *obj);

/* Refuse a column whose values are none of NumPy's numbers.  A pending BufferError
 * about them becomes the cause.  Always -1. */
int dls_refuse_values(dls_state *state, PyObject *obj);

/* One call of __dlpack__, and the C table of a producer; attempts on the host, and the
 * parts that they share with attempts off the host: the meaning of an error, reading
 * the answer, and the protocols that are asked in the same way everywhere.  Tests:
 * tests/core/test_negotiation.py, tests/core/test_ways_in.py,
 * tests/core/test_ctable.py. */
#include "acquire/attempt.h"

#include "acquire/from_capsule.h"
#include "core/alloc.h"
#include "core/dtype.h"
#include "core/tensor.h"
#include "gpu/pointer.h"
#include "gpu/sync_rules.h"
#include "protocols/protocols.h"
#include "python/errors.h"
#include "sync/stream_value.h"
#include "sync/sync_exchange.h"

/* --- one call of __dlpack__ ----------------------------------------------- */

/* Write the values of the mask's keywords, in the order of state->kwnames[mask]. */
static inline void
write_values(dls_state *state, unsigned mask, const dls_call_values *values,
             PyObject **next)
{
    if (mask & DLS_ASK_STREAM) {
        *next++ = values->stream != NULL ? values->stream : Py_None;
    }
    if (mask & DLS_ASK_VERSION) {
        *next++ = state->asked_version;
    }
    if (mask & DLS_ASK_DEVICE) {
        *next++ = values->dl_device;
    }
    if (mask & DLS_ASK_COPY) {
        *next++ = values->copy;
    }
}

PyObject *
dls_call_dlpack(dls_state *state, const dls_plan *plan, PyObject *source, unsigned mask,
                const dls_call_values *values)
{
    PyObject *args[DLS_CALL_ROOM];
    PyObject *kwnames = mask ? state->kwnames[mask] : NULL;
    args[DLS_CALL_SELF] = source;
    write_values(state, mask, values, &args[DLS_CALL_VALUES]);
    return plan->name != NULL ? dls_call_method(plan, args, kwnames)
                              : dls_call_directly(plan, args, kwnames);
}

/* --- the C table of a producer -------------------------------------------- */

static bool
is_empty(const dl_tensor *tensor)
{
    bool absurd = tensor->shape == NULL || tensor->ndim > DLS_NDIM_ABSURD;
    for (int32_t i = 0; !absurd && i < tensor->ndim; i++) {
        if (tensor->shape[i] == 0) {
            return true;
        }
    }
    return false;
}

/* NULL data is right for an empty tensor only, and only there nothing is pending. */
static bool
serves(const dl_tensor *tensor, bool needs_sync)
{
    bool here = !needs_sync || dls_device_is_host(tensor->device.device_type);
    return (here && tensor->data != NULL) || is_empty(tensor);
}

dl_managed_tensor_versioned *
dls_ctable_failed(int code)
{
    if (code == 0) {
        (void)dls_error_forget();
    }
    else if (PyErr_Occurred() == NULL) {
        PyErr_Format(PyExc_BufferError, "the C table failed without saying why");
    }
    return NULL;
}

/* Read the tensor that the call gave (stolen; NULL: 0 or -1).  1 = *acquired holds a
 * versioned tensor (already ours), 0 = this tensor is better asked for by __dlpack__
 * (NULL data with elements, or off the host with elements while it needs a sync),
 * nothing set, -1 = the table's exception is pending. */
static int
ctable_read(dl_managed_tensor_versioned *managed, bool needs_sync,
            dls_acquired *acquired)
{
    if (managed == NULL) {
        return PyErr_Occurred() != NULL ? -1 : 0;
    }
    if (managed->version.major != DL_MAJOR
        || !serves(&managed->dl_tensor, needs_sync)) {
        dls_managed_delete(managed, true);
        dls_error_report();
        return 0;
    }
    dls_acquired_describe(acquired, managed);
    acquired->hold = (dls_hold){.base = managed, .kind = DLS_HOLD_VERSIONED};
    return 1;
}

int
dls_ctable_device(const dls_plan *plan, PyObject *obj, dl_device *device)
{
    dl_tensor borrowed;
    const dl_exchange_api *table = plan->read_only_table != NULL ? plan->read_only_table
                                                                 : plan->table;
    if (table->dltensor_from_py_object_no_sync == NULL) {
        return 0;
    }
    if (table->dltensor_from_py_object_no_sync(obj, &borrowed) != 0) {
        return dls_error_forget();
    }
    *device = borrowed.device;
    return 1;
}

dls_error_kind
dls_error_class(void)
{
    if (PyErr_ExceptionMatches(PyExc_BufferError)
        || PyErr_ExceptionMatches(PyExc_Warning)) {
        return DLS_ERROR_BUFFER;
    }
    /* A RecursionError is final: each further attempt would raise it again. */
    if (PyErr_ExceptionMatches(PyExc_RecursionError)) {
        return DLS_ERROR_FINAL;
    }
    bool step = PyErr_ExceptionMatches(PyExc_TypeError)
                || PyErr_ExceptionMatches(PyExc_ValueError)
                || PyErr_ExceptionMatches(PyExc_RuntimeError)
                || PyErr_ExceptionMatches(PyExc_AssertionError);
    return step ? DLS_ERROR_STEP : DLS_ERROR_FINAL;
}

void
dls_error_keep(dls_exchange *x)
{
    bool type_error = PyErr_ExceptionMatches(PyExc_TypeError);
    bool warning = PyErr_ExceptionMatches(PyExc_Warning);
    PyObject *error = dls_error_take();
    if (error == NULL) {
        return;
    }
    x->refused_otherwise |= !type_error;
    bool weak = x->first_error == NULL
                || (!warning
                    && (PyErr_GivenExceptionMatches(x->first_error, PyExc_TypeError)
                        || PyErr_GivenExceptionMatches(x->first_error,
                                                       PyExc_NotImplementedError)));
    if (weak) {
        Py_XDECREF(x->first_error);
        x->first_error = error;
    }
    else {
        Py_DECREF(error);
    }
}

/* --- the answer ----------------------------------------------------------- */

dls_attempt
dls_attempt_end(dls_exchange *x, int code, dls_attempt failed)
{
    if (code == 0) {
        return DLS_ATTEMPT_GOT;
    }
    dls_acquired_drop(&x->acquired);
    return failed;
}

/* TensorFlow gives scalars as shape (1,): the object's own ndim decides. */
static int
mend_scalar(dls_exchange *x)
{
    dl_tensor *tensor = &x->acquired.tensor;
    if (tensor->ndim != 1 || tensor->shape == NULL || tensor->shape[0] != 1) {
        return 0;
    }
    PyObject *ndim = NULL;
    int got = dls_get_optional(x->source, x->state->names.ndim, &ndim);
    if (got <= 0) {
        return got;
    }
    if (PyLong_Check(ndim) && PyLong_AsLong(ndim) == 0) {
        tensor->ndim = 0;
        x->acquired.altered = true;
    }
    Py_DECREF(ndim);
    PyErr_Clear();
    return dls_acquired_recheck(x);
}

/* onnxruntime gives booleans as uint8: the object's own data type decides. */
static int
mend_bool(dls_exchange *x)
{
    dl_dtype *dtype = &x->acquired.tensor.dtype;
    PyObject *method = NULL;
    int got = dtype->code == dl_kDLUInt && dtype->bits == 8 && dtype->lanes == 1
                  ? dls_get_optional(x->source, x->state->names.data_type, &method)
                  : 0;
    if (got <= 0) {
        return got;
    }
    PyObject *text = PyObject_CallFunctionObjArgs(method, NULL);
    Py_DECREF(method);
    if (text == NULL) {
        return -1;
    }
    if (PyUnicode_Check(text)
        && PyUnicode_CompareWithASCIIString(text, "tensor(bool)") == 0) {
        dtype->code = dl_kDLBool;
        x->acquired.altered = true;
    }
    Py_DECREF(text);
    return dls_acquired_recheck(x);
}

/* Ask the driver for the device, because some libraries name a wrong one (S26).  The
 * GIL is released. */
static int
mend_device(dls_exchange *x)
{
    dl_tensor *tensor = &x->acquired.tensor;
    dls_family family = dls_family_of(tensor->device.device_type);
    dls_memory *memory = dls_acquired_memory(&x->acquired);
    bool mended;
    if ((family != DLS_FAMILY_CUDA && family != DLS_FAMILY_ROCM)
        || x->request.want.has_assumed || dls_sync_is_empty(tensor)) {
        return 0;
    }
    Py_BEGIN_ALLOW_THREADS
    mended = dls_pointer_mend_label(memory, &tensor->device);
    Py_END_ALLOW_THREADS
    x->acquired.altered |= mended;
    return dls_acquired_recheck(x);
}

/* Mend a tensor that the library is known to describe wrongly.  0, or -1 with an
 * exception. */
static int
mend(dls_exchange *x)
{
    const uint64_t traits = x->plan->traits;
    /* A legacy consumer gets the same dtype that the source itself gives to legacy
     * consumers. */
    bool bool_wanted = x->request.want.versioned;
    int code = traits & DLS_LIB_SCALAR_IS_1D                     ? mend_scalar(x)
               : bool_wanted && (traits & DLS_LIB_BOOL_AS_UINT8) ? mend_bool(x)
                                                                 : 0;
    return code == 0 && (traits & DLS_LIB_LABEL_CHECKED) ? mend_device(x) : code;
}

dls_attempt
dls_attempt_read_capsule(dls_exchange *x, PyObject *capsule, unsigned mask)
{
    dls_generation likely = mask & DLS_ASK_VERSION ? DLS_VERSIONED : DLS_LEGACY;
    if (capsule == NULL || dls_acquired_read_capsule(x, capsule, likely) < 0) {
        return DLS_ATTEMPT_RAISED;
    }
    return dls_attempt_end(x, mend(x), DLS_ATTEMPT_RAISED);
}

dls_attempt
dls_attempt_check_bits(dls_exchange *x)
{
    if (!dls_plan_has(x->plan, DLS_LIB_LAZY_BITS)) {
        return DLS_ATTEMPT_GOT;
    }
    int code = dls_refuse_lazy_bits(x->state, x->plan, x->source,
                                    x->acquired.tensor.dtype);
    code = code == 0 ? dls_acquired_recheck(x) : code;
    return dls_attempt_end(x, code, DLS_ATTEMPT_RAISED);
}

/* A tensor that requires grad goes out only to kernels, which take Parameters (T12).
 * 0, or -1 with BufferError. */
static int
check_autograd(const dls_exchange *x)
{
    bool checked = dls_plan_has(x->plan, DLS_LIB_AUTOGRAD)
                   && !x->request.who.kernel_asks;
    return checked ? dls_refuse_autograd(x->state, x->plan, x->source) : 0;
}

/* --- synced although the producer was passed no stream --------------------- */

dls_producer_kind
dls_kind_without_stream(const dls_plan *plan)
{
    bool waits = dls_plan_has(plan, DLS_LIB_WAITS | DLS_LIB_NO_MINUS_ONE); /* S3: JAX */
    return waits ? DLS_PRODUCER_WAITED : DLS_PRODUCER_OLD;
}

dls_attempt
dls_attempt_sync(dls_exchange *x, dls_producer_kind kind, dls_producer_stream p)
{
    const dls_sync_source from = dls_sync_source_of(x, x->acquired.tensor.device);
    int code = dls_sync_acquired(&from, kind, p, &x->acquired);
    return dls_attempt_end(x, code, DLS_ATTEMPT_FINAL);
}

dls_attempt
dls_attempt_sync_unasked(dls_exchange *x)
{
    const dls_producer_stream unknown = {.known = DLS_P_UNKNOWN};
    return dls_attempt_sync(x, dls_kind_without_stream(x->plan), unknown);
}

/* --- one protocol each ---------------------------------------------------- */

dls_attempt
dls_attempt_read_table(dls_exchange *x, dl_managed_tensor_versioned *managed,
                       bool strict)
{
    bool needs_sync = strict && !dls_stream_is_minus_one(x->request.streams.consumer);
    int got = ctable_read(managed, needs_sync, &x->acquired);
    return got > 0 ? dls_attempt_check_bits(x) : (dls_attempt)got;
}

dls_attempt
dls_attempt_table(dls_exchange *x, bool strict)
{
    const dl_exchange_api *table = x->plan->table;
    if (x->plan->read_only_table != NULL
        && x->request.want.readonly == DLS_READONLY_TRUE) {
        table = x->plan->read_only_table;
    }
    return check_autograd(x) < 0
               ? DLS_ATTEMPT_RAISED
               : dls_attempt_read_table(x, dls_ctable_call(table, x->source), strict);
}

/* torch and Paddle refuse autograd, and torch the conjugate bit, without naming our
 * cures: our text goes in front of their own. */
static dls_attempt
explain_refusal(dls_exchange *x)
{
    const dl_dtype any = {dl_kDLComplex, 64, 1};
    if (!dls_error_is_fatal()) {
        PyObject *error = dls_error_take();
        if (check_autograd(x) == 0 && dls_plan_has(x->plan, DLS_LIB_LAZY_BITS)) {
            (void)dls_refuse_lazy_bits(x->state, x->plan, x->source, any);
        }
        (void)dls_refuse_with_cause(error); /* alone, if neither is so */
    }
    return DLS_ATTEMPT_RAISED;
}

/* The refusal of a copy, with the producer's own as its cause. */
static dls_attempt
refuse_its_copy(dls_exchange *x)
{
    PyObject *cause = dls_error_take();
    dls_refuse_copy(x->state, x->source, "copy",
                    ", but copy=False was asked for\n"
                    "  allow it with copy=None, or drop the option",
                    "a copy is needed (its producer copies for each export)");
    (void)dls_refuse_with_cause(cause);
    return DLS_ATTEMPT_FINAL;
}

/* The producer says that it copied for this export, and copy=False is wanted: it is
 * asked again, and told so.  Its refusal is passed on.  A TypeError says that it does
 * not know the keyword: its copy goes out, with its flag (T8). */
static dls_attempt
ask_uncopied(dls_exchange *x, unsigned mask)
{
    const dls_call_values values = {.copy = Py_False};
    dls_acquired copied;
    dls_acquired_move(&x->acquired, &copied);
    mask |= DLS_ASK_COPY;
    PyObject *capsule = dls_call_dlpack(x->state, x->plan, x->source, mask, &values);
    dls_attempt got = dls_attempt_read_capsule(x, capsule, mask);
    bool fatal = got != DLS_ATTEMPT_GOT && dls_error_is_fatal();
    bool refused = got == DLS_ATTEMPT_RAISED && !fatal
                   && !PyErr_ExceptionMatches(PyExc_TypeError);
    if (got == DLS_ATTEMPT_GOT || refused || fatal) {
        dls_acquired_drop(&copied);
        return refused ? refuse_its_copy(x) : got;
    }
    PyErr_Clear();
    dls_acquired_move(&copied, &x->acquired);
    return DLS_ATTEMPT_GOT;
}

/* Host producers are never passed a stream but None (N6).  Their __dlpack__ itself
 * refuses tensors that require grad, so dlshim does not ask for that before the
 * call. */
static dls_attempt
attempt_dlpack(dls_exchange *x, unsigned mask)
{
    const dls_call_values values = {NULL, NULL, NULL};
    PyObject *capsule = dls_call_dlpack(x->state, x->plan, x->source, mask, &values);
    dls_attempt got = dls_attempt_read_capsule(x, capsule, mask);
    if (got == DLS_ATTEMPT_GOT && x->request.want.copy == 0
        && (x->acquired.flags & DL_FLAG_IS_COPIED)) {
        got = ask_uncopied(x, mask);
    }
    if (got == DLS_ATTEMPT_GOT) {
        return dls_attempt_check_bits(x);
    }
    bool explained = got != DLS_ATTEMPT_FINAL
                     && dls_plan_has(x->plan, DLS_LIB_AUTOGRAD);
    return explained ? explain_refusal(x) : got;
}

/* The first capsule function of the library. */
static dls_attempt
attempt_function(dls_exchange *x)
{
    PyObject *capsule = NULL;
    int got = dls_library_capsule(x->plan->habits, x->source, &capsule);
    return got > 0 ? dls_attempt_read_capsule(x, capsule, 0) : (dls_attempt)got;
}

/* An immutable type's memory is marked READ_ONLY, but the producer did not state it,
 * unless its __dlpack__ does so (T8).  A copy that reading made is not the type's. */
static void
mark_immutable(dls_exchange *x)
{
    if (dls_plan_has(x->plan, DLS_LIB_IMMUTABLE)
        && !(x->acquired.flags & DL_FLAG_IS_COPIED)) {
        x->acquired.flags |= DL_FLAG_READ_ONLY;
        x->acquired.readonly_stated = dls_plan_has(x->plan, DLS_LIB_STATES_READ_ONLY);
    }
}

/* Its memory was made for this export, and copy=False is wanted. */
static dls_attempt
refuse_made_anew(dls_exchange *x)
{
    dls_acquired_drop(&x->acquired);
    dls_refuse_copy(x->state, x->source, "copy",
                    ", but copy=False was asked for\n"
                    "  allow it with copy=None, or drop the option",
                    "a copy is needed (its memory is made for each export)");
    return DLS_ATTEMPT_FINAL;
}

/* Read the memory behind an older protocol. */
static dls_attempt
attempt_described(dls_exchange *x, dls_protocol protocol, dls_producer_stream *p)
{
    int got = dls_read_object(x->state, x->source, x->plan, protocol, &x->request,
                              &x->acquired, p);
    if (got <= 0) {
        return (dls_attempt)got;
    }
    mark_immutable(x);
    if (dls_plan_has(x->plan, DLS_LIB_MADE_ANEW) && protocol != DLS_PROTOCOL_BUFFER) {
        x->acquired.flags |= DL_FLAG_IS_COPIED;
    }
    bool refused = x->request.want.copy == 0
                   && (x->acquired.flags & DL_FLAG_IS_COPIED) != 0;
    return refused ? refuse_made_anew(x) : DLS_ATTEMPT_GOT;
}

/* The values of a pandas column, as pandas itself has them: an array of NumPy that was
 * made for this exchange, or a method __arrow_c_stream__ of PyArrow's column (C12). */
static dls_attempt
attempt_values(dls_exchange *x)
{
    dls_producer_stream p;
    PyObject *values = dls_in_python_with(x->state, DLS_IN_COLUMNS, "values_of_pandas",
                                          "(O)", x->source);
    if (values == NULL) {
        return DLS_ATTEMPT_RAISED;
    }
    if (PyCallable_Check(values)) {
        return (dls_attempt)dls_read_given(x->state, x->source, values,
                                           DLS_PROTOCOL_ARROW_STREAM, &x->request,
                                           &x->acquired, &p);
    }
    int got = values != Py_None
                  ? dls_read_object(x->state, values, NULL, DLS_PROTOCOL_STRUCT,
                                    &x->request, &x->acquired, &p)
                  : 0;
    Py_DECREF(values);
    bool another = dls_plan_offers(x->plan, DLS_PROTOCOL_ARROW_STREAM);
    if ((got == 0 && !another)
        || (got < 0 && PyErr_ExceptionMatches(PyExc_BufferError))) {
        dls_refuse_values(x->state, x->source);
        return DLS_ATTEMPT_FINAL;
    }
    return (dls_attempt)got;
}

/* The CUDA or the SYCL interface. */
static dls_attempt
attempt_interface(dls_exchange *x, dls_protocol protocol)
{
    dls_producer_stream p;
    dls_plan_leave_host(x->plan);
    dls_attempt got = attempt_described(x, protocol, &p);
    if (got != DLS_ATTEMPT_GOT) {
        return got;
    }
    /* mutant: None of numba */
    if (p.known == DLS_P_READY && dls_plan_has(x->plan, DLS_LIB_NONE_IS_UNSAID)) {
        p = (dls_producer_stream){.known = DLS_P_UNKNOWN};
    }
    bool waited = protocol == DLS_PROTOCOL_SYCL
                  && dls_plan_has(x->plan, DLS_LIB_INTERFACE_WAITS);
    x->synced = true;
    return dls_attempt_sync(x, waited ? DLS_PRODUCER_WAITED : DLS_PRODUCER_OLD, p);
}

/* A column of Arrow was read that may lie on a device: the struct said where, and after
 * which event its memory is ready (S27).  No stream is passed, so it is not asked
 * again. */
static dls_attempt
sync_column(dls_exchange *x, dls_producer_stream p)
{
    if (x->acquired.tensor.device.device_type == dl_kDLCPU
        && !x->request.want.has_assumed) {
        return DLS_ATTEMPT_GOT;
    }
    dls_plan_leave_host(x->plan);
    x->synced = true;
    return dls_attempt_sync(x, DLS_PRODUCER_OLD, p); /* mutant: event of a column */
}

static dls_attempt
attempt_column(dls_exchange *x, dls_protocol protocol)
{
    dls_producer_stream p;
    dls_attempt got = attempt_described(x, protocol, &p);
    return got == DLS_ATTEMPT_GOT ? sync_column(x, p) : got;
}

dls_attempt
dls_attempt_read_column(dls_exchange *x, dls_column *column)
{
    dls_acquired_move(&column->acquired, &x->acquired);
    mark_immutable(x);
    return sync_column(x, column->p);
}

dls_attempt
dls_attempt_ask(dls_exchange *x, dls_protocol protocol, unsigned mask)
{
    dls_producer_stream p;
    switch (protocol) {
    case DLS_PROTOCOL_TABLE:
        return dls_attempt_table(x, true);
    case DLS_PROTOCOL_DLPACK:
        return attempt_dlpack(x, mask);
    case DLS_PROTOCOL_FUNCTION:
        return attempt_function(x);
    case DLS_PROTOCOL_CUDA:
    case DLS_PROTOCOL_SYCL:
        return attempt_interface(x, protocol);
    case DLS_PROTOCOL_VALUES:
        return attempt_values(x);
    case DLS_PROTOCOL_ARROW_DEVICE_ARRAY:
    case DLS_PROTOCOL_ARROW_DEVICE_STREAM:
        return attempt_column(x, protocol);
    default:
        return attempt_described(x, protocol, &p);
    }
}

dls_attempt
dls_attempt_on_host(dls_exchange *x, dls_protocol protocol, unsigned mask)
{
    if (!(x->tried & DLS_FORM_KNOWN) || dls_form_protocol(x->tried) != protocol
        || (x->tried & DLS_FORM_KEYWORDS) != mask) {
        return dls_attempt_ask(x, protocol, mask);
    }
    PyObject *error = x->tried_error;
    x->tried_error = NULL;
    x->tried = 0;
    if (error == NULL) {
        return DLS_ATTEMPT_NOT_OFFERED;
    }
    dls_error_restore(error);
    return DLS_ATTEMPT_RAISED;
}

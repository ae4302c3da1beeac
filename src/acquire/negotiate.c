/* One way of asking, and what its failure means. */
#include "acquire/negotiate.h"

#include "acquire/ctable.h"
#include "acquire/from_capsule.h"
#include "acquire/learned.h"
#include "exchange/device_question.h"
#include "python/errors.h"
#include "sync/stream_value.h"

dls_pending_kind
dls_pending_error(void)
{
    if (PyErr_ExceptionMatches(PyExc_BufferError)) {
        return DLS_PENDING_BUFFER;
    }
    if (PyErr_ExceptionMatches(PyExc_RecursionError)) {
        return DLS_PENDING_FINAL; /* asking on would climb again at every depth */
    }
    if (PyErr_ExceptionMatches(PyExc_TypeError)
        || PyErr_ExceptionMatches(PyExc_ValueError)
        || PyErr_ExceptionMatches(PyExc_RuntimeError)
        || PyErr_ExceptionMatches(PyExc_AssertionError)) {
        return DLS_PENDING_STEP;
    }
    return DLS_PENDING_FINAL;
}

/* Take the pending error away; the first that is no keyword TypeError is kept. */
void
dls_climb_keep(dls_climb *c)
{
    bool type_error = PyErr_ExceptionMatches(PyExc_TypeError);
    PyObject *error = dls_error_take();
    if (error == NULL) {
        return;
    }
    if (!type_error) {
        c->refused_other = true;
    }
    bool weak = c->kept == NULL || PyErr_GivenExceptionMatches(c->kept, PyExc_TypeError)
                || PyErr_GivenExceptionMatches(c->kept, PyExc_NotImplementedError);
    if (weak) {
        Py_XDECREF(c->kept);
        c->kept = error;
    }
    else {
        Py_DECREF(error);
    }
}

/* TensorFlow gives scalars as shape (1,): the object's own ndim decides. */
static int
mend_scalar(dls_climb *c)
{
    dls_loan *loan = c->loan;
    if (loan->tensor.ndim != 1 || loan->tensor.shape == NULL
        || loan->tensor.shape[0] != 1) {
        return 0;
    }
    PyObject *ndim = NULL;
    int got = dls_get_optional(c->obj, c->state->names.ndim, &ndim);
    if (got <= 0) {
        return got;
    }
    if (PyLong_Check(ndim) && PyLong_AsLong(ndim) == 0) {
        loan->tensor.ndim = 0;
        loan->altered = true;
    }
    Py_DECREF(ndim);
    PyErr_Clear();
    return dls_loan_recheck(c->state, c->obj, loan);
}

int
dls_climb_capsule(dls_climb *c, PyObject *capsule)
{
    if (capsule == NULL
        || dls_loan_from_capsule(c->state, c->plan->library, c->obj, capsule, DLS_OLDER,
                                 c->loan)
               < 0) {
        return -1;
    }
    if (dls_plan_has(c->plan, DLS_LIB_SCALAR_IS_1D) && mend_scalar(c) < 0) {
        dls_loan_drop(c->loan);
        return -1;
    }
    return 1;
}

/* The struct is there, but does it hold what the tensor shows? */
int
dls_climb_check_bits(dls_climb *c)
{
    if (dls_refuse_lazy_bits(c->state, c->plan, c->obj, c->loan->tensor.dtype) < 0
        || dls_loan_recheck(c->state, c->obj, c->loan) < 0) {
        dls_loan_drop(c->loan);
        return -1;
    }
    return 1;
}

/* torch refuses the conjugate bit itself, without naming the cure: put ours in front.
 */
static int
explain_bits(dls_climb *c)
{
    const dl_dtype any = {dl_kDLComplex, 64, 1};
    if (dls_error_is_fatal()) {
        return -1;
    }
    PyObject *error = dls_error_take();
    if (dls_refuse_lazy_bits(c->state, c->plan, c->obj, any) < 0) {
        dls_raise_with_cause(error);
    }
    else {
        dls_error_restore(error);
    }
    return -1;
}

int
dls_climb_table(dls_climb *c, bool strict)
{
    bool lazy = dls_plan_has(c->plan, DLS_LIB_LAZY_BITS);
    if (lazy && !c->want->kernel_asks
        && dls_refuse_autograd(c->state, c->plan, c->obj) < 0) {
        return -1;
    }
    return dls_climb_table_gave(c, dls_table_call(c->plan->table, c->obj), strict);
}

int
dls_climb_table_gave(dls_climb *c, dl_managed_tensor_versioned *managed, bool strict)
{
    bool lazy = dls_plan_has(c->plan, DLS_LIB_LAZY_BITS);
    bool owed = strict && !dls_stream_is_minus_one(c->want->stream);
    int got = dls_table_read(managed, owed, c->loan);
    return got > 0 && lazy ? dls_climb_check_bits(c) : got;
}

static int
ask_dlpack(dls_climb *c, unsigned mask)
{
    bool lazy = dls_plan_has(c->plan, DLS_LIB_LAZY_BITS);
    if (lazy && !c->want->kernel_asks
        && dls_refuse_autograd(c->state, c->plan, c->obj) < 0) {
        return -1;
    }
    /* Host producers are never passed anything but None (N6). */
    dls_call_values values = {NULL, NULL, NULL};
    int got = dls_climb_capsule(c, dls_call_dlpack(c->state, c->obj, c->plan->by_type,
                                                   mask, &values));
    if (lazy) {
        return got > 0 ? dls_climb_check_bits(c) : explain_bits(c);
    }
    return got;
}

/* Memory behind an older protocol; an immutable type's is marked, but not stated (T8).
 */
static int
ask_reader(dls_climb *c, dls_reader reader)
{
    int got = reader(c->state, c->obj, c->loan);
    if (got > 0 && dls_plan_has(c->plan, DLS_LIB_IMMUTABLE)) {
        c->loan->flags |= DL_FLAG_READ_ONLY;
        c->loan->readonly_stated = false;
    }
    return got;
}

static int
ask_function(dls_climb *c)
{
    PyObject *capsule = NULL;
    int got = dls_library_capsule(c->state, c->plan->library, c->obj, &capsule);
    return got > 0 ? dls_climb_capsule(c, capsule) : got;
}

/* 1 = got it, 0 = not offered after all, -1 = exception. */
DLS_APART int
dls_climb_way(dls_climb *c, dls_rung rung, unsigned mask)
{
    if (c->failed.known && c->failed.rung == rung && c->failed.mask == mask) {
        PyObject *failure = c->failure;
        c->failure = NULL;
        c->failed.known = false;
        if (failure == NULL) {
            return 0;
        }
        dls_error_restore(failure);
        return -1;
    }
    switch (rung) {
    case DLS_RUNG_TABLE:
        return dls_climb_table(c, true);
    case DLS_RUNG_DLPACK:
        return ask_dlpack(c, mask);
    case DLS_RUNG_FUNCTION:
        return ask_function(c);
    case DLS_RUNG_STRUCT:
        return ask_reader(c, dls_read_array_struct);
    case DLS_RUNG_INTERFACE:
        return ask_reader(c, dls_read_array_interface);
    case DLS_RUNG_BUFFER:
        return ask_reader(c, dls_read_buffer);
    case DLS_RUNG_CUDA:
        return dls_climb_cuda_interface(c);
    case DLS_RUNG_SYCL:
        return dls_climb_sycl_interface(c);
    default:
        return 0;
    }
}

/* --- off the host
 * --------------------------------------------------------------------- */

DLS_COLD int
dls_climb_says_empty(const dls_climb *c)
{
    PyObject *shape = NULL;
    int got = dls_get_optional(c->obj, c->state->names.shape, &shape);
    if (got < 0) {
        got = dls_error_forget();
    }
    bool empty = false;
    Py_ssize_t n = got > 0 && PyTuple_Check(shape) ? PyTuple_Size(shape) : 0;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *extent = PyTuple_GetItem(shape, i);
        empty |= PyLong_Check(extent) && !PyObject_IsTrue(extent);
    }
    Py_XDECREF(shape);
    return got < 0 ? -1 : empty;
}

DLS_COLD int
dls_climb_raise_nothing(dls_climb *c)
{
    if (c->kept != NULL) {
        dls_error_restore(c->kept);
        c->kept = NULL;
        dls_raise_from_pending(c->state, c->obj, "it cannot be exported");
        return -1;
    }
    dls_raise(c->state, DLS_EBUFFER, c->obj,
              "its memory is on a device, and none of its protocols gives that away");
    return -1;
}

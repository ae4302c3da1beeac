#include "module/functions.h"

#include <string.h>

#include "acquire/from_capsule.h"
#include "core/tensor.h"
#include "exchange/plan_cache.h"
#include "export/fast_path.h"
#include "export/resolve.h"
#include "python/capsule.h"
#include "python/errors.h"
#include "request/request.h"

/* What a function works on: the innermost source, its plan and the merged options. */
typedef struct {
    PyObject *source;     /* strong */
    dls_plan *plan;       /* a count; NULL: source is a Tensor */
    dls_options *options; /* owned, or NULL */
} subject;

static void
subject_clear(subject *s)
{
    Py_XDECREF(s->source);
    dls_plan_drop(s->plan);
    dls_options_free(s->options);
}

PyObject *
dls_tensor_from_capsule(dls_state *state, PyObject *capsule)
{
    PyObject *tensor = NULL;
    dls_loan loan;
    dls_scan scan;
    dls_error err;
    dls_loan_init(&loan);
    dls_library_gil_deleters(state);
    Py_INCREF(capsule);
    if (dls_loan_from_capsule(state, NULL, NULL, capsule, DLS_OLDER, &loan) < 0) {
        return NULL;
    }
    if (dls_check_flags(state, capsule, &loan) < 0) {
        goto done;
    }
    if (dls_tensor_scan(&loan.tensor, &scan, &err) < 0) {
        dls_raise_error(state, capsule, &err);
        goto done;
    }
    dls_tensor_settle_data(&loan.tensor, &scan);
    /* A capsule says nothing of its stream, and assume_device may change its label. */
    dls_pending p = {.known = scan.count == 0 ? DLS_P_READY : DLS_P_UNKNOWN};
    tensor = dls_tensor_new(state, &loan.tensor, scan.contiguous, &loan, loan.flags, p,
                            NULL);
    if (tensor != NULL) {
        if (dls_loan_take(state, NULL, NULL, &loan) < 0) {
            Py_CLEAR(tensor);
        }
        else {
            dls_tensor_hold(tensor, &loan.hold);
        }
    }
done:
    dls_loan_drop(&loan);
    return tensor;
}

/* Unwrap, take or look up obj; steals options (on failure too). */
static int
subject_init(dls_state *state, PyObject *obj, dls_options *options, subject *s)
{
    *s = (subject){.options = options};
    if (Py_IS_TYPE(obj, state->producer_type)) {
        dls_producer *inner = dls_producer_data(obj);
        if (dls_options_merge(inner->options, options, &s->options) < 0) {
            s->options = options;
            goto fail;
        }
        dls_options_free(options);
        Py_INCREF(inner->source);
        s->source = inner->source;
        s->plan = inner->plan != NULL ? dls_plan_share(inner->plan) : NULL;
        return 0;
    }
    if (dls_capsule_check(obj)) {
        s->source = dls_tensor_from_capsule(state, obj);
        if (s->source == NULL) {
            goto fail;
        }
        return 0;
    }
    Py_INCREF(obj);
    s->source = obj;
    if (!Py_IS_TYPE(obj, state->tensor_type)) {
        s->plan = dls_plan_find(state, obj);
        if (s->plan == NULL) {
            goto fail;
        }
    }
    return 0;
fail:
    subject_clear(s);
    return -1;
}

DLS_COLD static PyObject *
raise_positional(const char *function, Py_ssize_t n)
{
    return PyErr_Format(PyExc_TypeError,
                        "%s() takes exactly 1 positional argument (%zd given)",
                        function, n);
}

static PyObject *
upgrade(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    dls_state *state = PyModule_GetState(module);
    dls_options *options = NULL;
    subject s;
    if (n != 1) {
        return raise_positional("upgrade", n);
    }
    if (kwnames == NULL) {
        dls_plan *known = dls_plan_known(state, args[0]);
        if (known != NULL) {
            return dls_producer_new(state, args[0], dls_plan_share(known), NULL);
        }
    }
    else if (dls_options_parse(state, "upgrade", kwnames, args + 1, &options) < 0) {
        return NULL;
    }
    if (subject_init(state, args[0], options, &s) < 0) {
        return NULL;
    }
    PyObject *producer = dls_producer_new(state, s.source, s.plan, s.options);
    Py_DECREF(s.source);
    return producer;
}

/* Keywords of from_dlpack: those of a consumer, no options. */
static int
parse_consumer(dls_state *state, PyObject *const *args, PyObject *kwnames,
               dls_request *request)
{
    Py_ssize_t keywords = kwnames != NULL ? PyTuple_Size(kwnames) : 0;
    for (Py_ssize_t i = 0; i < keywords; i++) {
        PyObject *name = PyTuple_GetItem(kwnames, i), *value = args[1 + i];
        int code;
        if (PyUnicode_CompareWithASCIIString(name, "device") == 0) {
            code = dls_request_device(state, "device", value, request);
        }
        else if (PyUnicode_CompareWithASCIIString(name, "copy") == 0) {
            code = dls_parse_copy(state, value, &request->want.copy);
        }
        else if (PyUnicode_CompareWithASCIIString(name, "stream") == 0) {
            code = value == Py_Ellipsis ? 0 : dls_request_stream(state, value, request);
        }
        else {
            PyErr_Format(PyExc_TypeError,
                         "from_dlpack() got an unexpected keyword argument %R", name);
            code = -1;
        }
        if (code < 0) {
            return -1;
        }
    }
    return 0;
}

DLS_APART static PyObject *
tensor_of(dls_state *state, PyObject *const *args, PyObject *kwnames)
{
    dls_request request;
    subject s;
    dls_request_init(&request, NULL);
    if (parse_consumer(state, args, kwnames, &request) < 0
        || subject_init(state, args[0], NULL, &s) < 0) {
        return NULL;
    }
    request.options = s.options;
    PyObject *tensor = dls_serve_tensor(state, s.source, s.plan, &request);
    subject_clear(&s);
    return tensor;
}

static PyObject *
from_dlpack(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    dls_state *state = PyModule_GetState(module);
    if (n != 1) {
        return raise_positional("from_dlpack", n);
    }
    dls_plan *plan = kwnames == NULL ? dls_plan_known(state, args[0]) : NULL;
    if (plan != NULL) {
        unsigned road = dls_express_road_of(plan, true);
        if (road != 0) {
            return dls_express_tensor(state, plan, args[0], road);
        }
    }
    return tensor_of(state, args, kwnames);
}

/* kwnames and values without max_version, which is the consumer's word, not an option.
 */
static int
split_max_version(dls_state *state, PyObject *const *values, PyObject *kwnames,
                  dls_request *request, PyObject **names, PyObject **rest)
{
    Py_ssize_t n = PyTuple_Size(kwnames), kept = 0;
    PyObject *list = PyList_New(0);
    for (Py_ssize_t i = 0; list != NULL && i < n; i++) {
        PyObject *name = PyTuple_GetItem(kwnames, i);
        bool version = PyUnicode_CompareWithASCIIString(name, "max_version") == 0;
        if (version ? dls_request_version(state, values[i], request) < 0
                    : kept == DLS_OPTION_COUNT || PyList_Append(list, name) < 0) {
            if (PyErr_Occurred() == NULL) {
                PyErr_Format(PyExc_TypeError,
                             "to_capsule() got an unexpected keyword argument %R",
                             name);
            }
            Py_CLEAR(list);
        }
        else if (!version) {
            rest[kept++] = values[i];
        }
    }
    *names = list != NULL ? PyList_AsTuple(list) : NULL;
    Py_XDECREF(list);
    return *names != NULL ? 0 : -1;
}

static PyObject *
to_capsule(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    dls_state *state = PyModule_GetState(module);
    dls_options *options = NULL;
    dls_request request;
    subject s;
    dls_request_init(&request, NULL);
    if (n != 1) {
        return raise_positional("to_capsule", n);
    }
    if (kwnames != NULL) {
        PyObject *names = NULL, *values[DLS_OPTION_COUNT];
        if (split_max_version(state, args + 1, kwnames, &request, &names, values) < 0) {
            return NULL;
        }
        int code = dls_options_parse(state, "to_capsule", names, values, &options);
        Py_DECREF(names);
        if (code < 0) {
            return NULL;
        }
    }
    if (subject_init(state, args[0], options, &s) < 0) {
        return NULL;
    }
    request.options = s.options;
    /* Who takes the capsule cannot be seen: treated as a consumer that bears least. */
    request.device_question = true;
    PyObject *capsule = dls_serve_capsule(state, s.source, s.plan, &request);
    subject_clear(&s);
    return capsule;
}

#define OPTIONS_SIGNATURE                                                      \
    "stream=..., producer_stream=None, unknown_stream=\"auto\", device=None, " \
    "copy=None, "                                                              \
    "readonly=None, legacy_readonly=\"error\", order=None, align=None, "       \
    "reinterpret=None, "                                                       \
    "assume_device=None, detach=False, on_release=\"contract\""

PyMethodDef dls_public_methods[] = {
    {"upgrade", DLS_FASTCALL(upgrade), METH_FASTCALL | METH_KEYWORDS,
     "upgrade($module, obj, /, *, " OPTIONS_SIGNATURE ")\n--\n\n"
     "Wrap an array, raw capsule or older-protocol object as a DLPack producer.\n\n"
     "The Producer gives every consumer the DLPack version that it asks for, "
     "zero-copy\n"
     "unless an option or the consumer asks for a copy.  Only the object's type and "
     "the\n"
     "options are checked here (UnsupportedObjectError, TypeError, ValueError); what\n"
     "concerns the data is found out, and raised, when a consumer asks.  A raw capsule "
     "is\n"
     "taken at once (BufferError when it is used or foreign).  A Producer is "
     "unwrapped:\n"
     "options given here win over its own, one by one."},
    {"from_dlpack", DLS_FASTCALL(from_dlpack), METH_FASTCALL | METH_KEYWORDS,
     "from_dlpack($module, x, /, *, device=None, copy=None, stream=...)\n--\n\n"
     "Take the memory of x and describe it: a Tensor that owns a share of it.\n\n"
     "x is anything that upgrade() takes.  BufferError when the data cannot be "
     "exported,\n"
     "CopyRequiredError when copy=False and a copy is needed."},
    {"to_capsule", DLS_FASTCALL(to_capsule), METH_FASTCALL | METH_KEYWORDS,
     "to_capsule($module, obj, /, *, max_version=None, " OPTIONS_SIGNATURE ")\n--\n\n"
     "A raw DLPack capsule of obj, for functions that want one.\n\n"
     "max_version=None or major 0 gives a legacy 'dltensor' capsule, major >= 1 a\n"
     "'dltensor_versioned' one.  The options are those of upgrade()."},
    {NULL, NULL, 0, NULL},
};

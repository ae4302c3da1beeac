/* The public functions: read the arguments, unwrap the object, run the exchange.
 * The three are hot when no option is passed.
 * Tests: tests/core/test_options.py, tests/core/test_ways_in.py,
 * tests/core/test_fast_path.py. */
#include "public/functions.h"

#include "exchange/decorated_class.h"
#include "export/export.h"
#include "export/fast_path.h"
#include "public/producer.h"
#include "python/capsule.h"
#include "python/errors.h"
#include "request/request.h"
#include "request/wanted.h"
#include "types/plan_cache.h"

/* The subject of a function: the innermost source, its plan and the merged options. */
typedef struct {
    PyObject *source;     /* strong */
    dls_plan *plan;       /* a count */
    dls_options *options; /* owned, or NULL */
    PyTypeObject *home;   /* the class of the Producer that it was; NULL: not known */
} subject;

static void
subject_clear(subject *s)
{
    Py_XDECREF(s->source);
    dls_plan_drop(s->plan);
    dls_options_free(s->options);
}

static int subject_init(dls_state *state, PyObject *obj, dls_options *options,
                        subject *s);

/* The inner array takes the place of an object of a changed class (dlshim.producer): it
 * is asked by no detour.  0, or -1 with an exception and nothing held. */
static int
subject_enter(dls_state *state, subject *s)
{
    subject outer = *s;
    PyObject *method = dls_method_of(state, outer.source);
    if (method == NULL) {
        return 0; /* it has another __dlpack__ by now */
    }
    Py_DECREF(method);
    outer.home = dls_plan_home(state, outer.plan, outer.source);
    PyObject *inner = outer.home != NULL
                          ? dls_inner_get(state, outer.source, outer.plan)
                          : NULL;
    int code = -1;
    if (inner != NULL && Py_EnterRecursiveCall(" in an inner array") == 0) {
        if (inner != outer.source) {
            outer.options = NULL; /* stolen now */
            code = subject_init(state, inner, s->options, s);
        }
        Py_LeaveRecursiveCall();
        if (code < 0) {
            dls_inner_refuse(state, outer.source, outer.plan, inner);
        }
    }
    Py_XDECREF(inner);
    s->home = outer.home;
    subject_clear(&outer);
    return code;
}

/* The subject of a function that was called with `obj`: a Producer is unwrapped, a raw
 * capsule is taken.  Steals options, on failure too.  0, or -1 with an exception. */
static int
subject_init(dls_state *state, PyObject *obj, dls_options *options, subject *s)
{
    *s = (subject){.options = options};
    if (PyObject_TypeCheck(obj, state->producer_type)) {
        dls_producer *inner = dls_producer_data(obj);
        int code = dls_options_merge(state, inner->options, options, &s->options);
        dls_options_free(options);
        if (code == 0) {
            s->source = Py_NewRef(inner->source);
            s->plan = dls_plan_share(inner->plan);
            s->home = Py_TYPE(obj);
        }
        return code;
    }
    bool capsule = dls_capsule_check(obj);
    s->source = capsule ? dls_tensor_from_capsule(state, obj) : Py_NewRef(obj);
    if (s->source != NULL) {
        bool tensor = Py_IS_TYPE(s->source, state->tensor_type);
        s->plan = tensor ? dls_plan_share(state->tensor_plan)
                         : dls_plan_find(state, obj);
    }
    if (s->plan == NULL) {
        subject_clear(s);
        return -1;
    }
    return s->plan->inner == NULL ? 0 : subject_enter(state, s);
}

static PyObject *
refuse_positional(const char *function, Py_ssize_t n)
{
    return PyErr_Format(PyExc_TypeError,
                        "%s() takes exactly 1 positional argument (%zd given)",
                        function, n);
}

PyObject *
dls_upgrade_into(dls_state *state, PyTypeObject *home, PyObject *obj,
                 dls_options *options)
{
    subject s;
    if (subject_init(state, obj, options, &s) < 0) {
        return NULL;
    }
    home = home != NULL ? home : s.home;
    home = home != NULL ? home : dls_plan_home(state, s.plan, s.source);
    if (home == NULL) {
        subject_clear(&s);
        return NULL;
    }
    PyObject *producer = dls_producer_new_of(state, home, s.source, s.plan, s.options);
    Py_DECREF(s.source);
    return producer;
}

PyObject *
dls_home_of_object(dls_state *state, PyObject *obj)
{
    PyTypeObject *home = Py_TYPE(obj);
    if (PyObject_TypeCheck(obj, state->producer_type)) {
        return Py_NewRef((PyObject *)home);
    }
    if (dls_capsule_check(obj) || home == state->tensor_type) {
        return Py_NewRef((PyObject *)state->producer_type);
    }
    dls_plan *plan = dls_plan_find(state, obj);
    home = plan != NULL ? dls_plan_home(state, plan, obj) : NULL;
    dls_plan_drop(plan);
    return Py_XNewRef((PyObject *)home);
}

/* Steals options. */
static inline PyObject *
upgrade_with(dls_state *state, PyObject *obj, dls_options *options)
{
    dls_plan *known = dls_plan_known(state, obj);
    if (known != NULL && known->producer_type != NULL) {
        return dls_producer_new(state, obj, known, options);
    }
    dls_plan_drop(known);
    return dls_upgrade_into(state, NULL, obj, options);
}

/* Apart: it passes the address of a local on, and the stack protector would guard
 * upgrade() with it. */
DLS_APART static PyObject *
upgrade_with_options(dls_state *state, PyObject *const *args, PyObject *kwnames)
{
    dls_options *options = NULL;
    return dls_options_parse(state, "upgrade", kwnames, args + 1, NULL, &options) < 0
               ? NULL
               : upgrade_with(state, args[0], options);
}

static PyObject *
upgrade(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    dls_state *state = dls_state_of(module);
    if (n != 1) {
        return refuse_positional("upgrade", n);
    }
    return kwnames == NULL ? upgrade_with(state, args[0], NULL)
                           : upgrade_with_options(state, args, kwnames);
}

/* The subject, and how it is asked for an export.  Steals options, on failure too.  0,
 * or -1 with an exception and nothing held. */
static inline int
subject_begin(dls_state *state, PyObject *obj, dls_options *options, subject *s)
{
    if (subject_init(state, obj, options, s) < 0) {
        return -1;
    }
    /* With detach= another object may be exported: export/export enters it then. */
    if (!dls_option_given(s->options, DLS_OPTION_detach)
        && dls_decorated_enter(state, s->source, &s->plan, true) < 0) {
        subject_clear(s);
        return -1;
    }
    return 0;
}

/* The form for the fast path, where the options leave it nothing to do; else 0. */
static dls_form
fast_form(const subject *s)
{
    bool open = (s->options == NULL || s->options->idle)
                && Py_TYPE(s->source) == s->plan->type;
    return open ? dls_fast_form_of(s->plan, true) : 0;
}

void *
dls_function_run(dls_state *state, PyObject *obj, dls_options *options,
                 dls_request *request, dls_outcome *outcome, dls_export_kind kind)
{
    dls_exchange x;
    subject s;
    if (subject_begin(state, obj, options, &s) < 0) {
        if (outcome != NULL) {
            dls_outcome_drop(outcome);
        }
        return NULL;
    }
    /* After unwrapping a Producer, a changed class or an inner array, try the fast path
     * again. */
    dls_form form = kind == DLS_EXPORT_TENSOR ? fast_form(&s) : 0;
    void *result;
    if (form & DLS_FORM_FAST) {
        dls_plan *plan = dls_plan_share(s.plan);
        result = s.options == NULL
                     ? dls_fast_tensor(state, plan, s.source, form)
                     : dls_fast_tensor_idle(state, plan, s.source, form, s.options);
    }
    else {
        dls_exchange_begin(&x, state, s.source, s.plan, s.options, outcome);
        request->options = s.options;
        request->streams.seen = &x.request.streams.read;
        x.request = *request;
        result = dls_exchange_run(&x, kind);
        dls_exchange_end(&x);
    }
    subject_clear(&s);
    return result;
}

PyObject *
dls_tensor_with(dls_state *state, PyObject *obj, dls_options *options)
{
    dls_request request;
    dls_request_init(&request, NULL);
    request.who.keeps_word = true;
    return dls_function_run(state, obj, options, &request, NULL, DLS_EXPORT_TENSOR);
}

/* What the user writes into the memory is seen by its owner: a copy is made only where
 * it is asked for.  The request is told what errors say of the options.  0, or -1 with
 * an exception; *options is the caller's in both cases. */
static int
allow_writes(dls_state *state, PyObject *obj, dls_options **options,
             dlshim_request *wanted)
{
    const dls_options *given = *options;
    const dls_options never = {.given = 1u << DLS_OPTION_copy, .copy = false};
    dl_device device;
    bool copies = dls_option_given(given, DLS_OPTION_copy);
    wanted->copy = copies && given->copy ? DLSHIM_COPY_ALWAYS : DLSHIM_COPY_NEVER;
    wanted->alignment = dls_option_given(given, DLS_OPTION_align) ? given->align : 0;
    if (dls_options_device(given, &device)) {
        wanted->device_type = device.device_type;
        wanted->device_id = device.device_id;
    }
    if (dls_wanted_check_writes(state, obj, wanted) < 0) {
        return -1;
    }
    dls_options *merged = NULL;
    int code = copies ? 0 : dls_options_merge(state, given, &never, &merged);
    if (code == 0 && !copies) {
        dls_options_free(*options);
        *options = merged;
    }
    return code;
}

PyObject *
dls_tensor_accepted(dls_state *state, PyObject *obj, dls_options *options,
                    dlshim_request *wanted)
{
    if (wanted->writable && allow_writes(state, obj, &options, wanted) < 0) {
        dls_options_free(options);
        return NULL;
    }
    PyObject *tensor = dls_tensor_with(state, obj, options);
    if (tensor == NULL) {
        if (wanted->writable) {
            dls_wanted_refuse(state, obj, wanted, NULL);
        }
        return NULL;
    }
    const dls_tensor *data = dls_tensor_data(tensor);
    if (!dls_wanted_accepts(wanted, &data->tensor, data->flags)) {
        dls_wanted_refuse(state, obj, wanted, &data->tensor);
        Py_CLEAR(tensor);
    }
    return tensor;
}

static PyObject *
tensor_of(dls_state *state, PyObject *const *args, PyObject *kwnames)
{
    dls_options *options = NULL;
    dls_wanted wanted;
    dls_keyword_value others[] = {{state->names.dtypes, NULL},
                                  {state->names.ndims, NULL},
                                  {state->names.writable, NULL},
                                  {NULL, NULL}};
    if (dls_options_parse(state, "from_dlpack", kwnames, args + 1, others, &options)
        < 0) {
        return NULL;
    }
    PyObject *dtypes = others[0].value, *ndims = others[1].value;
    PyObject *writable = others[2].value != NULL ? others[2].value : Py_False;
    if (dtypes == NULL && ndims == NULL && writable == Py_False) {
        return dls_tensor_with(state, args[0], options);
    }
    int code = PyBool_Check(writable)
                   ? dls_wanted_read(state, dtypes, ndims, &wanted)
                   : dls_refuse(state, DLS_ETYPE, NULL,
                                "writable must be True or False, not %R", writable);
    if (code < 0) {
        dls_options_free(options);
        return NULL;
    }
    wanted.request.writable = writable == Py_True;
    PyObject *tensor = dls_tensor_accepted(state, args[0], options, &wanted.request);
    dls_wanted_clear(&wanted);
    return tensor;
}

/* Is copy=True the only keyword? */
static bool
asks_copy(const dls_state *state, PyObject *const *args, PyObject *kwnames)
{
    return PyTuple_Size(kwnames) == 1 && args[1] == Py_True
           && PyTuple_GetItem(kwnames, 0) == state->names.copy;
}

/* Is the object itself asked, and not its inner array or its author's methods? */
static bool
asks_itself(const dls_plan *plan)
{
    return plan->offers != 0 && plan->inner == NULL && !plan->is_decorated;
}

PyObject *
dls_tensor_plainly(dls_state *state, dls_plan *plan, PyObject *obj)
{
    dls_form form;
    PyObject *tensor = NULL;
    int fast = dls_fast_form_shown(plan, obj, true, &form);
    if (fast > 0) {
        return dls_fast_tensor(state, plan, obj, form);
    }
    if (fast == 0) {
        tensor = asks_itself(plan) ? dls_export_tensor(state, plan, obj, NULL, NULL, -1)
                                   : dls_tensor_with(state, obj, NULL);
    }
    dls_plan_drop(plan);
    return tensor;
}

/* Apart: it passes the address of a local on (see upgrade_with_options). */
DLS_APART static PyObject *
tensor_in_full(dls_state *state, dls_plan *plan, PyObject *obj,
               const dls_options *options)
{
    dls_options *own = NULL;
    PyObject *tensor = NULL;
    if (dls_options_merge(state, options, NULL, &own) == 0) {
        tensor = dls_tensor_with(state, obj, own);
    }
    dls_plan_drop(plan);
    return tensor;
}

PyObject *
dls_tensor_idly(dls_state *state, dls_plan *plan, PyObject *obj,
                const dls_options *options)
{
    dls_form form = dls_fast_form_of(plan, true);
    return form & DLS_FORM_FAST ? dls_fast_tensor_idle(state, plan, obj, form, options)
                                : tensor_in_full(state, plan, obj, options);
}

static PyObject *
from_dlpack(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    dls_state *state = dls_state_of(module);
    if (n != 1) {
        return refuse_positional("from_dlpack", n);
    }
    bool fast = kwnames == NULL || asks_copy(state, args, kwnames);
    dls_plan *plan = fast ? dls_plan_known(state, args[0]) : NULL;
    if (plan == NULL) {
        return tensor_of(state, args, kwnames);
    }
    dls_form form = dls_fast_form_of(plan, true);
    if (form & DLS_FORM_FAST) {
        return (kwnames == NULL ? dls_fast_tensor
                                : dls_fast_tensor_copy)(state, plan, args[0], form);
    }
    if (kwnames == NULL) {
        return dls_tensor_plainly(state, plan, args[0]);
    }
    PyObject *tensor = asks_itself(plan)
                           ? dls_export_tensor(state, plan, args[0], NULL, NULL, 1)
                           : tensor_of(state, args, kwnames);
    dls_plan_drop(plan);
    return tensor;
}

/* The consumer of the capsule is not known.  Only consumers that accept little ask for
 * the device first, so the request is treated as one of theirs (N9). */
static PyObject *
run_hidden(dls_state *state, PyObject *obj, dls_options *options, dls_request *request,
           dls_outcome *outcome)
{
    request->who.device_question = true;
    request->who.hidden = true;
    /* mutant: to_capsule waits */
    request->streams.waits = true; /* nor on which stream it reads (S25) */
    return dls_function_run(state, obj, options, request, outcome, DLS_EXPORT_CAPSULE);
}

PyObject *
dls_capsule_with(dls_state *state, PyObject *obj, dls_options *options,
                 dls_request *request)
{
    return run_hidden(state, obj, options, request, NULL);
}

PyObject *
dls_capsule_plainly(dls_state *state, dls_plan *plan, PyObject *obj, bool versioned)
{
    PyObject *capsule = NULL;
    dls_outcome outcome = {.kind = DLS_NOT_LEARNED};
    dls_form form;
    int fast = dls_fast_form_shown(plan, obj, versioned, &form);
    if (fast > 0) {
        capsule = dls_fast_capsule_hidden(state, plan, obj, form, &outcome);
    }
    dls_plan_drop(plan);
    if (capsule != NULL || (fast != 0 && outcome.kind == DLS_NOT_LEARNED)) {
        return capsule;
    }
    dls_request request;
    dls_request_init(&request, NULL);
    request.want.versioned = versioned;
    request.who.asked_with = versioned ? DLS_ASK_VERSION : 0;
    return run_hidden(state, obj, NULL, &request, &outcome);
}

/* Is no keyword passed, or max_version=(1, n) alone? */
static bool
asks_version(dls_state *state, PyObject *const *values, PyObject *kwnames,
             bool *versioned)
{
    *versioned = false;
    return kwnames == NULL
           || (PyTuple_Size(kwnames) == 1
               && PyTuple_GetItem(kwnames, 0) == state->names.max_version
               && dls_request_is_usual(state, values[0], true, false, versioned)
               && *versioned);
}

static PyObject *
capsule_of(dls_state *state, PyObject *const *args, PyObject *kwnames)
{
    dls_keyword_value others[] = {{state->names.max_version, NULL}, {NULL, NULL}};
    dls_options *options = NULL;
    dls_request request;
    dls_request_init(&request, NULL);
    if (dls_options_parse(state, "to_capsule", kwnames, args + 1, others, &options)
        < 0) {
        return NULL;
    }
    if (others[0].value != NULL) {
        request.who.asked_with |= DLS_ASK_VERSION;
        if (dls_request_version(state, others[0].value, &request) < 0) {
            dls_options_free(options);
            return NULL;
        }
    }
    return dls_capsule_with(state, args[0], options, &request);
}

static PyObject *
to_capsule(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    dls_state *state = dls_state_of(module);
    bool versioned;
    if (n != 1) {
        return refuse_positional("to_capsule", n);
    }
    dls_plan *plan = asks_version(state, args + 1, kwnames, &versioned)
                         ? dls_plan_known(state, args[0])
                         : NULL;
    return plan != NULL ? dls_capsule_plainly(state, plan, args[0], versioned)
                        : capsule_of(state, args, kwnames);
}

/* ", stream=\"auto\", producer_stream=None" and so on: the options in text signatures.
 * The text of upgrade() stands in the stub too, for editors. */
#define OPTION(name, kind, default, ...) ", " #name "=" #default

PyMethodDef dls_public_methods[] = {
    {"upgrade", DLS_FASTCALL(upgrade), METH_FASTCALL | METH_KEYWORDS,
     "upgrade($module, obj, /, *"
#include "request/options.def"
     ")\n--\n\n"
     "Wrap an array, raw capsule or older-protocol object as a DLPack producer.\n"
     "\n"
     "It gives every consumer the DLPack version that it asks for.  Nothing is copied "
     "unless\n"
     "an option or the consumer asks for it.\n"
     "\n"
     "    torch.from_dlpack(dlshim.upgrade(x))\n"
     "    torch.from_dlpack(dlshim.upgrade(image[::-1], order=\"auto\"))\n"
     "    torch.from_dlpack(dlshim.upgrade(frozen, readonly=\"copy\"))\n"
     "    jax.numpy.from_dlpack(dlshim.upgrade(parameter, detach=True))\n"
     "\n"
     "What is wrong with the data is raised when a consumer asks.  A raw capsule is "
     "taken at\n"
     "once.  Options that are given for a Producer win over its own, one by one.\n"
     "\n"
     "stream: the consumer's stream, in place of the one that it names; \"auto\": no\n"
     "    other one; \"wait\": the host waits\n"
     "producer_stream: the stream that writes the data, where the producer does not "
     "tell\n"
     "unknown_stream: what to do where nobody tells it: \"auto\" waits for the "
     "device,\n"
     "    \"legacy\" takes the default stream, \"same\" does nothing, \"error\" "
     "refuses\n"
     "device: where the data are wanted: \"cpu\", \"cuda:1\", (type, id)\n"
     "like: an array: the data are wanted on its device, made by its library\n"
     "copy: True copies always, False never, None where it is needed\n"
     "readonly: what a consumer that writes gets of read-only memory: \"copy\" is a "
     "private\n"
     "    copy, \"share\" the memory itself, \"error\" an error.  True marks the "
     "memory\n"
     "    read-only, False says that it may be written\n"
     "order: \"auto\" copies where the consumer does not take the strides, \"C\" where "
     "they are\n"
     "    not row-major; \"K\" passes them on unasked; None refuses them\n"
     "align: bytes by which the address is to be divisible; copied where it is not\n"
     "reinterpret: another dtype for the same bits: \"bool\", \"int64\", (code, bits, "
     "lanes)\n"
     "assume_device: where the memory is, if the producer says it wrongly\n"
     "detach: True calls x.detach() first, for tensors that require grad; \"auto\" "
     "calls it\n"
     "    where that is needed\n"
     "on_release: when the producer gets its memory back: \"contract\" when the "
     "consumer says\n"
     "    so, \"guard\" also not before the consumer's work on the device has ended"},
    {"from_dlpack", DLS_FASTCALL(from_dlpack), METH_FASTCALL | METH_KEYWORDS,
     "from_dlpack($module, x, /, *, dtypes=None, ndims=None, writable=False"
#include "request/options.def"
     ")\n--\n\n"
     "Take the memory of x and describe it: a Tensor that owns a share of it.\n\n"
     "dtypes: the dtype that is accepted, or several; nothing is converted\n"
     "ndims: the number of dimensions that is accepted, or several\n"
     "writable: True: you write into the memory, and x sees it: read-only memory is\n"
     "    refused, and a copy that copy=True did not ask for\n\n"
     "x and the other options are those of upgrade(); the Tensor remembers\n"
     "on_release= and a word of readonly= for its exports.  BufferError when the data\n"
     "cannot be exported, CopyRequiredError when copy=False and a copy is needed,\n"
     "TypeError for another dtype, ValueError for another number of dimensions."},
    {"to_capsule", DLS_FASTCALL(to_capsule), METH_FASTCALL | METH_KEYWORDS,
     "to_capsule($module, obj, /, *, max_version=None"
#include "request/options.def"
     ")\n--\n\n"
     "A raw DLPack capsule of obj, for functions that want one.\n\n"
     "max_version=None or major 0 gives a legacy 'dltensor' capsule, major >= 1 a\n"
     "'dltensor_versioned' one.  The options are those of upgrade().  Without stream=\n"
     "the host waits until device memory is ready for every stream."},
    {NULL, NULL, 0, NULL},
};
#undef OPTION

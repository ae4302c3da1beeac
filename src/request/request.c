/* Reads a consumer's request: the arguments of __dlpack__ and max_version= of
 * to_capsule, and the options that take their place.  Called by everything that
 * exports; writes the request and the state's memory of callers' tuples.
 * Tests: tests/core/test_negotiation.py, test_fast_path.py, test_consumers.py.
 *
 * The arguments of __dlpack__ have three forms:
 *   1. nothing: a legacy capsule is asked for, and no order of streams;
 *   2. keywords alone, any of max_version, dl_device, copy and stream;
 *   3. stream by position, with or without the other keywords.
 *
 * They are read in one of two ways, and both understand the names of the keywords by
 * read_keywords.  The usual reading (dls_request_read_usual) answers one question on
 * the fast path: which generation, and whether a copy, do forms 1 and 2 ask for, if
 * they ask for nothing else?  It makes no record and raises nothing.  The full reading
 * (dls_request_parse) takes all forms, checks every value, raises, and fills the
 * record.  It repeats the work of the usual reading: keeping its result would cost the
 * fast path more than it saves here. */
#include "request/request.h"

#include <assert.h>
#include <limits.h>

#include "exchange/device_question.h"
#include "python/errors.h"
#include "sync/stream_value.h"
#include "types/library.h"

void
dls_request_init(dls_request *request, const dls_options *options)
{
    *request = (dls_request){.options = options};
    request->want.copy = -1;
    request->want.order = DLS_ORDER_UNSAID;
    request->want.copy_align = DLS_ALIGNMENT;
    request->streams.seen = &request->streams.read;
}

/* --- what is remembered of callers' tuples ----------------------------------- */

/* Values of subclasses of int may mean something else the next time. */
static void
remember_version(dls_state *state, PyObject *value, bool versioned)
{
    if (Py_IS_TYPE(value, &PyTuple_Type)
        && Py_IS_TYPE(PyTuple_GetItem(value, 0), &PyLong_Type)
        && Py_IS_TYPE(PyTuple_GetItem(value, 1), &PyLong_Type)) {
        dls_memo_set_version(&state->memo, value, versioned);
    }
}

/* --- single values ----------------------------------------------------------- */

/* Item i of a pair as a non-negative int, -1 when it is none. */
static long long
version_part(PyObject *pair, Py_ssize_t i)
{
    PyObject *number = PyNumber_Index(PyTuple_GetItem(pair, i));
    if (number == NULL) {
        return -1;
    }
    int overflow;
    long long value = PyLong_AsLongLongAndOverflow(number, &overflow);
    Py_DECREF(number);
    return overflow > 0 ? LLONG_MAX : value;
}

static int
parse_version(dls_state *state, PyObject *value, bool *versioned)
{
    PyObject *pair = NULL;
    if (PyTuple_Check(value)) {
        pair = Py_NewRef(value);
    }
    else if (PySequence_Check(value) && !PyUnicode_Check(value)
             && !PyBytes_Check(value)) {
        pair = PySequence_Tuple(value);
    }
    long long major = -1, minor = -1;
    if (pair != NULL && PyTuple_Size(pair) == 2) {
        major = version_part(pair, 0);
        minor = major >= 0 ? version_part(pair, 1) : -1;
    }
    Py_XDECREF(pair);
    if (major < 0 || minor < 0) {
        return dls_error_forget() < 0 ? -1
                                      : dls_refuse(state, DLS_ETYPE, NULL,
                                                   "max_version must be None or a pair "
                                                   "of ints such as (1, 0), not %R",
                                                   value);
    }
    *versioned = major >= 1;
    remember_version(state, value, *versioned);
    return 0;
}

int
dls_request_version(dls_state *state, PyObject *value, dls_request *request)
{
    if (dls_memo_is_version(&state->memo, value, &request->want.versioned)) {
        return 0;
    }
    return value == Py_None ? 0 : parse_version(state, value, &request->want.versioned);
}

int
dls_request_device(dls_state *state, const char *keyword, PyObject *value,
                   dls_request *request)
{
    if (value == Py_None) {
        return 0;
    }
    int code = dls_parse_device(state, keyword, value, &request->want.device);
    request->want.has_device |= code == 0;
    return code;
}

int
dls_request_copy(dls_state *state, PyObject *value, dls_request *request)
{
    if (!PyBool_Check(value) && PyNumber_Check(value)) {
        /* Consumers pass on the value that they got, and that may be a bool of
         * NumPy. */
        int yes = PyObject_IsTrue(value);
        if (yes >= 0) {
            request->want.copy = (int8_t)yes;
            return 0;
        }
        if (dls_error_forget() < 0) {
            return -1;
        }
    }
    return dls_parse_copy(state, value, &request->want.copy);
}

int
dls_request_stream(dls_state *state, PyObject *value, dls_request *request)
{
    if (value == Py_None) {
        return 0;
    }
    if (dls_stream_check(state, value) < 0) {
        return -1;
    }
    request->streams.consumer = value;
    return 0;
}

/* --- options ----------------------------------------------------------------- */

/* Add the options of streams and of the device. */
static void
add_place(const dls_options *o, dls_request *request)
{
    if (dls_option_given(o, DLS_OPTION_stream)) {
        request->streams.consumer = o->stream != Py_None ? o->stream : NULL;
        request->streams.said = true;
        request->streams.waits = false;
    }
    if (dls_option_given(o, DLS_OPTION_producer_stream)) {
        request->streams.producer = o->producer_stream;
        request->who.ask_device = true; /* only then is pinned memory synchronised */
    }
    if (dls_option_given(o, DLS_OPTION_unknown_stream)) {
        request->streams.unknown = o->unknown_stream;
    }
    if (dls_option_given(o, DLS_OPTION_assume_device)) {
        request->want.has_assumed = true;
        request->want.assumed = o->assume_device;
    }
    if (!request->want.has_device) {
        request->want.has_device = dls_options_device(o, &request->want.device);
    }
    if (dls_option_given(o, DLS_OPTION_like)) {
        request->want.like = o->like.table;
        request->want.like_device = o->like.device;
        request->want.like_tells_stream = o->like.tells_stream;
    }
    request->want.guards = dls_option_given(o, DLS_OPTION_on_release)
                           && o->on_release == DLS_RELEASE_GUARD;
}

/* Add the options of the data. */
static void
add_form(const dls_options *o, dls_request *request)
{
    if (dls_option_given(o, DLS_OPTION_readonly)) {
        request->want.readonly = o->readonly;
    }
    if (dls_option_given(o, DLS_OPTION_order)) {
        bool unknown = o->order == DLS_ORDER_AUTO && request->who.hidden;
        request->want.order = unknown ? DLS_ORDER_UNSAID : (dls_order)o->order;
        request->want.mends = o->order == DLS_ORDER_C || o->order == DLS_ORDER_AUTO;
    }
    if (dls_option_given(o, DLS_OPTION_align)) {
        request->want.align = o->align;
        request->want.copy_align = o->align > DLS_ALIGNMENT ? o->align : DLS_ALIGNMENT;
    }
    if (dls_option_given(o, DLS_OPTION_reinterpret)) {
        request->want.has_dtype = true;
        request->want.dtype = o->reinterpret;
    }
    request->who.host_reads |= request->want.order != DLS_ORDER_UNSAID
                               || request->want.align != 0
                               || request->want.readonly == DLS_READONLY_COPY;
}

int
dls_request_options(dls_state *state, PyObject *source, dls_request *request)
{
    const dls_options *o = request->options;
    add_place(o, request);
    add_form(o, request);
    if (!dls_option_given(o, DLS_OPTION_copy)) {
        return 0;
    }
    if (request->want.copy >= 0 && request->want.copy != o->copy) {
        return dls_refuse_copy(
            state, source, "copy", "\n  drop one",
            "the consumer asks for copy=%s, upgrade was told copy=%s",
            request->want.copy ? "True" : "False", o->copy ? "True" : "False");
    }
    request->want.copy = o->copy;
    return 0;
}

/* --- arguments of one call of __dlpack__ ------------------------------------- */

/* The dls_keyword of a name that is not the interned one, or -1. */
static int
keyword_by_text(dls_state *state, PyObject *name)
{
    PyObject *all = state->kwnames[DLS_KW_MASKS - 1]; /* in the order of dls_keyword */
    for (int keyword = 0; keyword < DLS_KW_COUNT; keyword++) {
        if (PyUnicode_Compare(name, PyTuple_GetItem(all, keyword)) == 0) {
            return keyword;
        }
    }
    return -1;
}

/* The dls_keyword of a name, -1 for any other.  Names in calls are interned. */
static inline int
keyword_of(dls_state *state, PyObject *name)
{
    return name == state->names.max_version ? DLS_KW_VERSION
           : name == state->names.stream    ? DLS_KW_STREAM
           : name == state->names.dl_device ? DLS_KW_DEVICE
           : name == state->names.copy      ? DLS_KW_COPY
                                            : keyword_by_text(state, name);
}

/* Read the keywords from their names.  0, or -1 with TypeError. */
static int
read_keywords(dls_state *state, PyObject *kwnames, dls_seen_keywords *seen)
{
    Py_ssize_t n = PyTuple_Size(kwnames);
    *seen = (dls_seen_keywords){.kwnames = kwnames, .at = {-1, -1, -1, -1}};
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *name = PyTuple_GetItem(kwnames, i);
        int keyword = keyword_of(state, name);
        if (keyword < 0) {
            if (PyErr_Occurred() == NULL) {
                PyErr_Format(PyExc_TypeError,
                             "__dlpack__() got an unexpected keyword argument %R",
                             name);
            }
            return -1;
        }
        seen->at[keyword] = (int8_t)i;
        seen->mask |= (uint8_t)(1 << keyword);
        seen->count++;
    }
    return 0;
}

/* Find the keywords of these names, remembered or read.  *seen is a copy, because
 * reading the values may run code that exports and so overwrites the place.  0, or -1
 * with TypeError. */
static int
find_keywords(dls_state *state, PyObject *kwnames, dls_seen_keywords *seen)
{
    const dls_seen_keywords *place = dls_memo_keywords(&state->memo, kwnames, seen);
    if (place->kwnames == kwnames) {
        *seen = *place;
        return 0;
    }
    if (read_keywords(state, kwnames, seen) < 0) {
        return -1;
    }
    if (dls_memo_is_free(&state->memo, kwnames)) {
        dls_memo_set_keywords(&state->memo, seen);
    }
    return 0;
}

/* --- ways of asking (N9) ----------------------------------------------------- */

static const struct {
    unsigned must;
    unsigned must_not;
    int device_question;
    dls_layout layout;
} consumers[] = {
#define CONSUMER(must, must_not, device_question, layout, who) \
    {must, must_not, device_question, DLS_LAYOUT_##layout},
#include "request/consumers.def"
#undef CONSUMER
};

/* Does a consumer that passes these (DLS_ASK_*, DLS_ASKED_*) ask in this way? */
static bool
fits_caller(unsigned with, bool question, unsigned must, unsigned must_not,
            int device_question)
{
    return (with & must) == must && (with & must_not) == 0
           && (device_question < 0 || device_question == question);
}

static bool
asks_so(const dls_request *request, unsigned must, unsigned must_not,
        int device_question)
{
    return fits_caller(request->who.asked_with, request->who.device_question, must,
                       must_not, device_question);
}

/* Does a method of Python pass on the question of its own consumer? */
static bool
is_passed_on(void)
{
    PyFrameObject *frame = PyEval_GetFrame(); /* borrowed; NULL: no Python code runs */
    PyObject *code = frame != NULL ? (PyObject *)PyFrame_GetCode(frame) : NULL;
    PyObject *name = code != NULL ? PyObject_GetAttrString(code, "co_name") : NULL;
    bool passed_on = name != NULL
                     && PyUnicode_CompareWithASCIIString(name, "__dlpack__") == 0;
    PyErr_Clear();
    Py_XDECREF(name);
    Py_XDECREF(code);
    return passed_on;
}

/* The layout that a consumer is known to take by its way of asking. */
static dls_layout
layout_of_way(const dls_request *request)
{
    unsigned with = request->who.asked_with;
    bool question = request->who.device_question;
    if ((with & DLS_ASK_VERSION) && is_passed_on()) {
        /* The method may have answered a device question itself, and added stream=. */
        question = true;
        with &= request->streams.consumer == NULL ? ~DLS_ASK_STREAM : ~0u;
    }
    for (size_t i = 0; i < sizeof consumers / sizeof *consumers; i++) {
        if (fits_caller(with, question, consumers[i].must, consumers[i].must_not,
                        consumers[i].device_question)) {
            return consumers[i].layout;
        }
    }
    return DLS_LAYOUT_NO_NEGATIVE;
}

/* The package of the code that asks is looked at where the device was asked for first,
 * as all do that are in the table, and for order="auto". */
dls_layout
dls_request_layout(dls_state *state, const dls_request *request, bool negative,
                   const char **package)
{
    unsigned with = request->who.asked_with;
    bool copies = request->want.order == DLS_ORDER_AUTO;
    *package = NULL;
    if (request->who.supports_anything || (with & DLS_ASKED_OURS)) {
        return DLS_LAYOUT_ANY;
    }
    dls_layout layout;
    if ((request->who.device_question || copies)
        && dls_library_layout(state, with != 0, copies, &layout, package)) {
        return layout;
    }
    return negative ? layout_of_way(request) : DLS_LAYOUT_ANY;
}

/* Does a consumer that asks in this way compute in a queue that it does not name, where
 * the memory is of oneAPI (S6)? */
static bool
hides_queue(const dls_request *request)
{
    bool hides = false;
#define HIDES_QUEUE(must, must_not, device_question, who) \
    hides |= asks_so(request, must, must_not, device_question);
#include "request/consumers.def"
#undef HIDES_QUEUE
    return hides;
}

bool
dls_request_moves_itself(const dls_request *request)
{
    int32_t wanted = request->want.device.device_type;
    bool moves = false;
#define MOVES_ITSELF(must, must_not, device_question, device_type, who) \
    moves |= wanted == (device_type)                                    \
             && asks_so(request, must, must_not, device_question);
#include "request/consumers.def"
#undef MOVES_ITSELF
    return moves;
}

/* --- the full reading -------------------------------------------------------- */

/* DLS_ASKED_*: the values tell apart consumers that pass the same keywords (N9). */
static unsigned
judge_values(dls_state *state, PyObject *const *values, const dls_seen_keywords *seen)
{
    unsigned asked = 0;
    for (int i = 0; i < seen->count; i++) {
        asked |= values[i] == Py_None ? DLS_ASKED_NONE : 0;
    }
    int at = seen->at[DLS_KW_VERSION];
    PyObject *version = at >= 0 ? values[at] : Py_None;
    bool place = seen->at[DLS_KW_DEVICE] >= 0
                 && values[seen->at[DLS_KW_DEVICE]] != Py_None;
    asked |= place ? DLS_ASKED_PLACE : 0;
    asked |= version == state->asked_version ? DLS_ASKED_OURS : 0;
    bool pair = PyTuple_Check(version) && PyTuple_Size(version) == 2;
    return pair && PyTuple_GetItem(version, 1) == state->zero ? asked | DLS_ASKED_1_0
                                                              : asked;
}

/* The value of a keyword; None where it is not passed. */
static inline PyObject *
value_of(PyObject *const *values, const dls_seen_keywords *seen, dls_keyword keyword)
{
    return seen->at[keyword] >= 0 ? values[seen->at[keyword]] : Py_None;
}

static int
parse_values(dls_state *state, PyObject *const *values, const dls_seen_keywords *seen,
             dls_request *request)
{
    request->who.asked_with |= seen->mask | judge_values(state, values, seen);
    request->streams.said |= (seen->mask & DLS_ASK_STREAM) != 0;
    PyObject *copy = value_of(values, seen, DLS_KW_COPY);
    if (dls_request_version(state, value_of(values, seen, DLS_KW_VERSION), request) < 0
        || dls_request_stream(state, value_of(values, seen, DLS_KW_STREAM), request) < 0
        || dls_request_device(state, "dl_device", value_of(values, seen, DLS_KW_DEVICE),
                              request)
               < 0) {
        return -1;
    }
    return copy != Py_None ? dls_request_copy(state, copy, request) : 0;
}

/* stream= by position.  0, or -1 with an exception. */
static int
parse_positional(dls_state *state, PyObject *value, unsigned keywords,
                 dls_request *request)
{
    if (keywords & DLS_ASK_STREAM) {
        PyErr_Format(PyExc_TypeError, "__dlpack__() got multiple values for 'stream'");
        return -1;
    }
    request->who.asked_with |= DLS_ASK_STREAM;
    request->streams.said = true;
    return dls_request_stream(state, value, request);
}

int
dls_request_parse(dls_state *state, PyObject *const *args, Py_ssize_t n,
                  PyObject *kwnames, DLS_ATOMIC(unsigned long) * asked,
                  dls_request *request)
{
    assert(request->streams.seen
           == &request->streams.read); /* after dls_request_init */
    dls_seen_keywords seen = {0};
    if (n > 1) {
        PyErr_Format(PyExc_TypeError,
                     "__dlpack__() takes at most 1 positional argument (%zd given)", n);
        return -1;
    }
    if ((kwnames != NULL && find_keywords(state, kwnames, &seen) < 0)
        || (n != 0 && parse_positional(state, args[0], seen.mask, request) < 0)) {
        return -1;
    }
    if (kwnames != NULL && parse_values(state, args + n, &seen, request) < 0) {
        return -1;
    }
    request->who.device_question = dls_question_use(asked);
    request->streams.hides_queue = hides_queue(request);
    return 0;
}

/* --- the usual reading ------------------------------------------------------- */

dls_usual
dls_request_usual_copy(dls_state *state, PyObject *const *values,
                       const dls_seen_keywords *seen)
{
    bool versioned = false;
    const int copy_at = seen->at[DLS_KW_COPY];
    if (copy_at < 0 || values[copy_at] != Py_True) {
        return DLS_READ_IN_FULL;
    }
    for (int i = 0; i < seen->count; i++) {
        if (i != copy_at
            && !dls_request_is_usual(state, values[i], i == seen->at[DLS_KW_VERSION],
                                     i == seen->at[DLS_KW_STREAM], &versioned)) {
            return DLS_READ_IN_FULL;
        }
    }
    return versioned ? DLS_WANTS_VERSIONED_COPY : DLS_WANTS_LEGACY_COPY;
}

bool
dls_request_is_version_one(dls_state *state, PyObject *value)
{
    /* Ours, which a producer passes on: the consumer's stays remembered. */
    if (value == state->asked_version) {
        return true;
    }
    if (!Py_IS_TYPE(value, &PyTuple_Type) || PyTuple_Size(value) != 2
        || PyTuple_GetItem(value, 0) != state->one) {
        return false;
    }
    PyObject *minor = PyTuple_GetItem(value, 1);
    if (minor != state->zero
        && (!Py_IS_TYPE(minor, &PyLong_Type)
            || PyLong_AsUnsignedLongLong(minor) > UINT16_MAX)) {
        PyErr_Clear(); /* a negative one: the full reading raises for it */
        return false;
    }
    if (dls_memo_wants_version()) {
        remember_version(state, value, true);
    }
    return true;
}

dls_usual
dls_request_usual_anew(dls_state *state, PyObject *const *values, PyObject *kwnames)
{
    dls_seen_keywords seen;
    if (read_keywords(state, kwnames, &seen) < 0) {
        PyErr_Clear(); /* the full reading raises it again */
        return DLS_READ_IN_FULL;
    }
    if (dls_memo_wants_keywords()) {
        dls_memo_set_keywords(&state->memo, &seen);
    }
    return dls_request_usual_values(state, values, &seen);
}

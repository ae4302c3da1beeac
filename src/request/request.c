#include "request/request.h"

#include <limits.h>

#include "core/device.h"
#include "exchange/device_question.h"
#include "python/errors.h"
#include "sync/transfer.h"

void
dls_request_init(dls_request *request, const dls_options *options)
{
    *request = (dls_request){.options = options};
    request->want.copy = -1;
    request->want.seen = &request->seen;
}

static int
raise_version(dls_state *state, PyObject *value)
{
    PyErr_Clear();
    dls_raise(state, DLS_ETYPE, NULL,
              "max_version must be None or a pair of ints such as (1, 0), not %R",
              value);
    return -1;
}

/* Item i of a pair as a non-negative int, -1 when it is none. */
static long
version_part(PyObject *pair, Py_ssize_t i)
{
    PyObject *number = PyNumber_Index(PyTuple_GetItem(pair, i));
    if (number == NULL) {
        return -1;
    }
    int overflow;
    long value = PyLong_AsLongAndOverflow(number, &overflow);
    Py_DECREF(number);
    return overflow > 0 ? LONG_MAX : value;
}

/* Most consumers pass the same constant tuples each time, and what those mean is
 * remembered; some make new ones (f(**dict)): so only one in so many takes another's
 * place. */
#define REMEMBER_EVERY 8

static void
remember_version(dls_state *state, PyObject *value, bool versioned)
{
    if (!Py_IS_TYPE(value, &PyTuple_Type)
        || !Py_IS_TYPE(PyTuple_GetItem(value, 0), &PyLong_Type)
        || !Py_IS_TYPE(PyTuple_GetItem(value, 1), &PyLong_Type)) {
        return;
    }
    PyObject *before = state->seen_version;
    Py_INCREF(value);
    state->seen_version = value;
    state->seen_versioned = versioned;
    Py_XDECREF(before);
}

DLS_COLD static int
parse_version(dls_state *state, PyObject *value, bool *versioned)
{
    PyObject *pair = NULL;
    if (PyTuple_Check(value)) {
        Py_INCREF(value);
        pair = value;
    }
    else if (PySequence_Check(value) && !PyUnicode_Check(value)
             && !PyBytes_Check(value)) {
        pair = PySequence_Tuple(value);
    }
    long major = -1, minor = -1;
    if (pair != NULL && PyTuple_Size(pair) == 2) {
        major = version_part(pair, 0);
        minor = major >= 0 ? version_part(pair, 1) : -1;
    }
    Py_XDECREF(pair);
    if (major < 0 || minor < 0) {
        return dls_error_is_fatal() ? -1 : raise_version(state, value);
    }
    *versioned = major >= 1;
    remember_version(state, value, *versioned);
    return 0;
}

int
dls_request_version(dls_state *state, PyObject *value, dls_request *request)
{
    if (value == state->seen_version) {
        request->want.versioned = state->seen_versioned;
        return 0;
    }
    return value == Py_None ? 0 : parse_version(state, value, &request->want.versioned);
}

DLS_APART int
dls_request_device(dls_state *state, const char *keyword, PyObject *value,
                   dls_request *request)
{
    if (value == Py_None) {
        return 0;
    }
    if (dls_parse_device(state, keyword, value, &request->want.device) < 0) {
        return -1;
    }
    request->want.has_device = true;
    return 0;
}

int
dls_request_copy(dls_state *state, PyObject *value, dls_request *request)
{
    if (!PyBool_Check(value) && PyNumber_Check(value)) {
        int yes = PyObject_IsTrue(
            value); /* NumPy's bools; consumers pass on what they got */
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
    request->want.stream = value;
    return 0;
}

DLS_APART int
dls_request_options(dls_state *state, PyObject *source, dls_request *request)
{
    const dls_options *o = request->options;
    dls_want *want = &request->want;
    if (dls_option_given(o, DLS_OPTION_stream)) {
        want->stream = o->stream != Py_None ? o->stream : NULL;
    }
    if (dls_option_given(o, DLS_OPTION_producer_stream)) {
        want->producer_stream = o->producer_stream;
        want->ask_device = true; /* pinned memory is ordered only then */
    }
    want->host_reads |= dls_option_given(o, DLS_OPTION_order)
                        || dls_option_given(o, DLS_OPTION_align)
                        || dls_option_given(o, DLS_OPTION_legacy_readonly);
    if (dls_option_given(o, DLS_OPTION_unknown_stream)) {
        want->unknown_stream = o->unknown_stream;
    }
    if (dls_option_given(o, DLS_OPTION_assume_device)) {
        want->has_assumed = true;
        want->assumed = o->assume_device;
    }
    if (dls_option_given(o, DLS_OPTION_device) && !want->has_device) {
        want->has_device = true;
        want->device = o->device;
    }
    if (dls_option_given(o, DLS_OPTION_copy)) {
        if (want->copy >= 0 && want->copy != o->copy) {
            dls_raise(
                state, DLS_ECOPY, source,
                "the consumer asks for copy=%s, upgrade was told copy=%s; drop one",
                want->copy ? "True" : "False", o->copy ? "True" : "False");
            return -1;
        }
        want->copy = o->copy;
    }
    return 0;
}

/* Of a name that is not the interned one. */
DLS_APART static int
strange_keyword_bit(dls_state *state, PyObject *name)
{
    PyObject *known[] = {state->names.stream, state->names.max_version,
                         state->names.dl_device, state->names.copy};
    for (int bit = 0; bit < 4; bit++) {
        if (PyUnicode_Compare(name, known[bit]) == 0) {
            return bit;
        }
    }
    return -1;
}

/* Bit of a keyword of __dlpack__ (the order of DLS_ASK_*), -1 for any other.  Names in
 * calls are interned. */
static inline int
keyword_bit(dls_state *state, PyObject *name)
{
    return name == state->names.max_version ? 1
           : name == state->names.stream    ? 0
           : name == state->names.dl_device ? 2
           : name == state->names.copy      ? 3
                                            : strange_keyword_bit(state, name);
}

/* Read a kwnames tuple into *seen.  0, or -1 with TypeError. */
static int
read_keywords(dls_state *state, PyObject *kwnames, dls_seen_keywords *seen)
{
    Py_ssize_t n = PyTuple_Size(kwnames);
    *seen = (dls_seen_keywords){.kwnames = kwnames, .at = {-1, -1, -1, -1}};
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *name = PyTuple_GetItem(kwnames, i);
        int bit = keyword_bit(state, name);
        if (bit < 0) {
            if (PyErr_Occurred() == NULL) {
                PyErr_Format(PyExc_TypeError,
                             "__dlpack__() got an unexpected keyword argument %R",
                             name);
            }
            return -1;
        }
        seen->at[bit] = (int8_t)i;
        seen->mask |= (uint8_t)(1 << bit);
        seen->count++;
    }
    return 0;
}

static size_t
place_of(const PyObject *kwnames)
{
    return (size_t)((uintptr_t)kwnames >> 5) % DLS_SEEN_KEYWORDS;
}

/* Of a tuple that is not remembered, but will be. */
static int
remember_keywords(dls_state *state, PyObject *kwnames, dls_seen_keywords *seen)
{
    if (read_keywords(state, kwnames, seen) < 0) {
        return -1;
    }
    dls_seen_keywords *place = &state->seen_keywords[place_of(kwnames)];
    PyObject *before = place->kwnames;
    Py_INCREF(kwnames);
    *place = *seen;
    Py_XDECREF(before);
    return 0;
}

/* A copy: reading the values may run code that exports, and the place is reused. */
static int
find_keywords(dls_state *state, PyObject *kwnames, dls_seen_keywords *seen)
{
    const dls_seen_keywords *place = &state->seen_keywords[place_of(kwnames)];
    if (place->kwnames == kwnames) {
        *seen = *place;
        return 0;
    }
    return place->kwnames == NULL ? remember_keywords(state, kwnames, seen)
                                  : read_keywords(state, kwnames, seen);
}

/* DLS_ASKED_*: who passes such values is told from others with the same keywords. */
static unsigned
judge_values(dls_state *state, PyObject *const *values, const dls_seen_keywords *seen)
{
    unsigned asked = 0;
    for (int i = 0; i < seen->count; i++) {
        asked |= values[i] == Py_None ? DLS_ASKED_NONE : 0;
    }
    PyObject *version = seen->at[1] >= 0 ? values[seen->at[1]] : Py_None;
    bool pair = PyTuple_Check(version) && PyTuple_Size(version) == 2;
    return pair && PyTuple_GetItem(version, 1) == state->zero ? asked | DLS_ASKED_1_0
                                                              : asked;
}

/* The values other than None; the rare ones out of line. */
static int
parse_values(dls_state *state, PyObject *const *values, const dls_seen_keywords *seen,
             dls_request *request)
{
    const int8_t *at = seen->at;
    request->asked_with |= seen->mask | judge_values(state, values, seen);
#define GIVEN(bit) (at[bit] >= 0 && values[at[bit]] != Py_None)
    if (GIVEN(1) && dls_request_version(state, values[at[1]], request) < 0) {
        return -1;
    }
    if (GIVEN(0) && dls_request_stream(state, values[at[0]], request) < 0) {
        return -1;
    }
    if (GIVEN(2)
        && dls_request_device(state, "dl_device", values[at[2]], request) < 0) {
        return -1;
    }
    return GIVEN(3) ? dls_request_copy(state, values[at[3]], request) : 0;
#undef GIVEN
}

DLS_COLD static int
parse_positional(dls_state *state, PyObject *const *args, Py_ssize_t n,
                 PyObject *kwnames, dls_request *request)
{
    if (n > 1) {
        PyErr_Format(PyExc_TypeError,
                     "__dlpack__() takes at most 1 positional argument (%zd given)", n);
        return -1;
    }
    dls_seen_keywords seen = {0};
    if (kwnames != NULL && read_keywords(state, kwnames, &seen) < 0) {
        return -1;
    }
    if (seen.mask & DLS_ASK_STREAM) {
        PyErr_SetString(PyExc_TypeError,
                        "__dlpack__() got multiple values for 'stream'");
        return -1;
    }
    request->asked_with |= DLS_ASK_STREAM;
    return dls_request_stream(state, args[0], request);
}

int
dls_request_parse(dls_state *state, PyObject *const *args, Py_ssize_t n,
                  PyObject *kwnames, dls_request *request)
{
    if (n != 0 && parse_positional(state, args, n, kwnames, request) < 0) {
        return -1;
    }
    if (kwnames == NULL) {
        return 0;
    }
    dls_seen_keywords seen;
    if (find_keywords(state, kwnames, &seen) < 0) {
        return -1;
    }
    return parse_values(state, args + n, &seen, request);
}

/* (1, n) in a tuple that is not remembered. */
DLS_APART static bool
is_version_one(dls_state *state, PyObject *value)
{
    if (!Py_IS_TYPE(value, &PyTuple_Type) || PyTuple_Size(value) != 2
        || PyTuple_GetItem(value, 0) != state->one) {
        return false;
    }
    PyObject *minor = PyTuple_GetItem(value, 1);
    if (minor != state->zero
        && (!Py_IS_TYPE(minor, &PyLong_Type) || PyLong_AsSize_t(minor) > UINT16_MAX)) {
        PyErr_Clear(); /* a negative one; the careful road says so */
        return false;
    }
    if (++state->new_versions % REMEMBER_EVERY == 0) {
        remember_version(state, value, true);
    }
    return true;
}

/* Does the value of this keyword ask for nothing but a flavour? */
static inline bool
is_usual_value(dls_state *state, PyObject *value, bool is_version, bool is_stream,
               bool *versioned)
{
    if (value == Py_None) {
        return true;
    }
    if (!is_version) {
        return is_stream && value == state->minus_one;
    }
    bool seen = value == state->seen_version;
    *versioned = seen ? state->seen_versioned : is_version_one(state, value);
    return seen || *versioned;
}

/* With keywords in a tuple that is not remembered (f(**dict) makes a new one each
 * time). */
DLS_APART static bool
is_usual_anew(dls_state *state, PyObject *const *values, PyObject *kwnames,
              bool *versioned)
{
    dls_seen_keywords seen;
    if (++state->new_keywords % REMEMBER_EVERY == 0
        && remember_keywords(state, kwnames, &seen) < 0) {
        PyErr_Clear(); /* the careful road says it */
        return false;
    }
    Py_ssize_t n = PyTuple_Size(kwnames);
    for (Py_ssize_t i = 0; i < n; i++) {
        int bit = keyword_bit(state, PyTuple_GetItem(kwnames, i));
        if (bit < 0) {
            PyErr_Clear();
            return false;
        }
        if (!is_usual_value(state, values[i], bit == 1, bit == 0, versioned)) {
            return false;
        }
    }
    return true;
}

bool
dls_request_is_usual(dls_state *state, PyObject *const *args, Py_ssize_t n,
                     PyObject *kwnames, bool *versioned)
{
    *versioned = false;
    if (DLS_RARE(n != 0)) {
        return false;
    }
    if (kwnames == NULL) {
        return true;
    }
    const dls_seen_keywords *seen = &state->seen_keywords[place_of(kwnames)];
    if (seen->kwnames != kwnames) {
        return is_usual_anew(state, args, kwnames, versioned);
    }
    int stream_at = seen->at[0], version_at = seen->at[1], count = seen->count;
    for (int i = 0; i < count; i++) {
        if (!is_usual_value(state, args[i], i == version_at, i == stream_at,
                            versioned)) {
            return false;
        }
    }
    return true;
}

static const struct {
    unsigned must;
    unsigned must_not;
    int device_question;
    bool bears;
    const char *who;
} askers[] = {
#define ASKER(must, must_not, device_question, bears, who) \
    {must, must_not, device_question, bears, who},
#include "request/consumers.def"
#undef ASKER
};
#define ASKERS (sizeof askers / sizeof *askers)

DLS_COLD bool
dls_request_bears_negative(const dls_request *request)
{
    if (request->bears_anything) {
        return true;
    }
    for (size_t i = 0; i < ASKERS; i++) {
        if ((request->asked_with & askers[i].must) == askers[i].must
            && (request->asked_with & askers[i].must_not) == 0
            && (askers[i].device_question < 0
                || askers[i].device_question == request->device_question)) {
            return askers[i].bears;
        }
    }
    return false;
}

PyObject *
dls_request_askers(void)
{
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list != NULL && i < ASKERS; i++) {
        PyObject *row = Py_BuildValue("{s:I,s:I,s:i,s:i,s:s}", "must", askers[i].must,
                                      "must_not", askers[i].must_not, "device_question",
                                      askers[i].device_question, "bears_negative",
                                      (int)askers[i].bears, "who", askers[i].who);
        if (row == NULL || PyList_Append(list, row) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(row);
    }
    return list;
}

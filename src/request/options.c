#include "request/options.h"

#include <string.h>

#include "core/alloc.h"
#include "core/device.h"
#include "core/dtype.h"
#include "exchange/device_question.h"
#include "python/errors.h"
#include "sync/transfer.h"

/* --- one parser an option: 1 = given, 0 = the default was passed, -1 = exception ---
 */

typedef int (*option_parser)(dls_state *state, PyObject *value, dls_options *options);

int
dls_parse_copy(dls_state *state, PyObject *value, int8_t *copy)
{
    if (value == Py_None) {
        *copy = -1;
    }
    else if (PyBool_Check(value)) {
        *copy = value == Py_True;
    }
    else {
        dls_raise(state, DLS_ETYPE, NULL, "copy must be None, True or False, not %R",
                  value);
        return -1;
    }
    return 0;
}

int
dls_parse_device(dls_state *state, const char *what, PyObject *value, dl_device *device)
{
    if (PyUnicode_Check(value)) {
        const char *text = PyUnicode_AsUTF8AndSize(value, NULL);
        if (text == NULL) {
            return -1;
        }
        if (!dls_device_from_name(text, device)) {
            dls_raise(state, DLS_EVALUE, NULL,
                      "%s=%R is not known: pass \"cpu\", \"cuda:0\", \"rocm:0\", "
                      "\"oneapi:0\" or a (device_type, device_id) pair",
                      what, value);
            return -1;
        }
        return 0;
    }
    int got = dls_device_from_pair(state, value, true, device);
    if (got < 0) {
        return -1;
    }
    if (got == 0) {
        dls_raise(
            state, DLS_ETYPE, NULL,
            "%s must be a (device_type, device_id) pair of ints or a name such as "
            "\"cpu\", not %R",
            what, value);
        return -1;
    }
    return 0;
}

static int
parse_bool(dls_state *state, const char *what, PyObject *value, int8_t *out)
{
    if (!PyBool_Check(value)) {
        dls_raise(state, DLS_ETYPE, NULL, "%s must be True or False, not %R", what,
                  value);
        return -1;
    }
    *out = value == Py_True;
    return 1;
}

/* Position of a str in a NULL-terminated list. */
static int
parse_word(dls_state *state, const char *what, PyObject *value,
           const char *const *words, const char *allowed, uint8_t *out)
{
    for (uint8_t i = 0; PyUnicode_Check(value) && words[i] != NULL; i++) {
        if (PyUnicode_CompareWithASCIIString(value, words[i]) == 0) {
            *out = i;
            return 1;
        }
    }
    dls_raise(state, PyUnicode_Check(value) ? DLS_EVALUE : DLS_ETYPE, NULL,
              "%s=%R is not known: pass %s", what, value, allowed);
    return -1;
}

static int
parse_stream(dls_state *state, PyObject *value, dls_options *options)
{
    if (value == Py_Ellipsis) {
        return 0;
    }
    if (dls_stream_check(state, value) < 0) {
        return -1;
    }
    Py_INCREF(value);
    Py_XDECREF(options->stream); /* a keyword given twice, by str subclasses */
    options->stream = value;
    return 1;
}

static int
parse_producer_stream(dls_state *state, PyObject *value, dls_options *options)
{
    if (value == Py_None) {
        return 0;
    }
    if (dls_stream_check(state, value) < 0) {
        return -1;
    }
    Py_INCREF(value);
    Py_XDECREF(options->producer_stream);
    options->producer_stream = value;
    return 1;
}

static int
parse_unknown_stream(dls_state *state, PyObject *value, dls_options *options)
{
    static const char *const words[] = {"auto", "legacy", "same", "error", NULL};
    return parse_word(state, "unknown_stream", value, words,
                      "\"auto\", \"legacy\", \"same\" or \"error\"",
                      &options->unknown_stream);
}

static int
parse_device(dls_state *state, PyObject *value, dls_options *options)
{
    if (value == Py_None) {
        return 0;
    }
    return dls_parse_device(state, "device", value, &options->device) < 0 ? -1 : 1;
}

static int
parse_assume_device(dls_state *state, PyObject *value, dls_options *options)
{
    if (value == Py_None) {
        return 0;
    }
    return dls_parse_device(state, "assume_device", value, &options->assume_device) < 0
               ? -1
               : 1;
}

static int
parse_copy(dls_state *state, PyObject *value, dls_options *options)
{
    if (dls_parse_copy(state, value, &options->copy) < 0) {
        return -1;
    }
    return options->copy >= 0;
}

static int
parse_readonly(dls_state *state, PyObject *value, dls_options *options)
{
    return value == Py_None ? 0
                            : parse_bool(state, "readonly", value, &options->readonly);
}

static int
parse_legacy_readonly(dls_state *state, PyObject *value, dls_options *options)
{
    static const char *const words[] = {"error", "strip", "copy", NULL};
    return parse_word(state, "legacy_readonly", value, words,
                      "\"error\", \"strip\" or \"copy\"", &options->legacy_readonly);
}

static int
parse_order(dls_state *state, PyObject *value, dls_options *options)
{
    static const char *const words[] = {"", "K", "C", NULL};
    if (value == Py_None) {
        return 0;
    }
    int got = parse_word(state, "order", value, words, "None, \"K\" or \"C\"",
                         &options->order);
    if (got > 0 && options->order == DLS_ORDER_NONE) {
        dls_raise(state, DLS_EVALUE, NULL,
                  "order='' is not known: pass None, \"K\" or \"C\"");
        return -1;
    }
    return got;
}

static int
parse_align(dls_state *state, PyObject *value, dls_options *options)
{
    if (value == Py_None) {
        return 0;
    }
    if (PyBool_Check(value) || !PyIndex_Check(value)) {
        dls_raise(state, DLS_ETYPE, NULL, "align must be an int (bytes), not %R",
                  value);
        return -1;
    }
    PyObject *number = PyNumber_Index(value);
    int overflow = 0;
    long long bytes = number != NULL ? PyLong_AsLongLongAndOverflow(number, &overflow)
                                     : -1;
    Py_XDECREF(number);
    if (number == NULL) {
        return -1;
    }
    if (overflow != 0 || bytes < 1 || bytes > 1 << 30 || (bytes & (bytes - 1)) != 0) {
        dls_raise(state, DLS_EVALUE, NULL,
                  "align=%R must be a power of two between 1 and 2**30 bytes", value);
        return -1;
    }
    options->align = bytes;
    return 1;
}

/* (code, bits[, lanes]) */
static int
dtype_from_tuple(PyObject *value, dl_dtype *dtype)
{
    long parts[3] = {0, 0, 1};
    Py_ssize_t n = PyTuple_Check(value) ? PyTuple_Size(value) : 0;
    if (n != 2 && n != 3) {
        return 0;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *number = PyNumber_Index(PyTuple_GetItem(value, i));
        parts[i] = number != NULL ? PyLong_AsLong(number) : -1;
        Py_XDECREF(number);
        if (dls_error_is_fatal()) {
            return -1;
        }
        PyErr_Clear();
    }
    if (parts[0] < 0 || parts[0] >= DLS_DTYPE_UNKNOWN || parts[1] < 1 || parts[1] > 255
        || parts[2] < 1 || parts[2] > 65535) {
        return 0;
    }
    *dtype = (dl_dtype){(uint8_t)parts[0], (uint8_t)parts[1], (uint16_t)parts[2]};
    return 1;
}

static int
parse_reinterpret(dls_state *state, PyObject *value, dls_options *options)
{
    int got = 0;
    if (value == Py_None) {
        return 0;
    }
    if (PyUnicode_Check(value)) {
        const char *text = PyUnicode_AsUTF8AndSize(value, NULL);
        if (text == NULL) {
            return -1;
        }
        got = dls_dtype_from_name(text, &options->reinterpret);
    }
    else {
        got = dtype_from_tuple(value, &options->reinterpret);
    }
    if (got < 0) {
        return -1;
    }
    if (got == 0) {
        dls_raise(state,
                  PyUnicode_Check(value) || PyTuple_Check(value) ? DLS_EVALUE
                                                                 : DLS_ETYPE,
                  NULL,
                  "reinterpret=%R names no dtype: pass a name such as \"uint16\" or "
                  "\"bfloat16\", or (code, bits, lanes)",
                  value);
        return -1;
    }
    return 1;
}

static int
parse_detach(dls_state *state, PyObject *value, dls_options *options)
{
    int8_t detach = 0;
    if (parse_bool(state, "detach", value, &detach) < 0) {
        return -1;
    }
    options->detach = detach;
    return 1;
}

static int
parse_on_release(dls_state *state, PyObject *value, dls_options *options)
{
    static const char *const words[] = {"contract", "guard", NULL};
    return parse_word(state, "on_release", value, words, "\"contract\" or \"guard\"",
                      &options->on_release);
}

static const struct {
    const char *keyword;
    option_parser parse;
} parsers[DLS_OPTION_COUNT] = {
#define PARSER(name) [DLS_OPTION_##name] = {#name, parse_##name},
    DLS_OPTION_LIST(PARSER)
#undef PARSER
};

/* --- all of them --------------------------------------------------------------- */

static PyObject *
option_name(dls_state *state, int option)
{
    PyObject *names[DLS_OPTION_COUNT] = {
#define NAME(name) state->names.name,
        DLS_OPTION_LIST(NAME)
#undef NAME
    };
    return names[option];
}

/* Interned keywords compare by pointer; others by text. */
static int
option_of(dls_state *state, PyObject *name)
{
    for (int i = 0; i < DLS_OPTION_COUNT; i++) {
        if (name == option_name(state, i)) {
            return i;
        }
    }
    for (int i = 0; i < DLS_OPTION_COUNT; i++) {
        if (PyUnicode_CompareWithASCIIString(name, parsers[i].keyword) == 0) {
            return i;
        }
    }
    return -1;
}

int
dls_options_parse(dls_state *state, const char *function, PyObject *names,
                  PyObject *const *values, dls_options **result)
{
    dls_options parsed = {0};
    Py_ssize_t n = names != NULL ? PyTuple_Size(names) : 0;
    *result = NULL;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *name = PyTuple_GetItem(names, i);
        int option = option_of(state, name);
        if (option < 0) {
            PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument %R",
                         function, name);
            goto fail;
        }
        int got = parsers[option].parse(state, values[i], &parsed);
        if (got < 0) {
            goto fail;
        }
        parsed.given |= (uint32_t)got << option;
    }
    if (parsed.given == 0) {
        return 0;
    }
    *result = dls_alloc(sizeof parsed);
    if (*result == NULL) {
        PyErr_NoMemory();
        goto fail;
    }
    **result = parsed;
    return 0;
fail:
    Py_XDECREF(parsed.stream);
    Py_XDECREF(parsed.producer_stream);
    return -1;
}

int
dls_options_merge(const dls_options *inner, const dls_options *outer,
                  dls_options **result)
{
    dls_options merged = inner != NULL ? *inner : (dls_options){0};
    *result = NULL;
    if (outer != NULL) {
#define TAKE(name)                               \
    if (outer->given >> DLS_OPTION_##name & 1) { \
        merged.name = outer->name;               \
    }
        DLS_OPTION_LIST(TAKE)
#undef TAKE
        merged.given |= outer->given;
    }
    if (merged.given == 0) {
        return 0;
    }
    *result = dls_alloc(sizeof merged);
    if (*result == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    Py_XINCREF(merged.stream);
    Py_XINCREF(merged.producer_stream);
    **result = merged;
    return 0;
}

void
dls_options_free(dls_options *options)
{
    if (options != NULL) {
        PyObject *stream = options->stream, *producer = options->producer_stream;
        dls_free(options);
        Py_XDECREF(stream);
        Py_XDECREF(producer);
    }
}

int
dls_options_visit(const dls_options *options, visitproc visit, void *arg)
{
    if (options != NULL) {
        Py_VISIT(options->stream);
        Py_VISIT(options->producer_stream);
    }
    return 0;
}

/* --- repr ------------------------------------------------------------------------ */

static PyObject *
repr_of(const dls_options *o, dls_option option)
{
    static const char *const policies[] = {"error", "strip", "copy"};
    static const char *const unknown[] = {"auto", "legacy", "same", "error"};
    char text[48];
    switch (option) {
    case DLS_OPTION_stream:
        return PyUnicode_FromFormat(", stream=%R", o->stream);
    case DLS_OPTION_producer_stream:
        return PyUnicode_FromFormat(", producer_stream=%R", o->producer_stream);
    case DLS_OPTION_unknown_stream:
        return PyUnicode_FromFormat(", unknown_stream='%s'",
                                    unknown[o->unknown_stream]);
    case DLS_OPTION_device:
        return PyUnicode_FromFormat(", device=(%d, %d)", (int)o->device.device_type,
                                    (int)o->device.device_id);
    case DLS_OPTION_copy:
        return PyUnicode_FromFormat(", copy=%s", o->copy ? "True" : "False");
    case DLS_OPTION_readonly:
        return PyUnicode_FromFormat(", readonly=%s", o->readonly ? "True" : "False");
    case DLS_OPTION_legacy_readonly:
        return PyUnicode_FromFormat(", legacy_readonly='%s'",
                                    policies[o->legacy_readonly]);
    case DLS_OPTION_order:
        return PyUnicode_FromFormat(", order='%s'",
                                    o->order == DLS_ORDER_K ? "K" : "C");
    case DLS_OPTION_align:
        return PyUnicode_FromFormat(", align=%zd", (Py_ssize_t)o->align);
    case DLS_OPTION_reinterpret:
        return PyUnicode_FromFormat(", reinterpret='%s'",
                                    dls_dtype_name(o->reinterpret, text, sizeof text));
    case DLS_OPTION_assume_device:
        return PyUnicode_FromFormat(", assume_device=(%d, %d)",
                                    (int)o->assume_device.device_type,
                                    (int)o->assume_device.device_id);
    case DLS_OPTION_on_release:
        return PyUnicode_FromFormat(", on_release='%s'",
                                    o->on_release == DLS_RELEASE_GUARD ? "guard"
                                                                       : "contract");
    default:
        return PyUnicode_FromFormat(", detach=%s", o->detach ? "True" : "False");
    }
}

PyObject *
dls_options_repr(const dls_options *options)
{
    PyObject *text = PyUnicode_FromString("");
    for (int i = 0; text != NULL && i < DLS_OPTION_COUNT; i++) {
        if (dls_option_given(options, (dls_option)i)) {
            PyObject *one = repr_of(options, (dls_option)i);
            PyObject *longer = one != NULL ? PyUnicode_Concat(text, one) : NULL;
            Py_XDECREF(one);
            Py_DECREF(text);
            text = longer;
        }
    }
    return text;
}

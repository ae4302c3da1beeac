/* Parses, merges and shows the options of upgrade(), from_dlpack() and to_capsule(), by
 * the rows of request/options.def.  Called by public/functions and public/producer;
 * touches nothing but the options.
 * Tests: tests/core/test_options.py, tests/project/test_stub.py. */
#include "request/options.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "core/dtype.h"
#include "exchange/device_question.h"
#include "python/errors.h"
#include "python/state.h"
#include "sync/stream_value.h"
#include "types/library.h"
#include "types/plan_cache.h"

/* One row of options.def. */
typedef struct option_row option_row;
struct option_row {
    const char *name;
    int interned;         /* the name, in all_names of dls_state */
    const char *unset;    /* the default, as the signature says it */
    const char *words[5]; /* NULL behind the last */
    size_t at;            /* the member in dls_options */
    /* Reads a value into the member: 0, or -1 with an exception. */
    int (*parse)(dls_state *, const option_row *, PyObject *value, dls_options *);
    /* The member, which is given, as a new object for dls_options_dict. */
    PyObject *(*show)(const option_row *, const dls_options *);
};

static void *
member_of(const option_row *row, const dls_options *options)
{
    return (char *)options + row->at;
}

static bool
takes_none(const option_row *row)
{
    return strcmp(row->unset, "None") == 0;
}

/* --- kind word -------------------------------------------------------------- */

/* Position of a word of the row, -1: it is none of them. */
static int
word_position(const option_row *row, const char *text, size_t length)
{
    for (int i = 0; row->words[i] != NULL; i++) {
        if (strlen(row->words[i]) == length
            && memcmp(row->words[i], text, length) == 0) {
            return i;
        }
    }
    return -1;
}

/* The value is no word.  Always -1, with the exception of `code`.  others: the values
 * that are no words, for the message. */
static int
refuse_word(dls_state *state, const option_row *row, int code, const char *others,
            PyObject *value)
{
    char words[64];
    size_t at = 0;
    for (int i = 0; row->words[i] != NULL; i++) {
        const char *before = row->words[i + 1] == NULL ? " or " : ", ";
        at += (size_t)snprintf(words + at, sizeof words - at, "%s\"%s\"",
                               i > 0 ? before : "", row->words[i]);
        assert(at < sizeof words);
    }
    return dls_refuse(state, code, NULL,
                      "%s=%R is not known\n"
                      "  pass %s%s",
                      row->name, value, others, words);
}

/* Position of the word that `value` is, or -1 as refuse_word. */
static int
read_word(dls_state *state, const option_row *row, const char *others, PyObject *value)
{
    bool is_str = PyUnicode_Check(value);
    Py_ssize_t n = 0;
    const char *text = is_str ? PyUnicode_AsUTF8AndSize(value, &n) : NULL;
    if (is_str && text == NULL && dls_error_forget() < 0) {
        return -1;
    }
    int position = text != NULL ? word_position(row, text, (size_t)n) : -1;
    int code = is_str ? DLS_EVALUE : DLS_ETYPE;
    return position >= 0 ? position : refuse_word(state, row, code, others, value);
}

static int
parse_word(dls_state *state, const option_row *row, PyObject *value, dls_options *out)
{
    const char *others = takes_none(row) ? "None, " : "";
    int position = read_word(state, row, others, value);
    *(dls_option_word *)member_of(row, out) = (dls_option_word)position;
    return position < 0 ? -1 : 0;
}

static PyObject *
show_word(const option_row *row, const dls_options *options)
{
    return PyUnicode_FromString(
        row->words[*(const dls_option_word *)member_of(row, options)]);
}

/* --- kind stream ------------------------------------------------------------ */

static int
parse_stream(dls_state *state, const option_row *row, PyObject *value, dls_options *out)
{
    dls_option_stream *stream = member_of(row, out);
    bool is_word = row->words[0] != NULL && PyUnicode_Check(value);
    if (is_word && !dls_stream_is_wait(value)) {
        return refuse_word(state, row, DLS_ETYPE, "None, a stream, ", value);
    }
    if (!is_word && dls_stream_check(state, value) < 0) {
        return -1;
    }
    Py_XDECREF(*stream); /* set when subclasses of str give one keyword twice */
    *stream = Py_NewRef(value);
    return 0;
}

static PyObject *
show_stream(const option_row *row, const dls_options *options)
{
    return Py_NewRef(*(const dls_option_stream *)member_of(row, options));
}

/* --- kind readonly ---------------------------------------------------------- */

static int
parse_readonly(dls_state *state, const option_row *row, PyObject *value,
               dls_options *out)
{
    if (PyBool_Check(value)) {
        out->readonly = value == Py_True ? DLS_READONLY_TRUE : DLS_READONLY_FALSE;
        return 0;
    }
    int position = read_word(state, row, "True, False, ", value);
    out->readonly = (dls_readonly)(DLS_READONLY_ERROR + position);
    return position < 0 ? -1 : 0;
}

static PyObject *
show_readonly(const option_row *row, const dls_options *options)
{
    return options->readonly < DLS_READONLY_FALSE
               ? PyUnicode_FromString(
                     row->words[options->readonly - DLS_READONLY_ERROR])
               : PyBool_FromLong(options->readonly == DLS_READONLY_TRUE);
}

/* --- kind detach ------------------------------------------------------------ */

static int
parse_detach(dls_state *state, const option_row *row, PyObject *value, dls_options *out)
{
    if (PyBool_Check(value)) {
        out->detach = value == Py_True ? DLS_DETACH_YES : DLS_DETACH_NO;
        return 0;
    }
    int position = read_word(state, row, "True, False, ", value);
    out->detach = (dls_option_detach)(DLS_DETACH_AUTO + position);
    return position < 0 ? -1 : 0;
}

static PyObject *
show_detach(const option_row *row, const dls_options *options)
{
    return options->detach >= DLS_DETACH_AUTO
               ? PyUnicode_FromString(row->words[options->detach - DLS_DETACH_AUTO])
               : PyBool_FromLong(options->detach == DLS_DETACH_YES);
}

/* A str, or the str that an object of another library reads as: a new reference, None
 * if it reads as nothing. */
static PyObject *
name_of(dls_state *state, dls_python_module module, const char *function,
        PyObject *value)
{
    return PyUnicode_Check(value)
               ? Py_NewRef(value)
               : dls_in_python(state, module, function, value, NULL, 0, NULL);
}

/* --- kind device ------------------------------------------------------------ */

/* The name that it reads as: 1 = *device, 0 = it names none, -1 = an exception. */
static int
device_from_name(dls_state *state, PyObject *value, dl_device *device)
{
    PyObject *name = name_of(state, DLS_IN_ARRAYS, "device_name", value);
    bool is_str = name != NULL && PyUnicode_Check(name);
    const char *text = is_str ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
    int got = text != NULL             ? dls_device_from_name(text, device)
              : is_str || name == NULL ? -1
              : PyTuple_Check(name) ? dls_device_from_pair(state, name, false, device)
                                    : 0;
    Py_XDECREF(name);
    return got;
}

int
dls_parse_device(dls_state *state, const char *what, PyObject *value, dl_device *device)
{
    int got = dls_device_from_pair(state, value, true, device);
    if (got == 0) {
        got = device_from_name(state, value, device);
    }
    if (got == 0) {
        dls_refuse(state, PyUnicode_Check(value) ? DLS_EVALUE : DLS_ETYPE, NULL,
                   "%s=%R names no device\n"
                   "  pass \"cpu\", \"cuda:0\", \"rocm:0\", \"oneapi:0\" or a "
                   "(device_type, device_id) pair of ints",
                   what, value);
    }
    return got > 0 ? 0 : -1;
}

static int
parse_device(dls_state *state, const option_row *row, PyObject *value, dls_options *out)
{
    return dls_parse_device(state, row->name, value, member_of(row, out));
}

static PyObject *
show_device(const option_row *row, const dls_options *options)
{
    const dls_option_device *device = member_of(row, options);
    return Py_BuildValue("(ii)", (int)device->device_type, (int)device->device_id);
}

/* --- kind like -------------------------------------------------------------- */

/* The device of the array.  1 = *device, 0 = it does not say, -1 = an exception. */
static int
device_of_array(dls_state *state, const dls_plan *plan, PyObject *array,
                dl_device *device)
{
    if (plan->cpu_only || !(plan->offers & DLS_PROTOCOLS_OFF_HOST)) {
        *device = (dl_device){dl_kDLCPU, 0};
        return 1;
    }
    return plan->has_device ? dls_device_ask(state, plan, array, device) : 0;
}

/* An array that says where and by whose allocator: its device, and the C table of its
 * type.  Nothing of it is kept. */
static int
parse_like(dls_state *state, const option_row *row, PyObject *value, dls_options *out)
{
    dls_option_like *like = member_of(row, out);
    PyTypeObject *type = Py_TYPE(value);
    int got;
    *like = (dls_option_like){.table = NULL};
    if (PyType_IsSubtype(type, state->producer_type) || type == state->tensor_type) {
        got = dls_device_ask(state, state->tensor_plan, value, &like->device);
    }
    else {
        dls_plan *plan = dls_plan_find(state, value);
        if (plan == NULL) {
            return -1;
        }
        got = device_of_array(state, plan, value, &like->device);
        if (plan->table != NULL && plan->table->managed_tensor_allocator != NULL) {
            like->table = plan->table;
            like->tells_stream = !dls_plan_has(plan, DLS_LIB_NO_WORK_STREAM);
        }
        dls_plan_drop(plan);
    }
    if (got == 0) {
        dls_refuse(state, DLS_ETYPE, NULL,
                   "like=%R does not say on which device it lies\n"
                   "  pass device= instead",
                   type);
    }
    return got > 0 ? 0 : -1;
}

static PyObject *
show_like(const option_row *row, const dls_options *options)
{
    const dls_option_like *like = member_of(row, options);
    return Py_BuildValue("(ii)", (int)like->device.device_type,
                         (int)like->device.device_id);
}

/* device= and like= were both given.  0, or -1 with ValueError: they disagree. */
static int
check_like(dls_state *state, dl_device device, const dls_option_like *like)
{
    dl_device there = like->device;
    bool agree = device.device_type == there.device_type
                 && (device.device_id == there.device_id
                     || device.device_type == dl_kDLCPU);
    return agree ? 0
                 : dls_refuse(
                       state, DLS_EVALUE, NULL,
                       "device=(%d, %d) and like=, which lies on (%d, %d), disagree\n"
                       "  drop one",
                       (int)device.device_type, (int)device.device_id,
                       (int)there.device_type, (int)there.device_id);
}

static int
check_devices(dls_state *state, const dls_options *options)
{
    return dls_option_given(options, DLS_OPTION_device)
                   && dls_option_given(options, DLS_OPTION_like)
               ? check_like(state, options->device, &options->like)
               : 0;
}

bool
dls_options_device(const dls_options *options, dl_device *device)
{
    bool given = dls_option_given(options, DLS_OPTION_device);
    if (given || dls_option_given(options, DLS_OPTION_like)) {
        *device = given ? options->device : options->like.device;
        return true;
    }
    return false;
}

/* --- kind flag -------------------------------------------------------------- */

static int
parse_flag(dls_state *state, const option_row *row, PyObject *value, dls_options *out)
{
    if (!PyBool_Check(value)) {
        return dls_refuse(state, DLS_ETYPE, NULL, "%s must be %sTrue or False, not %R",
                          row->name, takes_none(row) ? "None, " : "", value);
    }
    *(dls_option_flag *)member_of(row, out) = value == Py_True;
    return 0;
}

static PyObject *
show_flag(const option_row *row, const dls_options *options)
{
    return PyBool_FromLong(*(const dls_option_flag *)member_of(row, options));
}

/* --- kind align ------------------------------------------------------------- */

static int
parse_align(dls_state *state, const option_row *row, PyObject *value, dls_options *out)
{
    if (PyBool_Check(value) || !PyIndex_Check(value)) {
        return dls_refuse(state, DLS_ETYPE, NULL, "%s must be an int (bytes), not %R",
                          row->name, value);
    }
    PyObject *number = PyNumber_Index(value);
    if (number == NULL) {
        return -1;
    }
    int overflow = 0;
    long long bytes = PyLong_AsLongLongAndOverflow(number, &overflow);
    Py_DECREF(number);
    if (overflow != 0 || bytes < 1 || bytes > 1 << 30 || (bytes & (bytes - 1)) != 0) {
        return dls_refuse(state, DLS_EVALUE, NULL,
                          "%s=%R must be a power of two between 1 and 2**30 bytes",
                          row->name, value);
    }
    *(dls_option_align *)member_of(row, out) = bytes;
    return 0;
}

static PyObject *
show_align(const option_row *row, const dls_options *options)
{
    return PyLong_FromLongLong(*(const dls_option_align *)member_of(row, options));
}

/* --- kind dtype ------------------------------------------------------------- */

/* (code, bits[, lanes]): 1 = *dtype, 0 = it names no dtype, -1 = an exception. */
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
        if (dls_error_forget() < 0) {
            return -1;
        }
    }
    if (parts[0] < 0 || parts[0] >= DLS_DTYPE_COMPLEX || parts[1] < 1 || parts[1] > 255
        || parts[2] < 1 || parts[2] > 65535) {
        return 0;
    }
    *dtype = (dl_dtype){(uint8_t)parts[0], (uint8_t)parts[1], (uint16_t)parts[2]};
    return 1;
}

/* The name that it reads as.  As dtype_from_tuple. */
static int
dtype_from_name(dls_state *state, PyObject *value, dl_dtype *dtype)
{
    PyObject *name = name_of(state, DLS_IN_DTYPES, "dtype_name", value);
    int got = name == NULL          ? -1
              : PyTuple_Check(name) ? dtype_from_tuple(name, dtype)
                                    : 0;
    if (name != NULL && PyUnicode_Check(name)) {
        const char *text = PyUnicode_AsUTF8AndSize(name, NULL);
        got = text != NULL ? dls_dtype_from_name(text, dtype) : -1;
    }
    Py_XDECREF(name);
    return got;
}

int
dls_parse_dtype(dls_state *state, const char *what, PyObject *value, dl_dtype *dtype)
{
    bool tuple = PyTuple_Check(value);
    int got = tuple ? dtype_from_tuple(value, dtype)
                    : dtype_from_name(state, value, dtype);
    if (got == 0) {
        dls_refuse(
            state, tuple || PyUnicode_Check(value) ? DLS_EVALUE : DLS_ETYPE, NULL,
            "%s=%R names no dtype\n"
            "  pass a name such as \"uint16\" or \"bfloat16\", or (code, bits, lanes)",
            what, value);
    }
    return got > 0 ? 0 : -1;
}

static int
parse_dtype(dls_state *state, const option_row *row, PyObject *value, dls_options *out)
{
    return dls_parse_dtype(state, row->name, value, member_of(row, out));
}

static PyObject *
show_dtype(const option_row *row, const dls_options *options)
{
    char text[48];
    return PyUnicode_FromString(dls_dtype_name(
        *(const dls_option_dtype *)member_of(row, options), text, sizeof text));
}

/* --- rows ------------------------------------------------------------------- */

static const option_row rows[] = {
#define OPTION(option, kind, default, ...) \
    {.name = #option,                      \
     .interned = DLS_NAME_INDEX_##option,  \
     .unset = #default,                    \
     .words = {__VA_ARGS__},               \
     .at = offsetof(dls_options, option),  \
     .parse = parse_##kind,                \
     .show = show_##kind},
#include "request/options.def"
#undef OPTION
};
static_assert(DLS_OPTION_COUNT <= 32, "dls_options.given has a bit for each");

int
dls_parse_copy(dls_state *state, PyObject *value, int8_t *copy)
{
    dls_options options = {.copy = false};
    int code = value != Py_None
                   ? parse_flag(state, &rows[DLS_OPTION_copy], value, &options)
                   : 0;
    *copy = value != Py_None ? options.copy : -1;
    return code;
}

/* --- options ---------------------------------------------------------------- */

/* The option that a keyword names, -1 for any other.  Keywords in calls are interned:
 * the pointers are compared first, then the texts. */
static int
option_of(dls_state *state, PyObject *name)
{
    for (int i = 0; i < DLS_OPTION_COUNT; i++) {
        if (name == state->all_names[rows[i].interned]) {
            return i;
        }
    }
    for (int i = 0; i < DLS_OPTION_COUNT; i++) {
        if (PyUnicode_CompareWithASCIIString(name, rows[i].name) == 0) {
            return i;
        }
    }
    return -1;
}

/* The default is the same as nothing. */
static bool
is_unset(int option, PyObject *value)
{
    return option == DLS_OPTION_stream ? dls_stream_is_auto(value)
                                       : value == Py_None && takes_none(&rows[option]);
}

static bool
is_idle(const dls_options *options)
{
    const uint32_t layout = 1u << DLS_OPTION_order | 1u << DLS_OPTION_align;
    const uint32_t readonly = 1u << DLS_OPTION_readonly;
    bool is_word = !(options->given & readonly)
                   || options->readonly < DLS_READONLY_FALSE;
    return (options->given & ~(layout | readonly)) == 0 && is_word;
}

/* A new copy that takes over the streams; NULL when nothing is given.  On failure the
 * streams stay the caller's. */
static int
allocate_options(const dls_options *options, dls_options **result)
{
    *result = NULL;
    if (options->given == 0) {
        return 0;
    }
    *result = dls_alloc(sizeof *options);
    if (*result == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    **result = *options;
    (*result)->idle = is_idle(options);
    return 0;
}

/* The keyword among `others`; NULL: it is none.  Names are compared as in option_of. */
static dls_keyword_value *
find_other(PyObject *name, dls_keyword_value *others, bool by_text)
{
    for (; others != NULL && others->name != NULL; others++) {
        if (name == others->name
            || (by_text && PyUnicode_Compare(name, others->name) == 0)) {
            return others;
        }
    }
    return NULL;
}

/* The TypeError names the option that was meant (shim/cures.py), or else the keyword.
 */
static int
refuse_keyword(dls_state *state, const char *function, PyObject *name)
{
    PyObject *text = dls_in_python_with(state, DLS_IN_CURES, "unknown_keyword", "(sO)",
                                        function, name);
    if (text != NULL) {
        PyErr_SetObject(PyExc_TypeError, text);
        Py_DECREF(text);
    }
    else if (dls_error_forget() == 0) {
        PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument %R",
                     function, name);
    }
    return -1;
}

static int
parse_keyword(dls_state *state, const char *function, PyObject *name, PyObject *value,
              dls_keyword_value *others, dls_options *options)
{
    dls_keyword_value *other = find_other(name, others, false);
    int option = other == NULL ? option_of(state, name) : -1;
    if (other == NULL && option < 0) {
        other = find_other(name, others, true);
    }
    if (other != NULL) {
        other->value = value;
        return 0;
    }
    if (option < 0) {
        return refuse_keyword(state, function, name);
    }
    if (is_unset(option, value)) {
        return 0;
    }
    options->given |= UINT32_C(1) << option;
    return rows[option].parse(state, &rows[option], value, options);
}

int
dls_options_parse(dls_state *state, const char *function, PyObject *names,
                  PyObject *const *values, dls_keyword_value *others,
                  dls_options **result)
{
    Py_ssize_t n = names != NULL ? PyTuple_Size(names) : 0;
    *result = NULL;
    if (n == 0) {
        return 0;
    }
    dls_options parsed = {0};
    int code = 0;
    for (Py_ssize_t i = 0; i < n && code == 0; i++) {
        PyObject *name = PyTuple_GetItem(names, i);
        code = parse_keyword(state, function, name, values[i], others, &parsed);
    }
    if (code < 0 || check_devices(state, &parsed) < 0
        || allocate_options(&parsed, result) < 0) {
        Py_XDECREF(parsed.stream);
        Py_XDECREF(parsed.producer_stream);
        return -1;
    }
    return 0;
}

int
dls_options_merge(dls_state *state, const dls_options *inner, const dls_options *outer,
                  dls_options **result)
{
    *result = NULL;
    dls_options merged = inner != NULL ? *inner : (dls_options){0};
#define OPTION(option, ...)                             \
    if (dls_option_given(outer, DLS_OPTION_##option)) { \
        merged.option = outer->option;                  \
    }
#include "request/options.def"
#undef OPTION
    merged.given |= outer != NULL ? outer->given : 0;
    if (check_devices(state, &merged) < 0 || allocate_options(&merged, result) < 0) {
        return -1;
    }
    Py_XINCREF(merged.stream);
    Py_XINCREF(merged.producer_stream);
    return 0;
}

void
dls_options_free(dls_options *options)
{
    if (options != NULL) {
        /* Dropping them may run any code. */
        PyObject *streams[] = {options->stream, options->producer_stream};
        dls_free(options);
        Py_XDECREF(streams[0]);
        Py_XDECREF(streams[1]);
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

PyObject *
dls_options_dict(const dls_options *options)
{
    PyObject *dict = PyDict_New();
    for (int i = 0; dict != NULL && i < DLS_OPTION_COUNT; i++) {
        if (!dls_option_given(options, (dls_option)i)) {
            continue;
        }
        PyObject *value = rows[i].show(&rows[i], options);
        if (value == NULL || PyDict_SetItemString(dict, rows[i].name, value) < 0) {
            Py_CLEAR(dict);
        }
        Py_XDECREF(value);
    }
    return dict;
}

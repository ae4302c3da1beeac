/* Judges types of Arrow: which are arrays, and which dtype and axes they have.
 * Called by arrow_array.c and arrow_stream.c, with the GIL.
 * Tests: tests/core/test_columns.py, test_columns_lies.py. */
#include "protocols/arrow.h"

#include <stdlib.h>
#include <string.h>

#include "core/dtype.h"
#include "core/tensor.h"
#include "python/errors.h"
#include "types/library.h"

#define LIST "+w:"   /* lists of fixed size; the number of items follows */
#define BINARY "w:"  /* bytes of fixed size; their number follows */
#define DECIMAL "d:" /* "d:19,10" or "d:19,10,64": digits, scale, bits (128) */

/* --- refusals ------------------------------------------------------------- */

int
dls_arrow_ask(const dls_reading *reading, const char *function)
{
    PyObject *answer = dls_in_python_with(reading->state, DLS_IN_COLUMNS, function,
                                          "(O)", reading->obj);
    int truth = answer != NULL ? PyObject_IsTrue(answer) : -1;
    Py_XDECREF(answer);
    return truth;
}

int
dls_arrow_refuse(dls_arrow_column *column, const char *text, const char *problem,
                 const char *name, long long number)
{
    dls_arrow_refusal *refusal = &column->refusal;
    refusal->text = text;
    refusal->problem = problem;
    refusal->number = number;
    size_t length = name != NULL ? strlen(name) : 0;
    if (length >= sizeof refusal->name) {
        length = sizeof refusal->name - 1;
    }
    if (length != 0) {
        memcpy(refusal->name, name, length);
    }
    refusal->name[length] = '\0';
    return -1;
}

int
dls_arrow_fail_released(const dls_reading *reading)
{
    return dls_reading_fail(
        reading, "a struct of it was released before\n"
                 "  the object was used up, or its producer has to be corrected");
}

/* Which of name and number a text has tells its '%'. */
static PyObject *
text_of(const dls_arrow_refusal *refusal)
{
    if (strstr(refusal->text, "%s") != NULL) {
        return PyUnicode_FromFormat(refusal->text, refusal->name);
    }
    if (strchr(refusal->text, '%') != NULL) {
        return PyUnicode_FromFormat(refusal->text, refusal->number, refusal->number);
    }
    return PyUnicode_FromString(refusal->text);
}

static void
raise_refusal(const dls_arrow_column *column)
{
    const dls_reading *reading = column->reading;
    const dls_arrow_refusal *refusal = &column->refusal;
    PyObject *text = text_of(refusal), *cure = NULL;
    if (text == NULL) {
        return;
    }
    if (refusal->rest != NULL) {
        dls_refuse_copy(reading->state, reading->obj, "chunks", refusal->rest, "%U",
                        text);
        Py_DECREF(text);
        return;
    }
    if (refusal->problem == NULL) {
        dls_refuse(reading->state, DLS_EOPTION, reading->obj, "%U", text);
        Py_DECREF(text);
        return;
    }
    cure = dls_in_python_with(reading->state, DLS_IN_CURES, "cure_of_column", "(Os)",
                              reading->obj, refusal->problem);
    if (cure != NULL || dls_error_forget() == 0) {
        bool known = cure != NULL && PyUnicode_Check(cure);
        dls_refuse(reading->state, DLS_EBUFFER, reading->obj, "%U%V", text,
                   known ? cure : NULL, "\n  convert it with its own library first");
    }
    Py_XDECREF(cure);
    Py_DECREF(text);
}

int
dls_arrow_end(dls_arrow_column *column, int code)
{
    arrow_schema *schema = &column->schema;
    PyObject *error = PyErr_Occurred() != NULL ? dls_error_take() : NULL;
    if (schema->release != NULL) {
        schema->release(schema);
    }
    Py_CLEAR(column->tensor);
    dls_error_report();
    if (error != NULL) {
        dls_error_restore(error);
    }
    else if (column->refusal.text != NULL) {
        raise_refusal(column);
    }
    return code;
}

/* --- types that are no arrays --------------------------------------------- */

/* The formats that begin so.  The first row that fits counts. */
static const struct {
    const char *format, *text, *problem;
} refused[] = {
    {"b",
     "its booleans are packed into bits, and an element of DLPack is a byte or "
     "more",
     "bits"},
    {"n", "its type is null: it has no values", "null"},
    {"vu", "its elements are text or bytes, which DLPack has no dtype for", "text"},
    {"vz", "its elements are text or bytes, which DLPack has no dtype for", "text"},
    {"u", "its elements are text or bytes, which DLPack has no dtype for", "text"},
    {"U", "its elements are text or bytes, which DLPack has no dtype for", "text"},
    {"z", "its elements are text or bytes, which DLPack has no dtype for", "text"},
    {"Z", "its elements are text or bytes, which DLPack has no dtype for", "text"},
    {"ti", "its elements are spans of months and days, which DLPack has no dtype for",
     "type"},
    {"_pli128", "its elements are integers of 128 bits, which DLPack has no dtype for",
     "type"},
    {"+s", "it has fields or columns ('%s' is the first), each with memory of its own",
     "fields"},
    {"+r", "it is run-end encoded: its memory holds runs, not the values", "runs"},
    {"+m", "its elements are maps, which DLPack has no dtype for", "maps"},
    {"+u", "its elements are of several types, and those of an array are of one",
     "unions"},
    {"+l", "its lists may differ in length, and the rows of an array do not", "lists"},
    {"+L", "its lists may differ in length, and the rows of an array do not", "lists"},
    {"+vl", "its lists may differ in length, and the rows of an array do not", "lists"},
    {"+vL", "its lists may differ in length, and the rows of an array do not", "lists"},
};

static const char *
first_field(const arrow_schema *schema)
{
    const arrow_schema *field = schema->n_children > 0 && schema->children != NULL
                                    ? schema->children[0]
                                    : NULL;
    return field != NULL && field->name != NULL ? field->name : "";
}

/* extended: it is the storage of an extension type. */
static int
refuse_type(dls_arrow_column *column, const arrow_schema *schema, bool extended)
{
    const char *format = schema->format;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        if (strncmp(format, refused[i].format, strlen(refused[i].format)) == 0) {
            const char *problem = column->lists > 0 ? "inside"
                                  : extended        ? "extension"
                                                    : refused[i].problem;
            return dls_arrow_refuse(column, refused[i].text, problem,
                                    first_field(schema), 0);
        }
    }
    return dls_arrow_refuse(column,
                            "its elements are of a type of Arrow that DLPack has "
                            "no dtype for",
                            "type", "", 0);
}

/* --- types that reinterpret= names ------------------------------------------ */

/* Integers that mean more than DLPack can say.  With reinterpret= they are what that
 * names. */
static int
judge_meaning(dls_arrow_column *column, const char *text, int bits)
{
    column->unnamed = column->reading->request->want.has_dtype ? NULL : text;
    column->dtype = (dl_dtype){dl_kDLInt, (uint8_t)bits, 1};
    column->itemsize = column->width = bits / 8;
    return 0;
}

int
dls_arrow_check_named(dls_arrow_column *column)
{
    return column->unnamed == NULL ? 0
                                   : dls_arrow_refuse(column, column->unnamed, NULL,
                                                      NULL, 8 * column->itemsize);
}

/* Bits of a date, a time, a timestamp or a duration; 0: it is none. */
static int
bits_of_time(const char *format)
{
    static const char *const narrow[] = {"tdD", "tts", "ttm"};
    static const char *const wide[] = {"tdm", "ttu", "ttn", "tDs", "tDm", "tDu", "tDn"};
    for (size_t i = 0; i < sizeof narrow / sizeof *narrow; i++) {
        if (strcmp(format, narrow[i]) == 0) {
            return 32;
        }
    }
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++) {
        if (strcmp(format, wide[i]) == 0) {
            return 64;
        }
    }
    bool stamp = strncmp(format, "ts", 2) == 0 && format[2] != '\0'
                 && strchr("smun", format[2]) != NULL && format[3] == ':';
    return stamp ? 64 : 0;
}

static int
judge_decimal(dls_arrow_column *column, const char *format)
{
    const char *comma = strchr(format, ',');
    comma = comma != NULL ? strchr(comma + 1, ',') : NULL;
    long bits = comma != NULL ? strtol(comma + 1, NULL, 10) : 128;
    if (bits != 32 && bits != 64) {
        return dls_arrow_refuse(
            column, "its decimals have %lld bits, and no integer of DLPack has",
            column->lists > 0 ? "inside" : "decimals", NULL, bits);
    }
    return judge_meaning(
        column,
        "its decimals are integers and a scale, which DLPack cannot say\n"
        "  pass reinterpret=\"int%lld\" for the integers",
        (int)bits);
}

/* A number of digits after a prefix, to the end; -1: it is something else. */
static int64_t
number_after(const char *format, const char *prefix)
{
    while (*prefix != '\0' && *format == *prefix) {
        format++, prefix++;
    }
    if (*prefix != '\0' || *format == '\0') {
        return -1;
    }
    int64_t number = 0;
    for (; *format >= '0' && *format <= '9' && number <= INT32_MAX; format++) {
        number = 10 * number + (*format - '0');
    }
    return *format == '\0' && number <= INT32_MAX ? number : -1;
}

int64_t
dls_arrow_items(const arrow_schema *schema)
{
    return number_after(schema->format, LIST);
}

/* Bytes of fixed size: an axis of bytes, or elements of the dtype that is named. */
static int
judge_binary(dls_arrow_column *column, int64_t bytes)
{
    const dls_request *request = column->reading->request;
    bool named = request->want.has_dtype
                 && dls_dtype_bits(request->want.dtype) == 8 * bytes;
    /* Polars exports its type Object as bytes, which are the addresses of objects. */
    int objects = bytes == sizeof(void *)
                      ? dls_arrow_ask(column->reading, "holds_objects")
                      : 0;
    if (objects != 0) {
        return objects < 0
                   ? -1
                   : dls_arrow_refuse(column,
                                      "its elements are Python objects, and its memory "
                                      "has their addresses",
                                      "objects", NULL, 0);
    }
    column->dtype = named ? request->want.dtype : (dl_dtype){dl_kDLUInt, 8, 1};
    column->itemsize = named ? bytes : 1;
    column->width = bytes;
    column->has_byte_axis = !named;
    column->axes += !named;
    return 0;
}

/* --- extension types -------------------------------------------------------- */

/* A text of the metadata: its length, then its bytes. */
typedef struct {
    const char *at;
    int32_t length;
} counted;

/* Read one, and move *from behind it.  False: its length is negative. */
static bool
read_counted(const char **from, counted *text)
{
    memcpy(&text->length, *from, sizeof text->length);
    text->at = *from + sizeof text->length;
    if (text->length < 0) {
        return false;
    }
    *from = text->at + text->length;
    return true;
}

static bool
is_text(counted text, const char *wanted)
{
    size_t length = strlen(wanted);
    return (size_t)text.length == length && memcmp(text.at, wanted, length) == 0;
}

/* Is it an extension type of two bytes whose name says what they are?  Arrow itself has
 * no bfloat16, so libraries name it ("lance.bfloat16"). */
static bool
is_bfloat16(counted name, int64_t bytes)
{
    static const char suffix[] = ".bfloat16";
    int64_t length = (int64_t)sizeof(suffix) - 1;
    return bytes == 2 && name.at != NULL && name.length > length
           && memcmp(name.at + name.length - length, suffix, (size_t)length) == 0;
}

/* The name of the extension type and its parameters; name.at NULL: it is none.  The
 * metadata have no total length, so only negative ones can be seen. */
static int
read_extension(const dls_arrow_column *column, const arrow_schema *schema,
               counted *name, counted *parameters)
{
    int32_t pairs;
    const char *from = schema->metadata;
    *name = *parameters = (counted){NULL, 0};
    if (from == NULL) {
        return 0;
    }
    memcpy(&pairs, from, sizeof pairs);
    from += sizeof pairs;
    bool good = pairs >= 0;
    for (int32_t i = 0; good && i < pairs; i++) {
        counted key, value;
        good = read_counted(&from, &key) && read_counted(&from, &value);
        if (good && is_text(key, "ARROW:extension:name")) {
            *name = value;
        }
        if (good && is_text(key, "ARROW:extension:metadata")) {
            *parameters = value;
        }
    }
    return good ? 0
                : dls_reading_fail(column->reading,
                                   "its metadata have a negative length\n"
                                   "  the producer has to be corrected");
}

/* The shape and the permutation that the parameters of a fixed_shape_tensor say. */
static int
read_tensor(dls_arrow_column *column, const arrow_schema *schema, counted parameters)
{
    const dls_reading *reading = column->reading;
    column->tensor = dls_in_python_with(
        reading->state, DLS_IN_COLUMNS, "tensor_axes", "(y#L)",
        parameters.at != NULL ? parameters.at : "", (Py_ssize_t)parameters.length,
        (long long)dls_arrow_items(schema));
    if (column->tensor != NULL) {
        return 0;
    }
    return dls_error_is_fatal()
               ? -1
               : dls_refuse_from_pending(reading->state, reading->obj,
                                         "its type fixed_shape_tensor has parameters "
                                         "that do not fit");
}

/* --- the type ----------------------------------------------------------------- */

/* Packed booleans become bytes by a copy=True, in memory of the host (C5). */
static bool
is_unpacked(const dls_arrow_column *column)
{
    const dls_reading *reading = column->reading;
    return reading->request->want.copy == 1
           && reading->acquired->tensor.device.device_type == dl_kDLCPU;
}

/* The innermost type. */
static int
judge_elements(dls_arrow_column *column, const arrow_schema *schema)
{
    counted name, parameters;
    const char *format = schema->format;
    int64_t bytes = number_after(format, BINARY);
    if (schema->dictionary != NULL) {
        return dls_arrow_refuse(column,
                                "it is dictionary-encoded: its memory holds codes, not "
                                "the values",
                                column->lists > 0 ? "inside" : "dictionary", NULL, 0);
    }
    if (read_extension(column, schema, &name, &parameters) < 0) {
        return -1;
    }
    column->takes_zero = name.at == NULL && bytes < 0;
    if (name.at != NULL && is_text(name, "arrow.bool8") && strcmp(format, "c") == 0) {
        return judge_meaning(column,
                             "its booleans may be any byte, of which 0 is false\n"
                             "  pass reinterpret=\"bool\" if the others are 1, or "
                             "reinterpret=\"int%lld\"",
                             8);
    }
    if (name.at != NULL && strcmp(format, "l") == 0
        && dls_library_counts_periods(column->reading->state, name.at,
                                      (size_t)name.length)) {
        return judge_meaning(
            column,
            "its elements are periods of time, which DLPack has no dtype for\n"
            "  pass reinterpret=\"int%lld\" for the numbers that count them",
            64);
    }
    if (dls_dtype_from_arrow(format, &column->dtype)) {
        column->itemsize = column->width = column->dtype.bits / 8;
        return 0;
    }
    if (strcmp(format, "b") == 0 && is_unpacked(column)) {
        column->is_packed = true;
        column->takes_zero = false;
        column->dtype = (dl_dtype){dl_kDLBool, 8, 1};
        column->itemsize = column->width = 1;
        return 0;
    }
    if (is_bfloat16(name, bytes) && !column->reading->request->want.has_dtype) {
        column->dtype = (dl_dtype){dl_kDLBfloat, 16, 1};
        column->itemsize = column->width = bytes;
        return 0;
    }
    if (bytes >= 0) {
        return judge_binary(column, bytes);
    }
    if (bits_of_time(format) != 0) {
        return judge_meaning(
            column,
            "its elements are dates, times or durations, which DLPack has no dtype "
            "for\n"
            "  pass reinterpret=\"int%lld\" for the numbers that count them",
            bits_of_time(format));
    }
    return strncmp(format, DECIMAL, strlen(DECIMAL)) == 0
               ? judge_decimal(column, format)
               : refuse_type(column, schema, name.at != NULL);
}

/* The types of most columns, numbers without lists or metadata, of which none is
 * refused.  False: it is another type, and nothing is known yet. */
static bool
judge_number(dls_arrow_column *column)
{
    const arrow_schema *schema = &column->schema;
    if (schema->release == NULL || schema->format == NULL || schema->metadata != NULL
        || schema->dictionary != NULL
        || !dls_dtype_from_arrow(schema->format, &column->dtype)) {
        return false;
    }
    column->takes_zero = true;
    column->itemsize = column->width = column->dtype.bits / 8;
    return true;
}

static int
check_schema(const dls_arrow_column *column, const arrow_schema *schema)
{
    if (schema == NULL || schema->release == NULL) {
        return dls_arrow_fail_released(column->reading);
    }
    if (schema->format == NULL || schema->format[0] == '\0') {
        return dls_reading_fail(column->reading, "its schema has no format\n"
                                                 "  the producer has to be corrected");
    }
    return 0;
}

int
dls_arrow_judge(dls_arrow_column *column)
{
    counted name, parameters;
    const arrow_schema *schema = &column->schema;
    if (judge_number(column)) {
        return 0;
    }
    if (check_schema(column, schema) < 0
        || read_extension(column, schema, &name, &parameters) < 0) {
        return -1;
    }
    bool tensor = name.at != NULL && is_text(name, "arrow.fixed_shape_tensor")
                  && dls_arrow_items(schema) >= 0;
    if (tensor && read_tensor(column, schema, parameters) < 0) {
        return -1;
    }
    while (dls_arrow_items(schema) >= 0) {
        if (schema->n_children != 1 || schema->children == NULL) {
            return dls_reading_fail(column->reading,
                                    "its lists have %lld types of items, and not one\n"
                                    "  the producer has to be corrected",
                                    (long long)schema->n_children);
        }
        schema = schema->children[0];
        if (++column->lists == DLS_NDIM_INTERFACE) {
            return dls_reading_fail(column->reading,
                                    "its lists lie in each other more than %d times\n"
                                    "  the producer has to be corrected",
                                    DLS_NDIM_INTERFACE);
        }
        if (check_schema(column, schema) < 0) {
            return -1;
        }
    }
    column->axes = column->lists;
    if (column->tensor != NULL) {
        column->axes += (int32_t)PyTuple_Size(PyTuple_GetItem(column->tensor, 0)) - 1;
    }
    return judge_elements(column, schema);
}

/* --- the description ---------------------------------------------------------- */

static int64_t
number_at(PyObject *tensor, int which, Py_ssize_t i)
{
    return PyLong_AsLongLong(PyTuple_GetItem(PyTuple_GetItem(tensor, which), i));
}

/* The axes of a fixed_shape_tensor, the first of its own at tensor.shape[1]: axis i is
 * axis permutation[i] of the memory.  Its axes are followed by `inner` bytes. */
static void
describe_tensor(const dls_arrow_column *column, int64_t inner)
{
    dl_tensor *tensor = &column->reading->acquired->tensor;
    int64_t *strides = dls_reading_byte_strides(column->reading);
    Py_ssize_t n = PyTuple_Size(PyTuple_GetItem(column->tensor, 0));
    int64_t stride = inner;
    for (Py_ssize_t i = n; i-- > 0;) {
        int64_t extent = number_at(column->tensor, 0, i);
        for (Py_ssize_t logical = 0; logical < n; logical++) {
            if (number_at(column->tensor, 1, logical) == i) {
                tensor->shape[1 + logical] = extent;
                strides[1 + logical] = stride;
            }
        }
        stride = dls_layout_next_stride(stride, extent);
    }
    strides[0] = stride;
    for (int32_t i = tensor->ndim - 1; i > n; i--) {
        strides[i] = i == tensor->ndim - 1
                         ? column->itemsize
                         : dls_layout_next_stride(strides[i + 1], tensor->shape[i + 1]);
    }
}

int
dls_arrow_describe(dls_arrow_column *column, const dls_arrow_window *window)
{
    dls_reading *reading = column->reading;
    dl_tensor *tensor = &reading->acquired->tensor;
    if (dls_arrow_check_named(column) < 0
        || dls_reading_set_ndim(reading, 1 + column->axes) < 0) {
        return -1;
    }
    const arrow_schema *schema = &column->schema;
    int32_t at = 1 + column->axes - column->lists - column->has_byte_axis;
    int64_t inner = column->has_byte_axis ? column->width : column->itemsize;
    tensor->shape[0] = window->length;
    for (int32_t i = 0; i < column->lists; i++) {
        bool is_tensor = i == 0 && column->tensor != NULL;
        int64_t items = dls_arrow_items(schema);
        if (!is_tensor) {
            tensor->shape[at + i] = items;
            inner = dls_layout_next_stride(inner, items);
        }
        schema = schema->children[0];
    }
    if (column->has_byte_axis) {
        tensor->shape[column->axes] = column->width;
    }
    tensor->dtype = column->dtype;
    reading->itemsize = column->itemsize;
    tensor->data = (void *)(uintptr_t)window->data;
    if (column->tensor == NULL) {
        return 0; /* in row-major order, and the window was checked */
    }
    describe_tensor(column, inner);
    return dls_reading_finish(reading);
}

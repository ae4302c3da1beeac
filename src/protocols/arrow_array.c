/* The way in through __arrow_c_array__ and __arrow_c_device_array__, and what chunks
 * share with them: the capsules, the hold, and the window of an array.
 * Called through the table in protocols.c, with the GIL.
 * Tests: tests/core/test_columns.py, test_columns_lies.py. */
#include "protocols/arrow.h"

#include <assert.h>
#include <string.h>

#include "core/alloc.h"
#include "core/copy.h"
#include "python/errors.h"

/* --- capsules ------------------------------------------------------------- */

PyObject *
dls_arrow_call(const dls_reading *reading)
{
    PyObject *args[] = {NULL, reading->obj};
    return reading->given != NULL
               ? PyObject_CallFunctionObjArgs(reading->given, NULL)
               : dls_compat.PyObject_VectorcallMethod(dls_reading_attribute(reading),
                                                      &args[1],
                                                      1 | DLS_VECTORCALL_OFFSET, NULL);
}

void *
dls_arrow_open(const dls_reading *reading, PyObject *capsule, const char *name)
{
    void *given = capsule != NULL ? PyCapsule_GetPointer(capsule, name) : NULL;
    if (given == NULL) {
        PyErr_Clear(); /* which names what is no capsule, or has another name */
        dls_reading_fail(reading,
                         "a capsule named '%s' was expected\n"
                         "  the producer has to be corrected",
                         name);
    }
    return given;
}

void
dls_arrow_drop(arrow_array *array)
{
    if (array->release == NULL) {
        return;
    }
    PyObject *error = PyErr_Occurred() != NULL ? dls_error_take() : NULL;
    array->release(array);
    array->release = NULL;
    dls_error_report();
    if (error != NULL) {
        dls_error_restore(error);
    }
}

/* --- missing values --------------------------------------------------------- */

static int64_t
count_bits(uint64_t word)
{
    word -= (word >> 1) & UINT64_C(0x5555555555555555);
    word = (word & UINT64_C(0x3333333333333333))
           + ((word >> 2) & UINT64_C(0x3333333333333333));
    word = (word + (word >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    return (int64_t)((word * UINT64_C(0x0101010101010101)) >> 56);
}

/* Bits that are 0 in [start, start + n) of a bitmap, lowest bit first. */
static int64_t
count_missing(const unsigned char *bitmap, int64_t start, int64_t n)
{
    int64_t valid = 0, i = start;
    const int64_t end = start + n;
    while (i < end && i % 8 != 0) {
        valid += bitmap[i / 8] >> (i % 8) & 1;
        i++;
    }
    for (; end - i >= 64; i += 64) {
        uint64_t word;
        memcpy(&word, bitmap + i / 8, sizeof word);
        valid += count_bits(word);
    }
    for (; i < end; i++) {
        valid += bitmap[i / 8] >> (i % 8) & 1;
    }
    return n - valid;
}

/* Can the host read the buffers?  Pinned memory may still be written to. */
static bool
on_host(const dls_arrow_column *column)
{
    return column->reading->acquired->tensor.device.device_type == dl_kDLCPU;
}

/* Refuse values that are missing in [start, start + n) of the buffers.  The bitmap
 * decides: null_count of an array below a list is about more than the window. */
static int
check_missing(dls_arrow_column *column, const arrow_array *array, int64_t start,
              int64_t n, bool inside)
{
    const unsigned char *bitmap = array->buffers[0];
    if (array->null_count == 0 || n == 0) {
        return 0;
    }
    if (array->null_count < -1 || (array->null_count > 0 && bitmap == NULL)) {
        return dls_reading_fail(
            column->reading,
            "it says that %lld values are missing, and does not say which\n"
            "  the producer has to be corrected",
            (long long)array->null_count);
    }
    if (bitmap != NULL && !on_host(column)) {
        return dls_arrow_refuse(
            column,
            "values may be missing in it, and only its device can read which\n"
            "  fill them with its own library first",
            NULL, NULL, 0);
    }
    int64_t missing = bitmap != NULL ? count_missing(bitmap, start, n) : 0;
    if (missing == 0) {
        return 0;
    }
    /* 0 takes the place of an item after the only lists were made flat. */
    bool takes_zero = column->takes_zero && column->lists == inside;
    const char *problem = inside ? (takes_zero ? "missing inside" : "inside")
                                 : (takes_zero ? "missing" : "missing rows");
    return dls_arrow_refuse(column,
                            inside ? "values are missing in its lists (%lld), and "
                                     "DLPack cannot describe that"
                                   : "values are missing in it (%lld), and DLPack "
                                     "cannot describe that",
                            problem, NULL, (long long)missing);
}

/* --- windows ---------------------------------------------------------------- */

/* The members that must be so in every array.  buffers, children: how many. */
static int
check_array(const dls_arrow_column *column, const arrow_array *array, int64_t buffers,
            int64_t children)
{
    const char *wrong = NULL;
    int64_t end;
    if (array == NULL || array->release == NULL) {
        return dls_arrow_fail_released(column->reading);
    }
    if (array->length < 0 || array->offset < 0
        || !dls_add(array->offset, array->length, &end)) {
        wrong = "length and offset";
    }
    else if (array->n_buffers != buffers || array->buffers == NULL) {
        wrong = "buffers";
    }
    else if (array->n_children != children
             || (children > 0
                 && (array->children == NULL || array->children[0] == NULL))) {
        wrong = "children";
    }
    else if (array->dictionary != NULL) {
        wrong = "dictionary";
    }
    return wrong == NULL
               ? 0
               : dls_reading_fail(column->reading,
                                  "its array has %s that its type cannot have\n"
                                  "  the producer has to be corrected",
                                  wrong);
}

static int
fail_size(const dls_arrow_column *column)
{
    return dls_reading_fail(column->reading,
                            "its lists reach beyond the memory that they have\n"
                            "  the producer has to be corrected");
}

/* Walk through the lists: [*start, *start + *n) becomes the window of the innermost
 * array, which is returned; NULL for -1. */
static const arrow_array *
enter_lists(dls_arrow_column *column, const arrow_array *array, int64_t *start,
            int64_t *n)
{
    const arrow_schema *schema = &column->schema;
    for (int32_t i = 0; i < column->lists; i++) {
        int64_t items = dls_arrow_items(schema), last;
        const arrow_array *child = array->children[0];
        bool innermost = i + 1 == column->lists;
        if (check_array(column, child, innermost ? 2 : 1, !innermost) < 0) {
            return NULL;
        }
        if (!dls_mul(*start, items, start) || !dls_mul(*n, items, n)
            || !dls_add(*start, *n, &last) || last > child->length
            || !dls_add(*start, child->offset, start)) {
            fail_size(column);
            return NULL;
        }
        if (check_missing(column, child, *start, *n, true) < 0) {
            return NULL;
        }
        schema = schema->children[0];
        array = child;
    }
    return array;
}

int
dls_arrow_find(dls_arrow_column *column, const arrow_array *array,
               dls_arrow_window *window)
{
    int64_t start = array->offset, n = array->length, skipped;
    bool lists = column->lists > 0;
    *window = (dls_arrow_window){.length = n};
    if (check_array(column, array, lists ? 1 : 2, lists) < 0) {
        return -1;
    }
    if (n == 0) {
        return 0; /* nothing else is looked at */
    }
    if (check_missing(column, array, start, n, false) < 0) {
        return -1;
    }
    array = enter_lists(column, array, &start, &n);
    if (array == NULL) {
        return -1;
    }
    if (!dls_mul(start, column->width, &skipped)
        || !dls_mul(n, column->width, &window->bytes)) {
        return fail_size(column);
    }
    window->data = array->buffers[1];
    if (window->bytes != 0 && window->data == NULL) {
        return dls_reading_fail(column->reading,
                                "its buffer is NULL although it has elements\n"
                                "  the producer has to be corrected");
    }
    if (column->is_packed) {
        window->first_bit = (int)(skipped % 8);
        skipped /= 8;
    }
    window->data = window->data != NULL ? window->data + skipped : NULL;
    return dls_arrow_check_named(column);
}

/* --- copies ----------------------------------------------------------------- */

char *
dls_arrow_make_room(const dls_reading *reading, int64_t bytes)
{
    void *start;
    void *block = dls_alloc_aligned(bytes, reading->request->want.copy_align, &start);
    if (block == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    DLS_COUNT(copied);
    reading->acquired->hold = (dls_hold){.base = block, .kind = DLS_HOLD_BLOCK};
    reading->acquired->flags |= DL_FLAG_IS_COPIED;
    return start;
}

char *
dls_arrow_put(const dls_arrow_column *column, const dls_arrow_window *from, char *to)
{
    const unsigned char *bits = (const unsigned char *)from->data;
    if (!column->is_packed && from->bytes != 0) {
        memcpy(to, from->data, (size_t)from->bytes);
    }
    for (int64_t i = 0; column->is_packed && i < from->bytes; i++) {
        int64_t bit = from->first_bit + i;
        to[i] = bits[bit / 8] >> (bit % 8) & 1;
    }
    return to + from->bytes;
}

/* The booleans of an array as bytes; *window describes them then. */
static int
unpack(const dls_arrow_column *column, dls_arrow_window *window)
{
    char *start = dls_arrow_make_room(column->reading, window->bytes);
    if (start == NULL) {
        return -1;
    }
    bool alone = window->bytes >= DLS_COPY_WITHOUT_GIL;
    PyThreadState *away = alone ? PyEval_SaveThread() : NULL;
    dls_arrow_put(column, window, start);
    if (away != NULL) {
        PyEval_RestoreThread(away);
    }
    window->data = start;
    dls_arrow_drop(column->reading->array);
    return 0;
}

/* --- __arrow_c_array__, __arrow_c_device_array__ ------------------------------ */

/* Take schema and array out of the pair of capsules. */
static int
take_pair(dls_arrow_column *column, PyObject *pair)
{
    dls_reading *reading = column->reading;
    bool on_device = reading->protocol == DLS_PROTOCOL_ARROW_DEVICE_ARRAY;
    if (!PyTuple_Check(pair) || PyTuple_Size(pair) != 2) {
        return dls_reading_fail(reading, "a tuple of two capsules was expected\n"
                                         "  the producer has to be corrected");
    }
    arrow_schema *schema = dls_arrow_open(reading, PyTuple_GetItem(pair, 0),
                                          ARROW_NAME_SCHEMA);
    void *given = schema != NULL ? dls_arrow_open(reading, PyTuple_GetItem(pair, 1),
                                                  on_device ? ARROW_NAME_DEVICE_ARRAY
                                                            : ARROW_NAME_ARRAY)
                                 : NULL;
    if (given == NULL) {
        return -1;
    }
    arrow_array *array = given; /* also the first member of a device array */
    if (schema->release == NULL || array->release == NULL) {
        return dls_arrow_fail_released(reading);
    }
    if (on_device && dls_arrow_place(column, given) < 0) {
        return -1;
    }
    dls_arrow_move(array, reading->array);
    column->schema = *schema;
    schema->release = NULL;
    return 0;
}

int
dls_arrow_array_read(dls_reading *reading)
{
    dls_arrow_column column = {.reading = reading};
    dls_arrow_window window;
    PyObject *pair = dls_arrow_call(reading);
    if (pair == NULL) {
        return -1;
    }
    int code = take_pair(&column, pair);
    dls_drop_foreign(pair);
    if (code == 0) {
        code = dls_arrow_judge(&column);
    }
    if (code == 0) {
        code = dls_arrow_find(&column, reading->array, &window);
    }
    if (code == 0 && column.is_packed) {
        code = unpack(&column, &window);
    }
    if (code == 0) {
        code = dls_arrow_describe(&column, &window);
    }
    if (code < 0) {
        dls_arrow_drop(reading->array);
    }
    if (!column.is_packed) {
        reading->acquired->flags |= DL_FLAG_READ_ONLY;
    }
    return dls_arrow_end(&column, code);
}

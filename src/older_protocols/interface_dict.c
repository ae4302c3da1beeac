/* What the three dict protocols have in common: entries, versions, dtypes, strides.
 * Called by the readers of the three, with the GIL; runs code of the values it reads.
 * Tests: tests/core/test_ways_in.py, test_cuda_interface.py, test_sycl_interface.py. */
#include "older_protocols/interface_dict.h"

#include <assert.h>
#include <string.h>

/* --- entries -------------------------------------------------------------- */

static PyObject *
name_of(const dls_reading *reading, const dls_dict_entry *entry)
{
    return reading->state->all_names[entry->key];
}

int
dls_dict_get(const dls_reading *reading, int key, PyObject **value)
{
    assert(PyDict_Check(reading->given));
    *value = PyDict_GetItemWithError(reading->given, reading->state->all_names[key]);
    if (*value == NULL) {
        return PyErr_Occurred() != NULL ? -1 : 0;
    }
    if (*value == Py_None) {
        *value = NULL;
        return 0;
    }
    Py_INCREF(*value);
    return 1;
}

/* "['key'] is missing, must <wanted>; ...".  Always -1. */
static int
fail_missing(const dls_reading *reading, const dls_dict_entry *entry)
{
    return dls_reading_fail(reading,
                            "['%U'] is missing, must %s; the dict has to be corrected "
                            "where it is made",
                            name_of(reading, entry), entry->wanted);
}

int
dls_dict_require(const dls_reading *reading, const dls_dict_entry *entry,
                 PyObject **value)
{
    int got = dls_dict_get(reading, entry->key, value);
    return got != 0 ? got : fail_missing(reading, entry);
}

int
dls_dict_fail_type(const dls_reading *reading, const dls_dict_entry *entry,
                   PyObject *value)
{
    PyObject *type = PyObject_GetAttrString((PyObject *)Py_TYPE(value), "__name__");
    if (type == NULL) {
        return -1;
    }
    dls_reading_fail(reading,
                     "['%U'] must %s, not %S; the dict has to be corrected where it "
                     "is made",
                     name_of(reading, entry), entry->wanted, type);
    Py_DECREF(type);
    return -1;
}

int
dls_dict_fail_value(const dls_reading *reading, const dls_dict_entry *entry,
                    PyObject *value)
{
    return dls_reading_fail(reading,
                            "['%U'] must %s, not %R; the dict has to be corrected "
                            "where it is made",
                            name_of(reading, entry), entry->wanted, value);
}

/* --- numbers -------------------------------------------------------------- */

/* After a failed conversion: the two errors that speak of the value itself become
 * BufferErrors, all others are the object's own. */
static int
fail_conversion(const dls_reading *reading, const dls_dict_entry *entry,
                PyObject *value)
{
    if (PyErr_ExceptionMatches(PyExc_TypeError)) {
        PyErr_Clear();
        return dls_dict_fail_type(reading, entry, value);
    }
    if (PyErr_ExceptionMatches(PyExc_OverflowError)) {
        PyErr_Clear();
        return dls_dict_fail_value(reading, entry, value);
    }
    return -1;
}

static int
refuse_bool(const dls_reading *reading, const dls_dict_entry *entry, PyObject *value)
{
    return reading->row->strict && PyBool_Check(value)
               ? dls_dict_fail_type(reading, entry, value)
               : 0;
}

static int
read_int(const dls_reading *reading, const dls_dict_entry *entry, PyObject *value,
         int64_t *out)
{
    long long number = PyLong_AsLongLong(value);
    if (number == -1 && PyErr_Occurred() != NULL) {
        return fail_conversion(reading, entry, value);
    }
    *out = number;
    return 0;
}

int
dls_dict_read_unsigned(const dls_reading *reading, const dls_dict_entry *entry,
                       PyObject *value, uint64_t *out)
{
    if (refuse_bool(reading, entry, value) < 0) {
        return -1;
    }
    PyObject *number = PyNumber_Index(value);
    if (number != NULL) {
        *out = PyLong_AsUnsignedLongLong(number);
        Py_DECREF(number);
    }
    return PyErr_Occurred() != NULL ? fail_conversion(reading, entry, value) : 0;
}

/* The entry as an int from `lowest` to `highest`.  1, 0 = missing and *out as it was,
 * or -1. */
static int
read_number(const dls_reading *reading, const dls_dict_entry *entry, int64_t lowest,
            int64_t highest, int64_t *out)
{
    PyObject *value;
    int got = dls_dict_get(reading, entry->key, &value);
    if (got <= 0) {
        return got;
    }
    int result = refuse_bool(reading, entry, value);
    if (result == 0) {
        result = read_int(reading, entry, value, out);
    }
    if (result == 0 && (*out < lowest || *out > highest)) {
        result = dls_dict_fail_value(reading, entry, value);
    }
    Py_DECREF(value);
    return result == 0 ? 1 : -1;
}

/* --- version and mask ----------------------------------------------------- */

static int
read_version(dls_reading *reading)
{
    const dls_older_protocol *row = reading->row;
    const dls_dict_entry entry = {DLS_NAME_INDEX_version, row->version};
    /* A protocol that has grown may grow again: that is no mistake in the dict. */
    bool grows = row->oldest < row->newest;
    int got = read_number(reading, &entry, row->oldest, grows ? INT64_MAX : row->newest,
                          &reading->version);
    if (got == 0 && row->strict) {
        return fail_missing(reading, &entry);
    }
    if (got > 0 && reading->version > row->newest) {
        return dls_reading_fail(reading,
                                "its version %lld is newer than %d, the newest that is "
                                "known here: ask the producer for an older one, or "
                                "update dlshim",
                                (long long)reading->version, row->newest);
    }
    return got < 0 ? -1 : 0;
}

static int
refuse_mask(const dls_reading *reading)
{
    PyObject *value = NULL;
    int got = reading->row->can_have_mask
                  ? dls_dict_get(reading, DLS_NAME_INDEX_mask, &value)
                  : 0;
    Py_XDECREF(value);
    if (got > 0) {
        return dls_reading_fail(reading,
                                "it has a mask, which DLPack has no word for: fill the "
                                "masked elements first, or wrap its data and its mask "
                                "apart");
    }
    return got;
}

/* --- dtype ---------------------------------------------------------------- */

/* "<f4", "|b1", "<M8[ns]", "|O".  0, or -1 when the text is none of these. */
static int
parse_typestr(const char *text, char *kind, int64_t *itemsize, bool *swapped)
{
    const uint16_t one = 1;
    const char foreign = *(const uint8_t *)&one == 1 ? '>' : '<';
    *swapped = text[0] == foreign;
    if (text[0] != '\0' && strchr("<>|=", text[0]) != NULL) {
        text++;
    }
    *kind = text[0];
    *itemsize = 0;
    if (*kind == '\0') {
        return -1;
    }
    if (text[1] == '\0') {
        return *kind == 'O' ? 0 : -1; /* objects need no size, and are refused */
    }
    for (text++; *text >= '0' && *text <= '9'; text++) {
        *itemsize = *itemsize * 10 + (*text - '0');
        if (*itemsize > INT32_MAX) {
            return -1;
        }
    }
    bool has_unit = (*kind == 'M' || *kind == 'm') && text[0] == '[';
    return text[0] == '\0' || has_unit ? 0 : -1;
}

/* Text of a str or, as NumPy allows too, bytes; borrowed from value.  NULL: neither. */
static const char *
text_of(PyObject *value)
{
    Py_ssize_t size = 0;
    const char *text = NULL;
    if (PyUnicode_Check(value)) {
        text = PyUnicode_AsUTF8AndSize(value, &size);
    }
    else if (PyBytes_Check(value)) {
        text = PyBytes_AsString(value);
        size = PyBytes_Size(value);
    }
    if (text == NULL) {
        PyErr_Clear();
        return NULL;
    }
    return strlen(text) == (size_t)size ? text : NULL;
}

/* Only a struct type needs a description; NumPy reads it for this kind only. */
static int
check_descr(const dls_reading *reading)
{
    PyObject *descr;
    int got = dls_dict_get(reading, DLS_NAME_INDEX_descr, &descr);
    if (got <= 0) {
        return got;
    }
    bool fields = dls_reading_has_fields(descr);
    Py_DECREF(descr);
    return fields ? dls_reading_fail_structured(reading) : 0;
}

/* typestr, and descr for structs.  The types of ml_dtypes go by obj.dtype. */
static int
read_typestr(dls_reading *reading)
{
    static const dls_dict_entry entry = {DLS_NAME_INDEX_typestr,
                                         "be a str such as '<f4'"};
    PyObject *value;
    char kind;
    int64_t itemsize;
    bool swapped;
    if (dls_dict_require(reading, &entry, &value) < 0) {
        return -1;
    }
    const char *text = text_of(value);
    int result = -1;
    if (text == NULL || parse_typestr(text, &kind, &itemsize, &swapped) < 0) {
        dls_dict_fail_value(reading, &entry, value);
    }
    else if (kind != 'V' || check_descr(reading) == 0) {
        result = dls_reading_set_kind(reading, kind, itemsize, swapped);
    }
    Py_DECREF(value);
    return result;
}

/* --- shape and strides ---------------------------------------------------- */

static const dls_dict_entry shape = {DLS_NAME_INDEX_shape, "be a tuple of ints"},
                            strides = {DLS_NAME_INDEX_strides, "be a tuple of ints"};

/* The value (stolen), a tuple or list, as a tuple of at most DLS_NDIM_INTERFACE
 * entries. NULL with an exception. */
static PyObject *
tuple_of(const dls_reading *reading, const dls_dict_entry *entry, PyObject *value)
{
    PyObject *tuple = NULL;
    if (PyTuple_Check(value) || PyList_Check(value)) {
        tuple = PySequence_Tuple(value);
    }
    else {
        dls_dict_fail_type(reading, entry, value);
    }
    Py_DECREF(value);
    if (tuple != NULL && PyTuple_Size(tuple) > DLS_NDIM_INTERFACE) {
        dls_reading_fail(
            reading,
            "['%U'] has %zd entries, at most %d are possible: reshape it first",
            name_of(reading, entry), PyTuple_Size(tuple), DLS_NDIM_INTERFACE);
        Py_CLEAR(tuple);
    }
    return tuple;
}

/* The ints of a tuple.  All are checked, and as many as there are dimensions stored. */
static int
read_ints(const dls_reading *reading, const dls_dict_entry *entry, PyObject *tuple,
          int64_t *out)
{
    const dls_dict_entry item = {entry->key, "hold ints of 64 bits"};
    for (Py_ssize_t i = 0; i < PyTuple_Size(tuple); i++) {
        int64_t number = 0;
        if (read_int(reading, &item, PyTuple_GetItem(tuple, i), &number) < 0) {
            return -1;
        }
        if (i < reading->acquired->tensor.ndim) {
            out[i] = number;
        }
    }
    return 0;
}

static int
read_shape(dls_reading *reading)
{
    PyObject *value;
    if (dls_dict_require(reading, &shape, &value) < 0) {
        return -1;
    }
    PyObject *tuple = tuple_of(reading, &shape, value);
    if (tuple == NULL) {
        return -1;
    }
    int result = dls_reading_set_ndim(reading, PyTuple_Size(tuple));
    if (result == 0) {
        result = read_ints(reading, &shape, tuple, reading->acquired->tensor.shape);
    }
    Py_DECREF(tuple);
    return result;
}

/* Elements to bytes, in place, as dls_reading_finish wants them (T11).  A stride of an
 * extent below 2 counts for nothing and may be anything. */
static int
strides_to_bytes(dls_reading *reading)
{
    dl_tensor *tensor = &reading->acquired->tensor;
    for (int32_t i = 0; i < tensor->ndim; i++) {
        int64_t stride = tensor->strides[i];
        if (dls_mul(stride, reading->itemsize, &tensor->strides[i])) {
            continue;
        }
        if (tensor->shape[i] >= 2) {
            return dls_reading_fail(
                reading,
                "['strides'][%d] is %lld elements, which overflows as "
                "bytes; the dict has to be corrected where it is made",
                (int)i, (long long)stride);
        }
        tensor->strides[i] = 0;
    }
    return 0;
}

static int
read_strides(dls_reading *reading)
{
    PyObject *value;
    int got = dls_dict_get(reading, strides.key, &value);
    if (got <= 0) {
        return got; /* missing or None: row-major */
    }
    PyObject *tuple = tuple_of(reading, &strides, value);
    if (tuple == NULL) {
        return -1;
    }
    int ndim = reading->acquired->tensor.ndim;
    Py_ssize_t count = PyTuple_Size(tuple);
    int result = read_ints(reading, &strides, tuple, dls_reading_byte_strides(reading));
    Py_DECREF(tuple);
    if (result < 0) {
        return -1;
    }
    if (count != ndim) {
        return dls_reading_fail(reading,
                                "['strides'] has %zd entries but ['shape'] has %d; the "
                                "dict has to be corrected where it is made",
                                count, ndim);
    }
    return reading->row->in_elements ? strides_to_bytes(reading) : 0;
}

/* --- the beginning -------------------------------------------------------- */

int
dls_dict_open(dls_reading *reading)
{
    assert(reading->row->version != NULL);
    if (!PyDict_Check(reading->given)) {
        return dls_reading_fail(reading,
                                "a dict was expected, not %R; the producer has to be "
                                "corrected",
                                (PyObject *)Py_TYPE(reading->given));
    }
    bool read = read_version(reading) == 0 && refuse_mask(reading) == 0
                && read_typestr(reading) == 0 && read_shape(reading) == 0
                && read_strides(reading) == 0;
    return read ? 0 : -1;
}

/* --- offset and data ------------------------------------------------------ */

int
dls_dict_read_offset(const dls_reading *reading, int64_t *bytes)
{
    const dls_dict_entry entry = {DLS_NAME_INDEX_offset, reading->row->offset};
    int64_t unit = reading->row->in_elements ? reading->itemsize : 1;
    int64_t offset = 0;
    assert(entry.wanted != NULL && unit > 0);
    if (read_number(reading, &entry, 0, INT64_MAX / unit, &offset) < 0) {
        return -1;
    }
    *bytes = offset * unit;
    return 0;
}

/* Each item is read once. */
static int
set_data(dls_reading *reading, PyObject *address, PyObject *readonly)
{
    static const dls_dict_entry entry = {DLS_NAME_INDEX_data,
                                         "start with an address as int"};
    uint64_t number = 0;
    if (dls_dict_read_unsigned(reading, &entry, address, &number) < 0) {
        return -1;
    }
    reading->acquired->tensor.data = (void *)(uintptr_t)number;
    int truth = PyObject_IsTrue(readonly);
    if (truth > 0) {
        reading->acquired->flags |= DL_FLAG_READ_ONLY;
    }
    return truth < 0 ? -1 : 0;
}

int
dls_dict_read_pair(dls_reading *reading, PyObject *pair)
{
    Py_ssize_t size = PySequence_Size(pair);
    if (size != 2) {
        const dls_dict_entry entry = {DLS_NAME_INDEX_data, reading->row->data};
        return size < 0 ? -1 : dls_dict_fail_value(reading, &entry, pair);
    }
    /* The sequence may make its items on the spot: each is asked for once, and the
     * address last, because giving it away can pin the memory for good. */
    PyObject *address = NULL, *readonly = PySequence_GetItem(pair, 1);
    int result = -1;
    if (readonly != NULL) {
        address = PySequence_GetItem(pair, 0);
    }
    if (address != NULL) {
        result = set_data(reading, address, readonly);
    }
    Py_XDECREF(address);
    Py_XDECREF(readonly);
    return result;
}

int
dls_dict_read_data(dls_reading *reading)
{
    const dls_dict_entry entry = {DLS_NAME_INDEX_data, reading->row->data};
    PyObject *value;
    if (dls_dict_require(reading, &entry, &value) < 0) {
        return -1;
    }
    bool sequence = PyTuple_Check(value) || PyList_Check(value);
    if (reading->row->any_sequence && !sequence) {
        sequence = PySequence_Check(value) && !PyUnicode_Check(value)
                   && !PyBytes_Check(value);
    }
    int result = sequence ? dls_dict_read_pair(reading, value)
                          : dls_dict_fail_type(reading, &entry, value);
    Py_DECREF(value);
    return result;
}

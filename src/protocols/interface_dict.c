/* The common parts of the three dict protocols: entries, versions, dtypes, strides.
 * Called by the readers of the three, with the GIL; runs code of the values it reads.
 * Tests: tests/core/test_ways_in.py, test_cuda_interface.py, test_sycl_interface.py. */
#include "protocols/interface_dict.h"

#include <assert.h>
#include <string.h>

/* --- entries -------------------------------------------------------------- */

static PyObject *
name_of(const dls_reading *reading, dls_entry key)
{
    static const uint8_t names[] = {
#define ENTRY_NAME(key) DLS_NAME_INDEX_##key
        DLS_ENTRY_LIST(ENTRY_NAME)};
#undef ENTRY_NAME
    return reading->state->all_names[names[key]];
}

/* Look up all entries.  None says the same as a missing entry. */
static int
look_up_entries(dls_reading *reading)
{
    for (int i = 0; i < DLS_ENTRY_COUNT; i++) {
        if (reading->row->lacks >> i & 1) {
            continue;
        }
        PyObject *name = name_of(reading, (dls_entry)i);
        PyObject *value = dls_dict_borrow(reading->given, name);
        if (value == NULL && PyErr_Occurred() != NULL) {
            return -1;
        }
        reading->entries[i] = value != Py_None ? Py_XNewRef(value) : NULL;
        dls_let_go(value);
    }
    return 0;
}

int
dls_dict_require(const dls_reading *reading, const dls_dict_value *entry)
{
    return entry->value != NULL
               ? 0
               : dls_reading_fail(reading,
                                  "['%U'] is missing, must %s\n"
                                  "  the dict has to be corrected where it is made",
                                  name_of(reading, entry->key), entry->wanted);
}

/* "['key'] must <wanted>, not <shown>; ...".  shown: stolen; NULL: an exception is set.
 * Always -1. */
static int
fail_shown(const dls_reading *reading, const dls_dict_value *v, PyObject *shown)
{
    if (shown != NULL) {
        dls_reading_fail(reading,
                         "['%U'] must %s, not %S\n"
                         "  the dict has to be corrected where it is made",
                         name_of(reading, v->key), v->wanted, shown);
        Py_DECREF(shown);
    }
    return -1;
}

int
dls_dict_fail_type(const dls_reading *reading, const dls_dict_value *v)
{
    PyObject *type = (PyObject *)Py_TYPE(v->value);
    return fail_shown(reading, v, PyObject_GetAttrString(type, "__name__"));
}

/* A container is named by its type: what lies in it may be deeper than any stack. */
int
dls_dict_fail_value(const dls_reading *reading, const dls_dict_value *v)
{
    bool container = PyTuple_Check(v->value) || PyList_Check(v->value)
                     || PyDict_Check(v->value);
    return container ? dls_dict_fail_type(reading, v)
                     : fail_shown(reading, v, PyUnicode_FromFormat("%R", v->value));
}

/* --- numbers -------------------------------------------------------------- */

/* After a failed conversion: the two errors that speak of the value itself become
 * BufferErrors, all others are the object's own. */
static int
fail_conversion(const dls_reading *reading, const dls_dict_value *v)
{
    bool wrong_type = PyErr_ExceptionMatches(PyExc_TypeError);
    if (!wrong_type && !PyErr_ExceptionMatches(PyExc_OverflowError)) {
        return -1;
    }
    PyErr_Clear();
    return wrong_type ? dls_dict_fail_type(reading, v)
                      : dls_dict_fail_value(reading, v);
}

static int
refuse_bool(const dls_reading *reading, const dls_dict_value *v)
{
    bool refused = reading->row->strict && PyBool_Check(v->value);
    return refused ? dls_dict_fail_type(reading, v) : 0;
}

static int
read_int(const dls_reading *reading, const dls_dict_value *v, int64_t *out)
{
    *out = PyLong_AsLongLong(v->value);
    bool failed = *out == -1 && PyErr_Occurred() != NULL;
    return failed ? fail_conversion(reading, v) : 0;
}

int
dls_dict_read_unsigned(const dls_reading *reading, const dls_dict_value *v,
                       uint64_t *out)
{
    if (refuse_bool(reading, v) < 0) {
        return -1;
    }
    PyObject *number = PyNumber_Index(v->value);
    if (number != NULL) {
        *out = PyLong_AsUnsignedLongLong(number);
        Py_DECREF(number);
    }
    return PyErr_Occurred() != NULL ? fail_conversion(reading, v) : 0;
}

/* An entry as an int from `lowest` to `highest`; where it is missing, *out stays. */
static int
read_number(const dls_reading *reading, const dls_dict_value *entry, int64_t lowest,
            int64_t highest, int64_t *out)
{
    if (entry->value == NULL) {
        return 0;
    }
    if (refuse_bool(reading, entry) < 0 || read_int(reading, entry, out) < 0) {
        return -1;
    }
    bool outside = *out < lowest || *out > highest;
    return outside ? dls_dict_fail_value(reading, entry) : 0;
}

/* --- version and mask ----------------------------------------------------- */

static int
read_version(dls_reading *reading)
{
    const dls_described_protocol *row = reading->row;
    const dls_dict_value entry = dls_dict_get(reading, DLS_ENTRY_version, row->version);
    /* A protocol that has grown may grow again: that is no mistake in the dict. */
    int64_t highest = row->oldest < row->newest ? INT64_MAX : row->newest;
    if ((row->strict && dls_dict_require(reading, &entry) < 0)
        || read_number(reading, &entry, row->oldest, highest, &reading->version) < 0) {
        return -1;
    }
    if (reading->version > row->newest) {
        return dls_reading_fail(reading,
                                "its version %lld is newer than %d, the newest that is "
                                "known here\n"
                                "  ask the producer for an older one, or "
                                "update dlshim",
                                (long long)reading->version, row->newest);
    }
    return 0;
}

static int
refuse_mask(const dls_reading *reading)
{
    if (reading->entries[DLS_ENTRY_mask] != NULL) {
        return dls_reading_fail(reading, "it has a mask, and DLPack has none\n"
                                         "  fill the masked elements first, "
                                         "or wrap its data and its mask apart");
    }
    return 0;
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
    char *bytes;
    if (PyUnicode_Check(value)) {
        text = PyUnicode_AsUTF8AndSize(value, &size);
    }
    else if (PyBytes_Check(value)
             && PyBytes_AsStringAndSize(value, &bytes, &size) == 0) {
        text = bytes;
    }
    PyErr_Clear();
    return text != NULL && strlen(text) == (size_t)size ? text : NULL;
}

/* typestr.  Only a struct type needs a description too; NumPy reads descr for this kind
 * only.  The types of ml_dtypes go by obj.dtype. */
static int
read_typestr(dls_reading *reading)
{
    const dls_dict_value entry = dls_dict_get(reading, DLS_ENTRY_typestr,
                                              "be a str such as '<f4'");
    PyObject *descr = reading->entries[DLS_ENTRY_descr];
    char kind;
    int64_t itemsize;
    bool swapped;
    if (dls_dict_require(reading, &entry) < 0) {
        return -1;
    }
    const char *text = text_of(entry.value);
    if (text == NULL || parse_typestr(text, &kind, &itemsize, &swapped) < 0) {
        return dls_dict_fail_value(reading, &entry);
    }
    return kind == 'V' && descr != NULL && dls_reading_has_fields(descr)
               ? dls_reading_fail_structured(reading)
               : dls_reading_set_kind(reading, kind, itemsize, swapped);
}

/* --- shape and strides ---------------------------------------------------- */

/* An entry, a tuple or list, as a tuple of at most DLS_NDIM_INTERFACE items, which
 * takes its place among the entries.  Borrowed; NULL with an exception. */
static PyObject *
read_tuple(dls_reading *reading, dls_entry key)
{
    const dls_dict_value entry = dls_dict_get(reading, key, "be a tuple of ints");
    if (dls_dict_require(reading, &entry) < 0) {
        return NULL;
    }
    if (!PyTuple_Check(entry.value) && !PyList_Check(entry.value)) {
        dls_dict_fail_type(reading, &entry);
        return NULL;
    }
    PyObject *tuple = PySequence_Tuple(entry.value);
    if (tuple == NULL) {
        return NULL;
    }
    reading->entries[key] = tuple;
    Py_DECREF(entry.value);
    if (PyTuple_Size(tuple) > DLS_NDIM_INTERFACE) {
        dls_reading_fail(reading,
                         "['%U'] has %zd entries, at most %d are possible\n"
                         "  reshape it first",
                         name_of(reading, key), PyTuple_Size(tuple),
                         DLS_NDIM_INTERFACE);
        return NULL;
    }
    return tuple;
}

/* The ints of a tuple.  All are checked, and as many as there are dimensions stored. */
static int
read_ints(const dls_reading *reading, dls_entry key, PyObject *tuple, int64_t *out)
{
    dls_dict_value item = {.key = key, .wanted = "hold ints of 64 bits"};
    for (Py_ssize_t i = 0; i < PyTuple_Size(tuple); i++) {
        int64_t number;
        item.value = PyTuple_GetItem(tuple, i);
        if (read_int(reading, &item, &number) < 0) {
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
    PyObject *tuple = read_tuple(reading, DLS_ENTRY_shape);
    if (tuple == NULL || dls_reading_set_ndim(reading, PyTuple_Size(tuple)) < 0) {
        return -1;
    }
    return read_ints(reading, DLS_ENTRY_shape, tuple, reading->acquired->tensor.shape);
}

/* Elements to bytes, in place, as dls_reading_finish wants them (T11).  A stride of an
 * extent below 2 counts for nothing and may be anything. */
static int
strides_to_bytes(dls_reading *reading)
{
    dl_tensor *tensor = &reading->acquired->tensor;
    for (int32_t i = 0; i < tensor->ndim; i++) {
        int64_t stride = tensor->strides[i];
        bool fits = dls_mul(stride, reading->itemsize, &tensor->strides[i]);
        if (!fits && tensor->shape[i] >= 2) {
            return dls_reading_fail(
                reading,
                "['strides'][%d] is %lld elements, which overflows as bytes\n"
                "  the dict has to be corrected where it is made",
                (int)i, (long long)stride);
        }
        tensor->strides[i] = fits ? tensor->strides[i] : 0;
    }
    return 0;
}

static int
read_strides(dls_reading *reading)
{
    if (reading->entries[DLS_ENTRY_strides] == NULL) {
        return 0; /* row-major */
    }
    PyObject *tuple = read_tuple(reading, DLS_ENTRY_strides);
    int ndim = reading->acquired->tensor.ndim;
    int64_t *strides = dls_reading_byte_strides(reading);
    if (tuple == NULL || read_ints(reading, DLS_ENTRY_strides, tuple, strides) < 0) {
        return -1;
    }
    if (PyTuple_Size(tuple) != ndim) {
        return dls_reading_fail(reading,
                                "['strides'] has %zd entries but ['shape'] has %d\n"
                                "  the dict has to be corrected where it is made",
                                PyTuple_Size(tuple), ndim);
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
                                "a dict was expected, not %R\n"
                                "  the producer has to be corrected",
                                (PyObject *)Py_TYPE(reading->given));
    }
    bool read = look_up_entries(reading) == 0 && read_version(reading) == 0
                && refuse_mask(reading) == 0 && read_typestr(reading) == 0
                && read_shape(reading) == 0 && read_strides(reading) == 0;
    return read ? 0 : -1;
}

/* --- offset and data ------------------------------------------------------ */

int
dls_dict_read_offset(const dls_reading *reading, int64_t *bytes)
{
    const dls_dict_value entry = dls_dict_get(reading, DLS_ENTRY_offset,
                                              reading->row->offset);
    int64_t unit = reading->row->in_elements ? reading->itemsize : 1, offset = 0;
    assert(entry.wanted != NULL && unit > 0);
    int code = read_number(reading, &entry, 0, INT64_MAX / unit, &offset);
    *bytes = code == 0 ? offset * unit : 0;
    return code;
}

static bool
has_elements(const dl_tensor *tensor)
{
    bool some = true;
    for (int32_t i = 0; i < tensor->ndim; i++) {
        some = some && tensor->shape[i] != 0;
    }
    return some;
}

/* Read each item once. */
static int
set_data(dls_reading *reading, PyObject *address, PyObject *readonly)
{
    const dls_dict_value item = {DLS_ENTRY_data, "start with an address as int",
                                 address};
    uint64_t number = 0;
    /* Numba up to 0.45 gives None as the address of an array without elements. */
    bool nowhere = address == Py_None && !has_elements(&reading->acquired->tensor);
    if (!nowhere && dls_dict_read_unsigned(reading, &item, &number) < 0) {
        return -1;
    }
    if ((uintptr_t)number != number) { /* where addresses have 32 bits */
        return dls_reading_fail(reading, "['data'] starts with an address that lies "
                                         "outside of this process's memory");
    }
    reading->acquired->tensor.data = (void *)(uintptr_t)number;
    int truth = PyObject_IsTrue(readonly);
    if (truth > 0) {
        reading->acquired->flags |= DL_FLAG_READ_ONLY;
    }
    return truth < 0 ? -1 : 0;
}

int
dls_dict_read_pair(dls_reading *reading)
{
    const dls_dict_value pair = dls_dict_get(reading, DLS_ENTRY_data,
                                             reading->row->data);
    Py_ssize_t size = PySequence_Size(pair.value);
    if (size != 2) {
        return size < 0
                   ? -1
                   : fail_shown(reading, &pair,
                                PyUnicode_FromFormat("a sequence of length %zd", size));
    }
    /* The sequence may make its items on the spot: each is asked for once, and the
     * address last, because giving it away can pin the memory for good. */
    PyObject *readonly = PySequence_GetItem(pair.value, 1);
    PyObject *address = readonly != NULL ? PySequence_GetItem(pair.value, 0) : NULL;
    int result = address != NULL ? set_data(reading, address, readonly) : -1;
    Py_XDECREF(address);
    Py_XDECREF(readonly);
    return result;
}

int
dls_dict_read_data(dls_reading *reading)
{
    const dls_dict_value entry = dls_dict_get(reading, DLS_ENTRY_data,
                                              reading->row->data);
    PyObject *value = entry.value;
    if (dls_dict_require(reading, &entry) < 0) {
        return -1;
    }
    bool sequence = PyTuple_Check(value) || PyList_Check(value)
                    || (reading->row->any_sequence && PySequence_Check(value)
                        && !PyUnicode_Check(value) && !PyBytes_Check(value));
    return sequence ? dls_dict_read_pair(reading) : dls_dict_fail_type(reading, &entry);
}

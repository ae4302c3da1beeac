#include "source/reader.h"

#include <string.h>

/* A dict in which every value is checked: it is written by hand in many libraries.
 * Values are held while they are read, reading them may run code that changes it. */
typedef struct {
    dls_reading reading;
    PyObject *dict; /* borrowed */
} interface_dict;

/* 1 = *value is a new reference, 0 = missing or None, -1 = exception set. */
static int
get_value(const interface_dict *from, PyObject *key, PyObject **value)
{
    *value = PyDict_GetItemWithError(from->dict, key); /* borrowed */
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

static int
fail_type(const interface_dict *from, const char *key, const char *wanted,
          PyObject *value)
{
    PyObject *type = PyObject_GetAttrString((PyObject *)Py_TYPE(value), "__name__");
    if (type == NULL) {
        return -1;
    }
    dls_reading_fail(&from->reading,
                     "['%s'] must %s, not %S; the dict has to be corrected where it "
                     "is made",
                     key, wanted, type);
    Py_DECREF(type);
    return -1;
}

static int
fail_value(const interface_dict *from, const char *key, const char *wanted,
           PyObject *value)
{
    return dls_reading_fail(&from->reading,
                            "['%s'] must %s, not %R; the dict has to be corrected "
                            "where it is made",
                            key, wanted, value);
}

/* After a failed conversion: the two errors that speak of the value itself become
 * BufferErrors, all others are the object's own. */
static int
fail_conversion(const interface_dict *from, const char *key, const char *wanted,
                PyObject *value)
{
    if (PyErr_ExceptionMatches(PyExc_TypeError)) {
        PyErr_Clear();
        return fail_type(from, key, wanted, value);
    }
    if (PyErr_ExceptionMatches(PyExc_OverflowError)) {
        PyErr_Clear();
        return fail_value(from, key, wanted, value);
    }
    return -1;
}

static int
read_int(const interface_dict *from, const char *key, const char *wanted,
         PyObject *value, int64_t *out)
{
    long long number = PyLong_AsLongLong(value);
    if (number == -1 && PyErr_Occurred() != NULL) {
        return fail_conversion(from, key, wanted, value);
    }
    *out = number;
    return 0;
}

/* --- version and mask --------------------------------------------------------- */

/* Version 3 is the only one there has been since 2007; NumPy itself does not look. */
static int
check_version(const interface_dict *from)
{
    static const char wanted[] = "be the int 3";
    PyObject *value = NULL;
    int64_t version = 3;
    PyObject *key = PyUnicode_FromString("version");
    int got = key != NULL ? get_value(from, key, &value) : -1;
    if (got > 0) {
        got = read_int(from, "version", wanted, value, &version);
        if (got == 0 && version != 3) {
            got = fail_value(from, "version", wanted, value);
        }
    }
    Py_XDECREF(value);
    Py_XDECREF(key);
    return got < 0 ? -1 : 0;
}

static int
check_mask(const interface_dict *from)
{
    PyObject *value = NULL;
    int got = get_value(from, from->reading.state->names.mask, &value);
    Py_XDECREF(value);
    if (got > 0) {
        return dls_reading_fail(&from->reading,
                                "it has a mask, which DLPack has no word for: fill the "
                                "masked elements first, or wrap its data and its mask "
                                "apart");
    }
    return got;
}

/* --- dtype -------------------------------------------------------------------- */

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
check_descr(const interface_dict *from)
{
    PyObject *descr = NULL;
    int got = get_value(from, from->reading.state->names.descr, &descr);
    if (got > 0) {
        bool fields = dls_reading_has_fields(descr);
        got = fields ? dls_reading_fail_structured(&from->reading) : 0;
    }
    Py_XDECREF(descr);
    return got;
}

static int
read_typestr(interface_dict *from)
{
    static const char wanted[] = "be a str such as '<f4'";
    PyObject *value = NULL;
    char kind;
    int64_t itemsize;
    bool swapped;
    int got = get_value(from, from->reading.state->names.typestr, &value);
    if (got <= 0) {
        return got < 0 ? -1
                       : dls_reading_fail(&from->reading,
                                          "['typestr'] is missing, must %s; the dict "
                                          "has to be corrected where it is made",
                                          wanted);
    }
    const char *text = text_of(value);
    int result = -1;
    if (text == NULL || parse_typestr(text, &kind, &itemsize, &swapped) < 0) {
        fail_value(from, "typestr", wanted, value);
    }
    else if (kind != 'V' || check_descr(from) == 0) {
        result = dls_reading_set_kind(&from->reading, kind, itemsize, swapped);
    }
    Py_DECREF(value);
    return result;
}

/* --- shape and strides -------------------------------------------------------- */

/* ints of a tuple or list into out, which has room for DLS_NDIM_INTERFACE.  Sets
 * *count. */
static int
read_ints(interface_dict *from, const char *key, PyObject *value, int64_t *out,
          Py_ssize_t *count)
{
    if (!PyTuple_Check(value) && !PyList_Check(value)) {
        return fail_type(from, key, "be a tuple of ints", value);
    }
    PyObject *tuple = PySequence_Tuple(value);
    if (tuple == NULL) {
        return -1;
    }
    *count = PyTuple_Size(tuple);
    int result = *count > DLS_NDIM_INTERFACE
                     ? dls_reading_fail(&from->reading,
                                        "['%s'] has %zd entries, at most %d are possible: "
                                        "reshape it first",
                                        key, *count, DLS_NDIM_INTERFACE)
                     : 0;
    for (Py_ssize_t i = 0; i < *count && result == 0; i++) {
        PyObject *item = PyTuple_GetItem(tuple, i); /* borrowed */
        long long number = PyLong_AsLongLong(item);
        if (number == -1 && PyErr_Occurred() != NULL) {
            result = fail_conversion(from, key, "hold ints of 64 bits", item);
        }
        out[i] = number;
    }
    Py_DECREF(tuple);
    return result;
}

static int
read_shape(interface_dict *from)
{
    PyObject *value = NULL;
    Py_ssize_t ndim = 0;
    int got = get_value(from, from->reading.state->names.shape, &value);
    if (got <= 0) {
        return got < 0 ? -1
                       : dls_reading_fail(&from->reading,
                                          "['shape'] is missing, must be a tuple of ints; "
                                          "the dict has to be corrected where it is made");
    }
    int result = read_ints(from, "shape", value, from->reading.loan->tensor.shape, &ndim);
    if (result == 0) {
        result = dls_reading_set_ndim(&from->reading, ndim);
    }
    Py_DECREF(value);
    return result;
}

static int
read_strides(interface_dict *from)
{
    PyObject *value = NULL;
    Py_ssize_t count = 0;
    int got = get_value(from, from->reading.state->names.strides, &value);
    if (got <= 0) {
        return got; /* missing or None: row-major */
    }
    int result = read_ints(from, "strides", value,
                           dls_reading_byte_strides(&from->reading), &count);
    if (result == 0 && count != from->reading.loan->tensor.ndim) {
        result = dls_reading_fail(&from->reading,
                                  "['strides'] has %zd entries but ['shape'] has %d; the "
                                  "dict has to be corrected where it is made",
                                  count, (int)from->reading.loan->tensor.ndim);
    }
    Py_DECREF(value);
    return result;
}

/* --- data --------------------------------------------------------------------- */

static int
read_offset(const interface_dict *from, int64_t *offset)
{
    static const char wanted[] = "be an int, 0 or above";
    PyObject *value = NULL;
    *offset = 0;
    int got = get_value(from, from->reading.state->names.offset, &value);
    if (got > 0) {
        got = read_int(from, "offset", wanted, value, offset);
        if (got == 0 && *offset < 0) {
            got = fail_value(from, "offset", wanted, value);
        }
    }
    Py_XDECREF(value);
    return got;
}

/* data = (address, read-only). */
static int
read_pointer(interface_dict *from, PyObject *pair)
{
    dls_loan *loan = from->reading.loan;
    int64_t offset;
    if (PyTuple_Size(pair) != 2) {
        return fail_value(from, "data", "be a tuple (address, read-only)", pair);
    }
    if (read_offset(from, &offset) < 0) {
        return -1;
    }
    if (offset != 0) {
        return dls_reading_fail(&from->reading,
                                "['offset'] counts only from a buffer in ['data'], not "
                                "from an address: it has to be added where the dict is "
                                "made");
    }
    PyObject *first = PyTuple_GetItem(pair, 0); /* borrowed */
    PyObject *address = PyNumber_Index(first);
    if (address != NULL) {
        /* Unsigned: a negative number is no address, though it would wrap to one. */
        loan->tensor.data = (void *)(uintptr_t)PyLong_AsUnsignedLongLong(address);
        Py_DECREF(address);
    }
    if (PyErr_Occurred() != NULL) {
        return fail_conversion(from, "data", "start with an address as int", first);
    }
    int readonly = PyObject_IsTrue(PyTuple_GetItem(pair, 1));
    if (readonly > 0) {
        loan->flags |= DL_FLAG_READ_ONLY;
    }
    return readonly < 0 ? -1 : dls_reading_finish(&from->reading, NULL, NULL);
}

/* The buffer of `exporter`: every byte that is touched must be inside. */
static int
read_buffer_data(interface_dict *from, PyObject *exporter)
{
    dls_loan *loan = from->reading.loan;
    int64_t offset, low, high;
    if (read_offset(from, &offset) < 0) {
        return -1;
    }
    if (!dls_late.PyObject_CheckBuffer(exporter)) {
        return fail_type(from, "data",
                         "be a tuple (address, read-only), an object with the buffer "
                         "protocol, or None for the object's own buffer",
                         exporter);
    }
    /* 0 is PyBUF_SIMPLE: one run of bytes. */
    const dls_buffer *view = dls_reading_hold_buffer(&from->reading, exporter, 0);
    if (view == NULL) {
        return -1;
    }
    if (view->readonly) {
        loan->flags |= DL_FLAG_READ_ONLY;
    }
    bool inside = offset <= view->len;
    loan->tensor.data = view->buf;
    if (view->buf != NULL && inside) {
        loan->tensor.data = (char *)view->buf + offset;
    }
    if (dls_reading_finish(&from->reading, &low, &high) < 0) {
        return -1;
    }
    if (!inside || low < -offset || high > view->len - offset) {
        return dls_reading_fail(&from->reading,
                                "shape, strides and offset reach beyond the %zd bytes of "
                                "the buffer in ['data']; the dict has to be corrected "
                                "where it is made",
                                view->len);
    }
    return 0;
}

static int
read_data(interface_dict *from)
{
    PyObject *value = NULL;
    int got = get_value(from, from->reading.state->names.data, &value);
    if (got < 0) {
        return -1;
    }
    int result = got > 0 && PyTuple_Check(value)
                     ? read_pointer(from, value)
                     : read_buffer_data(from, got > 0 ? value : from->reading.obj);
    Py_XDECREF(value);
    return result;
}

/* --- the protocol ------------------------------------------------------------- */

/* The dict is held too: NumPy's scalars keep the array that they made in it. */
static int
read_dict(interface_dict *from)
{
    if (!PyDict_Check(from->dict)) {
        return dls_reading_fail(&from->reading,
                                "a dict was expected, not %R; the producer has to be "
                                "corrected",
                                (PyObject *)Py_TYPE(from->dict));
    }
    if (check_version(from) < 0 || check_mask(from) < 0 || read_typestr(from) < 0
        || read_shape(from) < 0 || read_strides(from) < 0 || read_data(from) < 0) {
        return -1;
    }
    from->reading.loan->hold.py = PyTuple_Pack(2, from->reading.obj, from->dict);
    return from->reading.loan->hold.py != NULL ? 0 : -1;
}

int
dls_read_array_interface(dls_state *state, PyObject *obj, dls_loan *loan)
{
    PyObject *dict = NULL;
    int got = dls_get_optional(obj, state->names.array_interface, &dict);
    if (got > 0 && dict == Py_None) {
        got = 0; /* how a class says that it does not offer what its base does */
    }
    if (got > 0) {
        interface_dict from = {
            .reading = dls_reading_begin(state, obj, "__array_interface__", loan),
            .dict = dict};
        got = dls_reading_end(&from.reading, read_dict(&from));
    }
    Py_XDECREF(dict);
    return got;
}

#include "older_protocols/interface_dict.h"

#include <string.h>

/* --- the dict ----------------------------------------------------------------- */

int
dls_interface_check_dict(const dls_interface *from)
{
    if (PyDict_Check(from->dict)) {
        return 0;
    }
    return dls_reading_fail(&from->reading,
                            "a dict was expected, not %R; the producer has to be "
                            "corrected",
                            (PyObject *)Py_TYPE(from->dict));
}

int
dls_interface_hold(dls_interface *from)
{
    from->reading.loan->hold.py = PyTuple_Pack(2, from->reading.obj, from->dict);
    return from->reading.loan->hold.py != NULL ? 0 : -1;
}

int
dls_interface_get(const dls_interface *from, PyObject *key, PyObject **value)
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

int
dls_interface_get_text(const dls_interface *from, const char *key, PyObject **value)
{
    PyObject *name = PyUnicode_FromString(key);
    *value = NULL;
    if (name == NULL) {
        return -1;
    }
    int got = dls_interface_get(from, name, value);
    Py_DECREF(name);
    return got;
}

/* --- errors --------------------------------------------------------------------- */

int
dls_interface_fail_type(const dls_interface *from, const char *key, const char *wanted,
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

int
dls_interface_fail_value(const dls_interface *from, const char *key, const char *wanted,
                         PyObject *value)
{
    return dls_reading_fail(&from->reading,
                            "['%s'] must %s, not %R; the dict has to be corrected "
                            "where it is made",
                            key, wanted, value);
}

int
dls_interface_fail_missing(const dls_interface *from, const char *key,
                           const char *wanted)
{
    return dls_reading_fail(&from->reading,
                            "['%s'] is missing, must %s; the dict has to be corrected "
                            "where it is made",
                            key, wanted);
}

/* After a failed conversion: the two errors that speak of the value itself become
 * BufferErrors, all others are the object's own. */
static int
fail_conversion(const dls_interface *from, const char *key, const char *wanted,
                PyObject *value)
{
    if (PyErr_ExceptionMatches(PyExc_TypeError)) {
        PyErr_Clear();
        return dls_interface_fail_type(from, key, wanted, value);
    }
    if (PyErr_ExceptionMatches(PyExc_OverflowError)) {
        PyErr_Clear();
        return dls_interface_fail_value(from, key, wanted, value);
    }
    return -1;
}

/* --- numbers ---------------------------------------------------------------------- */

int
dls_interface_refuse_bool(const dls_interface *from, const char *key,
                          const char *wanted, PyObject *value)
{
    return PyBool_Check(value) ? dls_interface_fail_type(from, key, wanted, value) : 0;
}

int
dls_interface_read_int(const dls_interface *from, const char *key, const char *wanted,
                       PyObject *value, int64_t *out)
{
    long long number = PyLong_AsLongLong(value);
    if (number == -1 && PyErr_Occurred() != NULL) {
        return fail_conversion(from, key, wanted, value);
    }
    *out = number;
    return 0;
}

int
dls_interface_read_unsigned(const dls_interface *from, const char *key,
                            const char *wanted, PyObject *value, uint64_t *out)
{
    PyObject *number = PyNumber_Index(value);
    if (number != NULL) {
        *out = PyLong_AsUnsignedLongLong(number);
        Py_DECREF(number);
    }
    return PyErr_Occurred() != NULL ? fail_conversion(from, key, wanted, value) : 0;
}

/* --- mask ---------------------------------------------------------------------------
 */

int
dls_interface_check_mask(const dls_interface *from)
{
    PyObject *value = NULL;
    int got = dls_interface_get(from, from->reading.state->names.mask, &value);
    Py_XDECREF(value);
    if (got > 0) {
        return dls_reading_fail(&from->reading,
                                "it has a mask, which DLPack has no word for: fill the "
                                "masked elements first, or wrap its data and its mask "
                                "apart");
    }
    return got;
}

/* --- dtype --------------------------------------------------------------------------
 */

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
check_descr(const dls_interface *from)
{
    PyObject *descr = NULL;
    int got = dls_interface_get(from, from->reading.state->names.descr, &descr);
    if (got > 0) {
        bool fields = dls_reading_has_fields(descr);
        got = fields ? dls_reading_fail_structured(&from->reading) : 0;
    }
    Py_XDECREF(descr);
    return got;
}

int
dls_interface_read_typestr(dls_interface *from)
{
    static const char wanted[] = "be a str such as '<f4'";
    PyObject *value = NULL;
    char kind;
    int64_t itemsize;
    bool swapped;
    int got = dls_interface_get(from, from->reading.state->names.typestr, &value);
    if (got <= 0) {
        return got < 0 ? -1 : dls_interface_fail_missing(from, "typestr", wanted);
    }
    const char *text = text_of(value);
    int result = -1;
    if (text == NULL || parse_typestr(text, &kind, &itemsize, &swapped) < 0) {
        dls_interface_fail_value(from, "typestr", wanted, value);
    }
    else if (kind != 'V' || check_descr(from) == 0) {
        result = dls_reading_set_kind(&from->reading, kind, itemsize, swapped);
    }
    Py_DECREF(value);
    return result;
}

/* --- shape and strides
 * ---------------------------------------------------------------- */

/* ints of a tuple or list into out, which has room for DLS_NDIM_INTERFACE.  Sets
 * *count. */
static int
read_ints(dls_interface *from, const char *key, PyObject *value, int64_t *out,
          Py_ssize_t *count)
{
    if (!PyTuple_Check(value) && !PyList_Check(value)) {
        return dls_interface_fail_type(from, key, "be a tuple of ints", value);
    }
    PyObject *tuple = PySequence_Tuple(value);
    if (tuple == NULL) {
        return -1;
    }
    *count = PyTuple_Size(tuple);
    int result =
        *count > DLS_NDIM_INTERFACE
            ? dls_reading_fail(&from->reading,
                               "['%s'] has %zd entries, at most %d are possible: "
                               "reshape it first",
                               key, *count, DLS_NDIM_INTERFACE)
            : 0;
    for (Py_ssize_t i = 0; i < *count && result == 0; i++) {
        result = dls_interface_read_int(from, key, "hold ints of 64 bits",
                                        PyTuple_GetItem(tuple, i), &out[i]);
    }
    Py_DECREF(tuple);
    return result;
}

int
dls_interface_read_shape(dls_interface *from)
{
    PyObject *value = NULL;
    Py_ssize_t ndim = 0;
    int got = dls_interface_get(from, from->reading.state->names.shape, &value);
    if (got <= 0) {
        return got < 0
                   ? -1
                   : dls_interface_fail_missing(from, "shape", "be a tuple of ints");
    }
    int result = read_ints(from, "shape", value, from->reading.loan->tensor.shape,
                           &ndim);
    if (result == 0) {
        result = dls_reading_set_ndim(&from->reading, ndim);
    }
    Py_DECREF(value);
    return result;
}

int
dls_interface_read_strides(dls_interface *from)
{
    PyObject *value = NULL;
    Py_ssize_t count = 0;
    int got = dls_interface_get(from, from->reading.state->names.strides, &value);
    if (got <= 0) {
        return got; /* missing or None: row-major */
    }
    int result = read_ints(from, "strides", value,
                           dls_reading_byte_strides(&from->reading), &count);
    if (result == 0 && count != from->reading.loan->tensor.ndim) {
        result =
            dls_reading_fail(&from->reading,
                             "['strides'] has %zd entries but ['shape'] has %d; the "
                             "dict has to be corrected where it is made",
                             count, (int)from->reading.loan->tensor.ndim);
    }
    Py_DECREF(value);
    return result;
}

/* --- data
 * ------------------------------------------------------------------------------- */

int
dls_interface_set_data(dls_interface *from, PyObject *address, PyObject *readonly)
{
    dls_loan *loan = from->reading.loan;
    uint64_t number;
    if (dls_interface_read_unsigned(from, "data", "start with an address as int",
                                    address, &number)
        < 0) {
        return -1;
    }
    loan->tensor.data = (void *)(uintptr_t)number;
    int truth = PyObject_IsTrue(readonly);
    if (truth > 0) {
        loan->flags |= DL_FLAG_READ_ONLY;
    }
    return truth < 0 ? -1 : 0;
}

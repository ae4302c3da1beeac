#include "older_protocols/interface_dict.h"

/* --- version ------------------------------------------------------------------ */

/* Version 3 is the only one there has been since 2007; NumPy itself does not look. */
static int
check_version(const dls_interface *from)
{
    static const char wanted[] = "be the int 3";
    PyObject *value = NULL;
    int64_t version = 3;
    int got = dls_interface_get_text(from, "version", &value);
    if (got > 0) {
        got = dls_interface_read_int(from, "version", wanted, value, &version);
        if (got == 0 && version != 3) {
            got = dls_interface_fail_value(from, "version", wanted, value);
        }
    }
    Py_XDECREF(value);
    return got < 0 ? -1 : 0;
}

/* --- data --------------------------------------------------------------------- */

static int
read_offset(const dls_interface *from, int64_t *offset)
{
    static const char wanted[] = "be an int, 0 or above";
    PyObject *value = NULL;
    *offset = 0;
    int got = dls_interface_get(from, from->reading.state->names.offset, &value);
    if (got > 0) {
        got = dls_interface_read_int(from, "offset", wanted, value, offset);
        if (got == 0 && *offset < 0) {
            got = dls_interface_fail_value(from, "offset", wanted, value);
        }
    }
    Py_XDECREF(value);
    return got;
}

/* data = (address, read-only). */
static int
read_pointer(dls_interface *from, PyObject *pair)
{
    int64_t offset;
    if (PyTuple_Size(pair) != 2) {
        return dls_interface_fail_value(from, "data", "be a tuple (address, read-only)",
                                        pair);
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
    if (dls_interface_set_data(from, PyTuple_GetItem(pair, 0), PyTuple_GetItem(pair, 1))
        < 0) {
        return -1;
    }
    return dls_reading_finish(&from->reading, NULL, NULL);
}

/* The buffer of `exporter`: every byte that is touched must be inside. */
static int
read_buffer_data(dls_interface *from, PyObject *exporter)
{
    dls_loan *loan = from->reading.loan;
    int64_t offset, low, high;
    if (read_offset(from, &offset) < 0) {
        return -1;
    }
    if (!dls_late.PyObject_CheckBuffer(exporter)) {
        return dls_interface_fail_type(
            from, "data",
            "be a tuple (address, read-only), an object with "
            "the buffer protocol, or None for the object's own "
            "buffer",
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
        return dls_reading_fail(
            &from->reading,
            "shape, strides and offset reach beyond the %zd bytes of "
            "the buffer in ['data']; the dict has to be corrected "
            "where it is made",
            view->len);
    }
    return 0;
}

static int
read_data(dls_interface *from)
{
    PyObject *value = NULL;
    int got = dls_interface_get(from, from->reading.state->names.data, &value);
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

static int
read_dict(dls_interface *from)
{
    if (dls_interface_check_dict(from) < 0 || check_version(from) < 0
        || dls_interface_check_mask(from) < 0 || dls_interface_read_typestr(from) < 0
        || dls_interface_read_shape(from) < 0 || dls_interface_read_strides(from) < 0
        || read_data(from) < 0) {
        return -1;
    }
    return dls_interface_hold(from);
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
        dls_interface from = {.reading = dls_reading_begin(state, obj,
                                                           "__array_interface__", loan),
                              .dict = dict};
        got = dls_reading_end(&from.reading, read_dict(&from));
    }
    Py_XDECREF(dict);
    return got;
}

/* Reads __array_interface__ (version 3), the dict of NumPy and its kin.
 * Called through the table in protocols.c, with the GIL.
 * Tests: tests/core/test_ways_in.py, test_bad_input.py. */
#include "protocols/reading.h"

#include "protocols/interface_dict.h"

/* ['data'] is the tuple (address, read-only). */
static int
read_pointer(dls_reading *reading)
{
    int64_t offset;
    /* A wrong pair is reported before a wrong offset. */
    if (PyTuple_Size(reading->entries[DLS_ENTRY_data]) == 2) {
        if (dls_dict_read_offset(reading, &offset) < 0) {
            return -1;
        }
        if (offset != 0) {
            return dls_reading_fail(
                reading, "['offset'] counts only from a buffer in ['data'], not from "
                         "an address\n"
                         "  add the offset to the address where the dict is made");
        }
    }
    return dls_dict_read_pair(reading) < 0 ? -1 : dls_reading_finish(reading);
}

/* Bools of which a byte is neither 0 nor 1: DLPack has no such bool (Pillow's image of
 * one bit has 255).  Bytes, which nobody can write, are replaced by a corrected copy.
 * The exporter or the copy, a new reference; NULL with an exception. */
static PyObject *
correct_bools(const dls_reading *reading, PyObject *exporter)
{
    char *bytes, *corrected;
    Py_ssize_t n, i = 0;
    if (reading->acquired->tensor.dtype.code != dl_kDLBool
        || !PyBytes_CheckExact(exporter)) {
        return Py_NewRef(exporter);
    }
    if (PyBytes_AsStringAndSize(exporter, &bytes, &n) < 0) {
        return NULL;
    }
    while (i < n && (unsigned char)bytes[i] <= 1) {
        i++;
    }
    if (i == n) {
        return Py_NewRef(exporter);
    }
    PyObject *copy = PyBytes_FromStringAndSize(NULL, n);
    if (copy != NULL && PyBytes_AsStringAndSize(copy, &corrected, &n) == 0) {
        for (i = 0; i < n; i++) {
            corrected[i] = bytes[i] != 0;
        }
    }
    return copy;
}

/* ['data'] is an object with a buffer: every byte that is touched must be inside (T11).
 */
static int
read_buffer(dls_reading *reading, PyObject *exporter)
{
    dls_acquired *acquired = reading->acquired;
    int64_t offset;
    if (dls_dict_read_offset(reading, &offset) < 0) {
        return -1;
    }
    if (!dls_compat.PyObject_CheckBuffer(exporter)) {
        const dls_dict_value data = {
            DLS_ENTRY_data,
            "be a tuple (address, read-only), an object with the buffer protocol, or "
            "None for the object's own buffer",
            exporter};
        return dls_dict_fail_type(reading, &data);
    }
    PyObject *bytes = correct_bools(reading, exporter);
    if (bytes == NULL) {
        return -1;
    }
    /* 0 is PyBUF_SIMPLE: one run of bytes. */
    const dls_buffer *view = dls_reading_hold_buffer(reading, bytes, 0);
    if (bytes != exporter) {
        acquired->flags |= DL_FLAG_IS_COPIED;
    }
    Py_DECREF(bytes);
    if (view == NULL) {
        return -1;
    }
    bool inside = offset <= view->len;
    acquired->tensor.data = view->buf;
    if (view->buf != NULL && inside) {
        acquired->tensor.data = (char *)view->buf + offset;
    }
    if (dls_reading_finish(reading) < 0) {
        return -1;
    }
    if (!inside || reading->low < -offset || reading->high > view->len - offset) {
        return dls_reading_fail(reading,
                                "shape, strides and offset reach beyond the %zd bytes "
                                "of the buffer in ['data']\n"
                                "  the dict has to be corrected where it is made",
                                view->len);
    }
    return 0;
}

int
dls_array_interface_read(dls_reading *reading)
{
    if (dls_dict_open(reading) < 0) {
        return -1;
    }
    PyObject *data = reading->entries[DLS_ENTRY_data];
    return data != NULL && PyTuple_Check(data)
               ? read_pointer(reading)
               : read_buffer(reading, data != NULL ? data : reading->obj);
}

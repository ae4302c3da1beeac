/* What the readers of the older protocols share: checks, dtypes, strides, errors. */
#ifndef DLS_SOURCE_READER_H
#define DLS_SOURCE_READER_H

#include "exchange/acquired.h"

/* One reading in progress, between dls_reading_begin and dls_reading_end. */
typedef struct {
    dls_state *state;
    PyObject *obj;        /* borrowed: what is read */
    const char *protocol; /* named in messages, "__array_interface__" */
    dls_loan *loan;
    int64_t itemsize; /* bytes of one element, set with the dtype */
} dls_reading;

/* An empty loan of writable host memory, and the reading that fills it. */
dls_reading dls_reading_begin(dls_state *state, PyObject *obj, const char *protocol,
                              dls_loan *loan);

/* End with the result of the last step: 1, or -1 after the loan was emptied. */
int dls_reading_end(dls_reading *reading, int result);

/* BufferError "'pkg.Type' object: <protocol>: <text>".  Always -1. */
int dls_reading_fail(const dls_reading *reading, const char *format, ...);

/* All steps below: 0, or -1 with an exception set. */

/* Set tensor.ndim after a check, and tensor.shape to the loan's own dims. */
int dls_reading_set_ndim(dls_reading *reading, int64_t ndim);

/* Item sizes must be one byte or more; dls_reading_set_kind checks it itself. */
int dls_reading_check_itemsize(const dls_reading *reading, int64_t itemsize);

/* Set the dtype from an array-interface kind.  swapped: its byte order is not the
 * machine's (no matter for single bytes). */
int dls_reading_set_kind(dls_reading *reading, char kind, int64_t itemsize,
                         bool swapped);

/* Set the dtype of elements that the protocol has no word for: what obj.dtype.name
 * says when the size fits, else DLS_DTYPE_UNKNOWN.  itemsize was checked.  Runs the
 * object's code. */
int dls_reading_set_unnamed(dls_reading *reading, int64_t itemsize);

/* BufferErrors that two readers give. */
int dls_reading_fail_swapped(const dls_reading *reading);
int dls_reading_fail_structured(const dls_reading *reading);

/* Does a `descr` list have fields?  [("", typestr)] has none. */
bool dls_reading_has_fields(PyObject *descr);

/* Where strides go, in bytes, ndim of them, before dls_reading_finish turns them into
 * elements.  Sets tensor.strides; not called for row-major data. */
int64_t *dls_reading_byte_strides(dls_reading *reading);

/* Last step, with tensor.data, ndim, shape, dtype and byte strides in place: check
 * extents, divisibility and overflow (T11), and that data is there.  *low and *high
 * (both may be NULL): bytes touched, relative to data (dls_layout_span). */
int dls_reading_finish(dls_reading *reading, int64_t *low, int64_t *high);

/* Acquire a buffer of `exporter` into loan->hold (DLS_HOLD_BUFFER).  The view is
 * borrowed from the hold; NULL with an exception set on failure. */
dls_buffer *dls_reading_hold_buffer(dls_reading *reading, PyObject *exporter,
                                    int flags);

#endif

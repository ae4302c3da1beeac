/* One object that is being read through an older protocol, and the steps that several
 * readers share: errors, dimensions, dtypes, strides, buffers.  Called by the files of
 * this folder; all functions need the GIL, and some, which say so, run foreign code.
 *
 * Functions return 0, or -1 with an exception set, unless they say otherwise. */
#pragma once

#include "exchange/exchange.h"

typedef struct dls_reading dls_reading;

/* The entries of a dict that are read (interface_dict.h). */
#define DLS_ENTRY_LIST(X)                                                       \
    X(version), X(mask), X(typestr), X(descr), X(shape), X(strides), X(offset), \
        X(data), X(stream), X(syclobj)
#define DLS_ENTRY_ENUM(key) DLS_ENTRY_##key
typedef enum { DLS_ENTRY_LIST(DLS_ENTRY_ENUM), DLS_ENTRY_COUNT } dls_entry;

/* Reads one protocol: fills reading->acquired, and *reading->p if the protocol names
 * the producer stream.  On failure the caller drops the acquired.  A reader that leaves
 * hold.py NULL has the object and `given` held by the caller. */
typedef int (*dls_reader)(dls_reading *reading);

/* One described protocol; the table of them is in protocols.c. */
typedef struct {
    dls_reader read;

    /* The rest is about protocols whose attribute is a dict (interface_dict.h). */
    int8_t oldest, newest; /* versions that are read */
    uint16_t lacks;        /* bits 1 << DLS_ENTRY_*: entries it does not have */
    bool strict;           /* a version is required, and a bool is no int */
    bool in_elements;      /* strides and offset count elements, not bytes */
    bool any_sequence;     /* ['data'] may be any sequence, not only tuple or list */
    bool off_host;         /* its memory may be on a device: it is not mended */
    const char *version;   /* ends the sentence "['version'] must ..." */
    const char *offset;    /* the same for ['offset']; NULL: there is none */
    const char *data;      /* the same for ['data'] */
} dls_described_protocol;

/* One reading.  All pointers are borrowed from the caller, but for the entries. */
struct dls_reading {
    dls_state *state;
    PyObject *obj;         /* the object that is read */
    dls_protocol protocol; /* named in messages */
    const dls_described_protocol *row;
    /* The value of the attribute; NULL: the protocol has none, or (Arrow) the reader
     * calls it by its name. */
    PyObject *given;
    /* The entries of a dict, strong, set by dls_dict_open; NULL: missing or None. */
    PyObject *entries[DLS_ENTRY_COUNT];
    const dls_request *request;
    bool in_memory;      /* Arrow: the chunks are there (DLS_LIB_IN_MEMORY) */
    bool tells_elements; /* dls_plan.tells_elements */
    bool is_known;       /* the object is of a library with a row (types/library.h) */
    dls_acquired *acquired;
    dls_producer_stream *p; /* the producer stream; UNKNOWN at the start */
    /* Where a reader of Arrow moves the array that keeps the memory alive; its release
     * is NULL at the start, and stays so where there is no such array. */
    arrow_array *array;
    int64_t version;   /* of a dict */
    int64_t itemsize;  /* bytes of one element, set with the dtype */
    int64_t low, high; /* bytes touched, relative to data, set by dls_reading_finish */
    /* The memory is copied, because DLPack cannot describe it (N9): */
    bool mends;
    int64_t swapped; /* bytes of a number that is in a foreign byte order; 0: none is */
};

/* The name of the protocol's attribute, borrowed; not for one that has none. */
static inline PyObject *
dls_reading_attribute(const dls_reading *reading)
{
    return reading->state->all_names[dls_protocol_attributes[reading->protocol]];
}

/* BufferError "'pkg.Type' object: <protocol>: <text>".  Always -1. */
int dls_reading_fail(const dls_reading *reading, const char *format, ...);
/* As dls_reading_fail, for a text that names an option of upgrade that helps. */
int dls_reading_fail_option(const dls_reading *reading, const char *format, ...);

/* A BufferError that two readers give.  Always -1. */
int dls_reading_fail_structured(const dls_reading *reading);

/* After the dtype was set: its numbers, of so many bytes each, are in a foreign byte
 * order, which the copy that was asked for will mend.  0, or -1 where none was. */
int dls_reading_swap(dls_reading *reading, int64_t bytes);

/* Set tensor.ndim after a check, and make room for the dims (acquired->dims).  The
 * caller then fills tensor.shape.  Called once in a reading. */
int dls_reading_set_ndim(dls_reading *reading, int64_t ndim);

/* Item sizes must be one byte or more; dls_reading_set_kind checks it itself. */
int dls_reading_check_itemsize(const dls_reading *reading, int64_t itemsize);

/* Set the dtype that the protocol says, or obj.dtype in its place (T7).  itemsize was
 * checked.  Runs the object's code. */
int dls_reading_set_dtype(dls_reading *reading, dl_dtype said, int64_t itemsize);

/* Set the dtype from an array-interface kind; one that is no kind of NumPy's own is
 * that of a registered dtype.  swapped: its byte order is not the machine's (no matter
 * for single bytes).  Runs the object's code. */
int dls_reading_set_kind(dls_reading *reading, char kind, int64_t itemsize,
                         bool swapped);

/* Set the dtype of elements that the protocol cannot describe: that of obj.dtype if
 * the size fits, else a code of dtype.h that is none of DLPack's.  kind: of the
 * array interface.  itemsize was checked.  Runs the object's code. */
int dls_reading_set_unnamed(dls_reading *reading, char kind, int64_t itemsize);

/* Does a `descr` list have fields?  [("", typestr)] has none. */
bool dls_reading_has_fields(PyObject *descr);

/* Return room for the reader's tensor.ndim strides in bytes, which dls_reading_finish
 * turns into elements, unless the memory is copied.  Sets tensor.strides, so it is not
 * called for row-major data. */
int64_t *dls_reading_byte_strides(dls_reading *reading);
/* As dls_reading_byte_strides, from an array of C; NULL: row-major. */
void dls_reading_copy_strides(dls_reading *reading, const intptr_t *strides);

/* The step after tensor.data, ndim, shape, dtype and byte strides: check extents,
 * divisibility and overflow (T11), and that data is there (T6).  Sets low and high. */
int dls_reading_finish(dls_reading *reading);

/* Where reading->mends: copy the memory of a finished reading into a block of ours, in
 * row-major order and in the machine's byte order. */
int dls_reading_mend(dls_reading *reading);

/* Acquire a buffer of `exporter` into acquired->hold (DLS_HOLD_BUFFER).  The view is
 * borrowed from the hold; NULL with an exception set on failure.  Runs the exporter's
 * code. */
const dls_buffer *dls_reading_hold_buffer(dls_reading *reading, PyObject *exporter,
                                          int flags);

/* --- the readers ----------------------------------------------------------- */
/* A dls_reader each, called through the table of protocols.c; foreign code runs.
 */

/* cuda_interface.c: __cuda_array_interface__, versions 0 to 3. */
int dls_cuda_interface_read(dls_reading *reading);
/* sycl_interface.c: __sycl_usm_array_interface__, version 1.  acquired->hold.py becomes
 * the tuple (object, dict, syclobj), the last in a form that may be given to others
 * again and again. */
int dls_sycl_interface_read(dls_reading *reading);
/* array_struct.c: __array_struct__, a capsule of NumPy's PyArrayInterface. */
int dls_array_struct_read(dls_reading *reading);
/* array_interface.c: __array_interface__, version 3. */
int dls_array_interface_read(dls_reading *reading);
/* buffer.c: the buffer protocol (PEP 3118). */
int dls_buffer_read(dls_reading *reading);
/* arrow_array.c and arrow_stream.c: the four methods of Arrow.  *reading->array becomes
 * the array, or acquired->hold the memory of joined chunks (DLS_HOLD_BLOCK). */
int dls_arrow_array_read(dls_reading *reading);
int dls_arrow_stream_read(dls_reading *reading);

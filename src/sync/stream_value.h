/* Stream values: what a consumer, a user or a producer may name (reference streams.md
 * section 5).  GIL held. */
#ifndef DLS_SOURCE_STREAM_H
#define DLS_SOURCE_STREAM_H

#include "core/sync_words.h"
#include "python/py.h"
#include "python/state.h"

/* Is `stream` a value that the protocol knows at all: None, an int in [-1, 2**64), or a
 * stream object?  0, or -1 with TypeError (bool, float, str, bytes, others) or
 * ValueError (ints out of range).  Nothing of a stream object is called. */
int dls_stream_check(dls_state *state, PyObject *stream);

/* -1, "no ordering"?  stream was accepted by dls_stream_check; NULL allowed. */
bool dls_stream_is_minus_one(PyObject *stream);

typedef struct {
    dls_value value;
    uint64_t handle; /* of ONE, TWO, HANDLE; 0 for ZERO */
    bool from_object;
} dls_stream;

/* Read an accepted value (NULL is None); a stream object is asked for its handle, and 0
 * from one means the default stream.  0, or -1 with what the object raised, TypeError
 * or ValueError. */
int dls_stream_read(dls_state *state, PyObject *stream, dls_stream *out);

/* The same for devices whose streams nobody here knows: an object is not looked into,
 * its address stands for it. */
int dls_stream_read_opaque(dls_state *state, PyObject *stream, dls_stream *out);

#endif

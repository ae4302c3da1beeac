/* Streams: what a consumer may pass and what a producer is passed.  This part
 * is host memory and forwarding; edges and waits come with the CUDA road. */
#ifndef DLS_SOURCE_ORDER_H
#define DLS_SOURCE_ORDER_H

#include "abi/dlpack_abi.h"
#include "python/py.h"
#include "python/state.h"

/* Is `stream` a value that the protocol knows at all: None, an int in [-1, 2**64), or a
 * stream object (reference streams.md section 5, or _get_capsule)?  0, or -1 with
 * TypeError (bool, float, str, bytes, others) or ValueError (ints out of range). */
int dls_stream_check(dls_state *state, PyObject *stream);

/* -1, "no ordering"?  stream was accepted by dls_stream_check; NULL allowed. */
bool dls_stream_is_minus_one(PyObject *stream);

/* What a producer on `device` is passed for the consumer's stream (NULL = none given):
 * a new reference.  NULL with ValueError or TypeError for values that the device does
 * not know (CUDA 0; ROCm 1 and 2; ints on oneAPI). */
PyObject *dls_stream_for_producer(dls_state *state, dl_device device, PyObject *stream,
                                  bool no_minus_one);

#endif

/* Values of `stream`, as a consumer, a user or a library may name it (S1).
 *
 * GIL held.  Every function that returns an int returns 0, or -1 with an exception. */
#pragma once

#include "core/sync_words.h"
#include "python/py.h"
#include "python/state.h"

/* Is `stream` a stream of any device: None, an int in [-1, 2**64), or a stream object?
 * -1 with TypeError (bool, float, str, bytes, other objects) or ValueError (ints out of
 * range).  Attributes of a stream object are looked up, but none is called. */
int dls_stream_check(dls_state *state, PyObject *stream);

/* Is it the word "auto", which is the same as no option? */
bool dls_stream_is_auto(PyObject *stream);

/* Is it the word "wait" (S25), which only the option and from_dlpack take? */
bool dls_stream_is_wait(PyObject *stream);

/* Is it -1, which asks for no sync (S10)?  stream was accepted by dls_stream_check, or
 * is NULL. */
bool dls_stream_is_minus_one(PyObject *stream);

/* Read an accepted value, or "wait"; NULL stands for None.  A stream object is asked
 * for its handle; 0 from an object means the default stream.  -1 with the exception of
 * the object, TypeError or ValueError. */
int dls_stream_read(dls_state *state, PyObject *stream, dls_stream *out);

/* As dls_stream_read, for devices whose streams dlshim does not know (S8):
 * the object is not asked, its address stands for it. */
int dls_stream_read_opaque(dls_state *state, PyObject *stream, dls_stream *out);

/* Raise ValueError (task VALUE_ERROR) or TypeError (TYPE_ERROR): the value is no stream
 * of these devices.  Always -1. */
int dls_stream_raise_wrong(dls_state *state, dls_family family, dls_task task,
                           PyObject *stream);

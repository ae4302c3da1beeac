/* What the one who takes memory accepts: dtypes, numbers of dimensions, host memory
 * alone, memory that may be written.
 *
 * The record is the dlshim_request of dlshim.h, which extensions fill in C; that of
 * from_dlpack and kernel is read from their keywords.  What came is compared with it
 * here, for all of them, after the exchange has done what a copy can do.  The GIL is
 * held. */
#pragma once

#include "core/dtype.h"
#include "python/state.h"

#include <dlshim.h>

/* Is the dtype one of those that are accepted? */
bool dls_wanted_has_dtype(const dlshim_request *wanted, dl_dtype dtype);

/* Is the tensor accepted?  Its layout was looked at before. */
static inline bool
dls_wanted_accepts(const dlshim_request *wanted, const dl_tensor *tensor,
                   uint64_t flags)
{
    bool rank = wanted->ranks == 0
                || (tensor->ndim < 64 && wanted->ranks >> tensor->ndim & 1);
    return rank
           && (wanted->dtype_count == 0 || dls_wanted_has_dtype(wanted, tensor->dtype))
           && (wanted->device_type != 0
               || dls_device_is_host(tensor->device.device_type))
           && (wanted->writable == 0 || (flags & DL_FLAG_READ_ONLY) == 0);
}

/* Refuse what obj gives, by shim/cures.py: an error that the caller of the function
 * understands.  tensor NULL: a pending exception says what is wrong.  Always -1. */
int dls_wanted_refuse(dls_state *state, PyObject *obj, const dlshim_request *wanted,
                      const dl_tensor *tensor);

/* The caller wants to write, but obj is a Producer with copy=True: the writes would be
 * lost with the copy.  0, or -1 with BufferError. */
int dls_wanted_check_writes(dls_state *state, PyObject *obj,
                            const dlshim_request *wanted);

/* The same, and the caller may want no copy at all: two wishes that contradict each
 * other.  0, or -1 with BufferError or CopyRequiredError. */
int dls_wanted_check_copy(dls_state *state, PyObject *obj,
                          const dlshim_request *wanted);

/* --- read from keywords ----------------------------------------------------- */

/* A record that was read from objects of Python. */
typedef struct {
    dlshim_request request;
    dlshim_dtype *dtypes; /* owned: those of the request, or NULL */
} dls_wanted;

/* Read dtypes= and ndims=, each one value or several; None or NULL: any.  Memory of any
 * device is accepted, to be read.  0, or -1 with an exception, and nothing is owned. */
int dls_wanted_read(dls_state *state, PyObject *dtypes, PyObject *ndims,
                    dls_wanted *wanted);

void dls_wanted_clear(dls_wanted *wanted);

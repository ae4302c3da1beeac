/* How memory gets to the device where it is wanted, and the refusal to move it (S17 to
 * S19).
 *
 * GIL held; nothing is called.
 */
#pragma once

#include "exchange/exchange.h"

typedef enum {
    DLS_TRANSFER_HERE,    /* it is wanted where it is */
    DLS_TRANSFER_TO_HOST, /* CUDA or ROCm memory is copied to the host */
    DLS_TRANSFER_AS_HOST, /* the host reads pinned or managed memory where it is */
    DLS_TRANSFER_AS_CUDA, /* managed memory goes under the label of its own device */
    DLS_TRANSFER_MOVE     /* only its producer can move it */
} dls_transfer;

/* How memory on `have` gets to the device that is wanted. */
dls_transfer dls_transfer_of(const dls_request *request, dl_device have);

/* 0 if dlshim may bring the memory where it is wanted, by a copy if that is allowed;
 * else as dls_transfer_raise. */
int dls_transfer_check(dls_state *state, PyObject *source, const dls_request *request,
                       dl_device have);

/* Raise BufferError, for copy=False CopyRequiredError: the memory is on `have`, is
 * wanted elsewhere, and dlshim cannot bring it there, or not without a copy.  kept: the
 * cause of the error, or NULL; its reference is taken.  Always -1. */
int dls_transfer_raise(dls_state *state, PyObject *source, const dls_request *request,
                       dl_device have, PyObject *kept);

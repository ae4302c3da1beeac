/* How memory gets to the device where it is wanted, and the refusal to move it (S17 to
 * S19).
 *
 * GIL held; nothing is called but the driver, for the number of the current device.
 */
#pragma once

#include "exchange/exchange.h"

typedef enum {
    DLS_TRANSFER_HERE,      /* it is wanted where it is */
    DLS_TRANSFER_TO_HOST,   /* CUDA, ROCm or oneAPI memory is copied to the host */
    DLS_TRANSFER_AS_HOST,   /* the host reads pinned or managed memory where it is */
    DLS_TRANSFER_AS_CUDA,   /* managed memory goes under the label of its own device */
    DLS_TRANSFER_TO_DEVICE, /* memory that the host reads is copied to CUDA or ROCm */
    DLS_TRANSFER_TO_ONEAPI, /* host memory is copied to a oneAPI device */
    DLS_TRANSFER_PEER, /* CUDA or ROCm memory is copied to another device of its kind */
    DLS_TRANSFER_MOVE  /* only its producer can move it */
} dls_transfer;

/* How memory on `have` gets to the device that is wanted.  To and from oneAPI
 * memory is copied where its library is imported already. */
dls_transfer dls_transfer_of(dls_state *state, const dls_request *request,
                             dl_device have);

/* Does dlshim itself copy the device memory, on a copy stream of its device? */
static inline bool
dls_transfer_is_on_copy_stream(dls_transfer transfer)
{
    return transfer == DLS_TRANSFER_TO_HOST || transfer == DLS_TRANSFER_PEER;
}

/* Is it memory in which dlshim can make copies? */
static inline bool
dls_transfer_can_allocate(int32_t device_type)
{
    return device_type == dl_kDLCUDA || device_type == dl_kDLROCM;
}

/* torch says "cuda" without a number by 255, others by -1: write the number of the
 * current device in its place.  The driver is asked if it is in use. */
void dls_transfer_name_device(dls_request *request);

/* 0 if dlshim may bring the memory where it is wanted, by a copy if that is allowed;
 * else as dls_transfer_raise. */
int dls_transfer_check(dls_state *state, PyObject *source, const dls_request *request,
                       dl_device have);

/* Raise BufferError, for copy=False CopyRequiredError: the memory is on `have`, is
 * wanted elsewhere, and dlshim cannot bring it there, or not without a copy.  kept: the
 * cause of the error, or NULL; its reference is taken.  Always -1. */
int dls_transfer_raise(dls_state *state, PyObject *source, const dls_request *request,
                       dl_device have, PyObject *kept);

/* Ordering of one exchange: what the producer is passed, and what dlshim does after it
 * (design section 6).  The rules are gpu/sync_rules.def; the driver's part is
 * device/handoff.  GIL held; it is let go around every driver call. */
#ifndef DLS_SOURCE_ORDER_H
#define DLS_SOURCE_ORDER_H

#include "acquire/attempt_host.h"
#include "core/error.h"
#include "gpu/hip.h"
#include "sync/stream_value.h"

/* Where the consumer wants the memory, seen from where it lies. */
typedef enum {
    DLS_ROUTE_HERE,    /* where it is */
    DLS_ROUTE_TO_HOST, /* copied from CUDA to the host */
    DLS_ROUTE_AS_HOST, /* pinned or managed memory, read by the host where it lies */
    DLS_ROUTE_AS_CUDA, /* managed memory, under the device's own label */
    DLS_ROUTE_MOVE     /* only its producer could */
} dls_route;

/* S of a request, read once: a stream object may answer otherwise the next time.  As
 * dls_stream_read. */
int dls_want_stream(dls_state *state, const dls_want *want, dls_stream *out);

dls_route dls_route_of(const dls_want *want, dl_device have);

typedef struct {
    dl_device device;
    dls_route route;
    dls_producer_kind kind;
    dls_stream s;
    dls_argument argument;
    PyObject *queue; /* strong: what was learned as P on oneAPI, or NULL */
    PyObject
        *passed; /* strong: the value of `stream=`, NULL: the keyword is not given */
    int before[DLS_HIP_RUNTIMES]; /* ROCm: the devices that were current */
    uint64_t copy_stream; /* TO_HOST: S is this one; 0: there is none, for ... */
    bool empty;           /* nothing is to be copied, the object says */
    bool no_place;        /* nor a context: it may be found by the memory's address */
    dls_error
        no_stream; /* ... this reason, which counts unless nothing is to be copied */
} dls_order;

/* Before the call.  0, or -1 with TypeError or ValueError (no stream of this device).
 * address: of the memory, NULL where only the export will tell.  Pair with
 * dls_order_end. */
int dls_order_begin(dls_state *state, const dls_want *want, dl_device device,
                    const void *address, dls_producer_kind kind, dls_order *order);
void dls_order_end(dls_order *order);

/* Where dlshim puts L, or its own copy stream, in the place of what the consumer
 * passed, a producer that obeys would break a graph capture that is running.  1 = it
 * would, 0, or -1 with an exception. */
int dls_order_meets_capture(dls_state *state, dls_plan *plan, PyObject *obj,
                            dls_order *order);

/* The producer orders in the context of the memory's device (torch refuses others, CuPy
 * would use another device's stream): true, and a leave is owed, when it was pushed.
 * Nothing happens where no driver is mapped. */
bool dls_order_enter(dls_order *order);
void dls_order_leave(const dls_order *order);

/* ValueError or TypeError: that is no stream of these devices.  Always -1. */
int dls_order_raise_value(dls_state *state, dls_family family, dls_duty duty,
                          PyObject *stream);

/* The BufferError for it.  Always -1. */
int dls_order_raise_capture(dls_state *state, PyObject *obj);

/* After the call: do what is owed for *loan, whose producer turned out to be of this
 * kind.  p: what the protocol itself said of P.  0, or -1 with an exception; the loan
 * stays the caller's. */
int dls_order_finish(dls_state *state, dls_plan *plan, PyObject *obj,
                     const dls_want *want, dls_order *order, dls_producer_kind kind,
                     dls_pending p, dls_loan *loan);

/* begin, finish, end: for producers that are passed nothing. */
int dls_order_owed(dls_state *state, dls_plan *plan, PyObject *obj,
                   const dls_want *want, dls_producer_kind kind, dls_pending p,
                   dls_loan *loan);

/* On which stream are the data ready that `want` got from `device`?  For those who keep
 * them. */
dls_pending dls_order_ready(dls_state *state, const dls_want *want, dl_device device);

#endif

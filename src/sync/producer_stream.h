/* P: the stream with the producer's unfinished work on the memory (S11).
 *
 * GIL held; libraries and C tables are called. */
#pragma once

#include "core/sync_words.h"
#include "exchange/exchange.h"
#include "gpu/driver.h"

/* The source whose stream is asked for.  All is borrowed. */
typedef struct {
    dls_state *state;
    const dls_plan *plan; /* of the source's type */
    PyObject *source;     /* the producer, or a Tensor of ours */
    const dls_request *request;
    /* The place of the memory.  dls_sync_source_place alone writes these. */
    dl_device device;
    dls_family family;        /* whose rules it has */
    dls_family streams;       /* whose streams it has */
    const dls_driver *driver; /* of these streams; says nothing of other families */
} dls_sync_source;

/* The source of an exchange; `device`: of its memory. */
dls_sync_source dls_sync_source_of(const dls_exchange *x, dl_device device);
/* The memory turned out to lie on this device. */
void dls_sync_source_place(dls_sync_source *from, dl_device device);

static inline dls_producer_stream
dls_producer_stream_of_handle(uint64_t handle)
{
    return (dls_producer_stream){.known = DLS_P_KNOWN, .handle = handle};
}

/* P of memory whose producer names an event instead of a stream (a column of Arrow, by
 * its sync_event).  event: points to the driver's event; NULL: nothing is pending.  It
 * is not followed for devices whose events dlshim does not know: dls_sync_finish
 * refuses these. */
dls_producer_stream dls_producer_stream_of_event(dl_device device, const void *event);

/* queue: borrowed, where streams are objects (oneAPI). */
static inline dls_producer_stream
dls_producer_stream_of_object(PyObject *queue)
{
    return (dls_producer_stream){
        .known = DLS_P_KNOWN, .handle = (uint64_t)(uintptr_t)queue, .object = queue};
}

/* How a producer of this type treats the stream that it is passed for memory there: by
 * what is known of its library, and by whether dls_producer_stream_ask could find P. */
dls_producer_kind dls_producer_kind_of(const dls_plan *plan, dl_device device);

/* The functions below return 0, or -1 with an exception.  *p is left as it is if P
 * cannot be found.  *queue, NULL before the call, receives a new reference to the SYCL
 * queue that the library named, which p->object then borrows; it stays NULL otherwise,
 * and is set on success only. */

/* Find P by the type's C table, or else by its library. */
int dls_producer_stream_ask(const dls_sync_source *from, dls_producer_stream *p,
                            PyObject **queue);

/* Find P: *p if it is known already, or else the user's producer_stream, or else as
 * above.  queue may be NULL: a P that is an object then counts as unknown. */
int dls_producer_stream_find(const dls_sync_source *from, dls_producer_stream *p,
                             PyObject **queue);

/* The stream that the type's C table names for a device: true with the value that the
 * table gave, whose meaning is the device's, else false with NULL.  An error of the
 * table is cleared. */
bool dls_producer_stream_of_table(const dls_plan *plan, dl_device device,
                                  void **stream);

/* The SYCL queue that the library names for this array.  from->request is not read. */
int dls_producer_stream_find_queue(const dls_sync_source *from, PyObject **queue);

/* --- the current device --------------------------------------------------- */
/* Makes the memory's device current around a call into its library (S15).
 *
 * A producer syncs in the context of its memory's device: torch refuses arrays of
 * another device, CuPy would use the other device's stream.  GIL held; it is released
 * around the driver calls. */

/* The things that were made current for a producer.  All zero: nothing was. */
typedef struct {
    dls_saved_device saved;
    bool driver;     /* the driver's current device was changed */
    PyObject *guard; /* strong, or NULL: that of the producer's library was */
} dls_producer_context;

/* Make the memory's device current for the driver and, where its library goes by a
 * number of its own, for the library.  1: something was changed; 0: nothing; -1:
 * exception.  In all cases dls_producer_context_leave may follow, on the same thread.
 */
int dls_producer_context_enter(const dls_sync_source *from,
                               dls_producer_context *context);

/* Keeps a pending exception. */
void dls_producer_context_leave(const dls_sync_source *from,
                                dls_producer_context *context);

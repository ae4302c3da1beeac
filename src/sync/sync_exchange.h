/* The sync of one exchange: the value that the producer is passed as `stream=`, and the
 * work of dlshim after the call (docs/streams.rst, S2).
 *
 * The rules are gpu/sync_rules.def, the driver's part is gpu/sync_run.  GIL held; it is
 * released around every driver call. */
#pragma once

#include "core/base.h"
#include "exchange/exchange.h"
#include "gpu/sync_run.h"
#include "sync/producer_stream.h"
#include "sync/transfer.h"

/* One sync.  dls_sync_begin fills it, dls_sync_end releases all that it holds. */
typedef struct {
    dls_sync_source from; /* all that `from` points to must outlive the record */
    dls_producer_kind kind;
    dls_transfer transfer;
    bool on_copy_stream; /* dlshim copies the memory, on a copy stream of its device */
    bool copies_oneapi;  /* oneAPI memory is copied to the host: streams are objects */
    dls_stream s;        /* S; for copies of dlshim's, its copy stream */
    dls_argument argument; /* the value that the producer is passed by the rule */
    PyObject *passed;      /* strong: that value; NULL for OMIT */
    PyObject *queue;       /* strong: the queue that P is on oneAPI, or NULL */
    uint64_t own;          /* PASS_OWN: that stream; 0: none was found, -1 is passed */
    PyObject *own_queue;   /* strong: PASS_OWN on oneAPI: that queue, else NULL */
    dls_copy_place copy;   /* COPY_NONE unless dlshim copies on a copy stream */
    dls_error copy_error;  /* without such a stream: why there is none */
    bool place_is_unknown; /* then: the memory's address may tell where it is */
    bool is_empty;         /* the object says that it has no elements */
    bool not_synced;       /* it is passed -1 although no stream was named (S14) */
    bool none_for_minus_one; /* it is passed None because it refuses -1 (N6) */
} dls_sync;

/* Read S of a request.  Within one exchange an object is asked once, because it may
 * answer otherwise the next time.  0, or -1 as dls_stream_read. */
int dls_consumer_stream_read(dls_state *state, const dls_request *request,
                             dls_stream *out);

/* Before the call: decide the value that a producer of this kind is passed.  memory:
 * NULL if only the export will tell it.  0, or -1 with TypeError or
 * ValueError, because S is no stream of from->device (S1).  In both cases dls_sync_end
 * must follow. */
int dls_sync_begin(const dls_sync_source *from, dls_memory *memory,
                   dls_producer_kind kind, dls_sync *sync);
void dls_sync_end(dls_sync *sync);

/* Note that the memory lies on this device, and gets to the wanted one in this way;
 * earlier decisions stay. */
void dls_sync_place(dls_sync *sync, dl_device device, dls_transfer transfer);

/* Did the consumer name no stream, so that L is only assumed? */
bool dls_sync_omits(const dls_sync *sync);

/* Would a producer that obeys break a graph capture (S14)?  That can happen if it is
 * passed another stream than the consumer's.  1 = it would, or dlshim cannot tell; 0,
 * or -1 with an exception. */
int dls_sync_meets_capture(dls_sync *sync);
/* Is a graph capture seen, whatever the producer is passed?  As above. */
int dls_sync_sees_capture(dls_sync *sync);

/* Raise the BufferError for it.  Always -1. */
int dls_sync_raise_capture(dls_state *state, PyObject *source);
/* As dls_sync_raise_capture, where the consumer passed -1, and the producer refuses
 * that value. */
int dls_sync_raise_no_minus_one(dls_state *state, PyObject *source);

/* After the call: carry out the task that the rule leaves for *acquired, whose producer
 * turned out to be of this kind, and fill in the members of *acquired about the sync:
 * copy, not_synced, sync_device and p.
 * p: P, as far as the protocol itself named it.  0, or -1 with an exception; *acquired
 * stays the caller's. */
int dls_sync_finish(dls_sync *sync, dls_producer_kind kind, dls_producer_stream p,
                    dls_acquired *acquired);

/* All of the above for a producer that was passed nothing: check the transfer, begin,
 * finish, end.  from->device is not read: *acquired, or request->assumed, tells the
 * device. */
int dls_sync_acquired(const dls_sync_source *from, dls_producer_kind kind,
                      dls_producer_stream p, dls_acquired *acquired);

/* Carry out a job of the driver's, without the GIL where it calls the driver.  0, or -1
 * with the error raised for `source`. */
int dls_sync_run_job(dls_state *state, PyObject *source, const dls_sync_job *job);

/* Has the tensor no elements, or does it lie about itself?  Nothing is synced then. */
bool dls_sync_is_empty(const dl_tensor *tensor);

/* The stream on which the data are ready that `request` got from `device` (S20). */
dls_producer_stream dls_sync_ready_stream(dls_state *state, const dls_request *request,
                                          dl_device device);

/* The stream of memory that dlshim does not synchronise: that of the option, of the
 * Tensor, or else of the source type's C table (S21).  Known as READY, with the stream
 * as its handle, or 0. */
dls_producer_stream dls_sync_stream_of_source(const dls_exchange *x, dl_device device);

/* --- copies --------------------------------------------------------------- */
/* The streams of a copy (S17, S19): the consumer's stream, and the streams that the
 * copy must come after.  GIL held; it is released around driver calls. */

/* Read the consumer's stream as one of the device `to`.  *s is L where it names none.
 * 0, or -1 with TypeError or ValueError, because it is no stream of that device (S1).
 */
int dls_copy_read_consumer(const dls_exchange *x, dl_device to, uint64_t *s);

/* Make the copy stream come after the answer's work.  The answer was synced with the
 * consumer's stream, or, for -1, not at all.  0, or -1 with an exception. */
int dls_copy_sync(const dls_exchange *x, const dl_tensor *tensor, uint64_t copy_stream);

/* As dls_copy_sync, where the host copies: it waits.  It has waited already unless the
 * consumer passed -1, which speaks of its own stream and not of the copy's (S10). */
int dls_copy_wait(dls_exchange *x);

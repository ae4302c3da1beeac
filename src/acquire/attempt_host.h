/* How a foreign object is asked: the learned way first, else the ladder (N1-N8). */
#ifndef DLS_SOURCE_LADDER_H
#define DLS_SOURCE_LADDER_H

#include "core/sync_words.h"
#include "exchange/acquired.h"
#include "exchange/plan.h"
#include "sync/stream_value.h"

/* What a request's stream was when it was read. */
typedef struct {
    PyObject *object; /* borrowed; NULL: not read yet */
    dls_stream read;
} dls_stream_memory;

/* What is wanted of the source. */
typedef struct {
    bool versioned;  /* flavour that the consumer asked for */
    int8_t copy;     /* -1 None, 0 False, 1 True: sent off the host only (T8) */
    bool has_device; /* a device is wanted: *device */
    dl_device device;
    PyObject *stream;          /* borrowed; NULL or None: none given */
    dls_stream_memory *seen;   /* of `stream`; NULL: nobody remembers */
    PyObject *producer_stream; /* borrowed; NULL or None: none given */
    bool host_reads; /* pinned memory is read by dlshim itself, whatever stream is given
                      */
    uint8_t unknown_stream; /* DLS_UNKNOWN_* */
    bool has_assumed;       /* the source's label is wrong: it is *assumed */
    dl_device assumed;
    bool ask_device;  /* the device must be known before the export (N5) */
    bool empty;       /* copies to the host: the object says that it has no elements */
    bool kernel_asks; /* through our exchange table: kernels take Parameters */
} dls_want;

/* Export obj once.  0 = *loan describes the memory; -1 = exception set, *loan empty.
 * On the learned host road this is exactly one call. */
int dls_source_ask(dls_state *state, dls_plan *plan, PyObject *obj,
                   const dls_want *want, dls_loan *loan);

/* What a source answered to its learned way, asked by the express road. */
typedef struct {
    unsigned road;                        /* DLS_EXPRESS_* */
    PyObject *capsule;                    /* strong; __dlpack__'s */
    dl_managed_tensor_versioned *managed; /* owned; the table's */
    PyObject *raised;                     /* strong; instead of either */
} dls_answer;

/* Take over after the call: as dls_source_ask, and nobody is called twice.  The answer
 * is used up. */
int dls_source_answered(dls_state *state, dls_plan *plan, PyObject *obj,
                        const dls_want *want, dls_answer *answer, dls_loan *loan);

/* The device the export will say (N5), asking as little as can be.  1 = *device, 0 =
 * only an export can tell, -1 = exception. */
int dls_source_device(dls_state *state, dls_plan *plan, PyObject *obj,
                      dl_device *device);

#endif

/* What was got from a source and is not yet given to anybody.
 *
 * The record of an exchange has one (exchange.h).  acquire/, older_protocols/ and a
 * Tensor's object fill it in place; resolve and export read it.  It is never copied.
 * GIL held throughout. */
#pragma once

#include "abi/dlpack_abi.h"
#include "core/base.h"
#include "core/hold.h"
#include "core/sync_words.h"
#include "python/py.h"
#include "python/state.h"

typedef enum {
    DLS_LEGACY = 0,    /* `dltensor`: flags unknown */
    DLS_VERSIONED = 1, /* `dltensor_versioned`, also from a C table */
    DLS_OLDER = 2      /* described by an older protocol: no struct of the source's */
} dls_generation;

/* Dimensions that need no memory of their own. */
enum { DLS_FEW_DIMS = 4 };

/* tensor.shape and tensor.strides point into the source's struct (alive as long as
 * capsule or hold) or into dims. */
typedef struct {
    dl_tensor tensor;
    uint64_t flags;     /* READ_ONLY when stated or known, IS_COPIED, PADDED */
    dl_version version; /* versioned only */
    dls_generation generation;
    bool readonly_stated; /* the source can say READ_ONLY, so its absence counts */
    bool shared;          /* others held the capsule when it was looked at */
    bool altered;         /* tensor no longer says what the source's struct says */
    bool copy_asked;     /* the producer has taken copy=True, or was asked to move it */
    bool not_synced;     /* no sync was asked for: by None on oneAPI (S6), or in a graph
                          * capture, where no stream was named (S14) */
    dls_copy_place copy; /* where it is copied to the host, if it is (S18) */
    void *managed;       /* the struct behind capsule or hold, NULL for DLS_OLDER */
    PyObject *capsule;   /* strong; not yet taken, may be handed on; NULL: taken */
    dls_hold hold;       /* once taken: owned */
    int64_t *dims; /* DLS_OLDER, and a shared capsule: shape, then strides: few_dims, or
                    * owned memory */
    int64_t few_dims[2 * DLS_FEW_DIMS];
} dls_acquired;

/* Make it empty.  What it held before is not given back. */
void dls_acquired_init(dls_acquired *acquired);

/* Room for the shape and the strides of `ndim` dimensions in acquired->dims, which must
 * be NULL.  0, or -1 with MemoryError. */
int dls_acquired_make_dims(dls_acquired *acquired, int32_t ndim);

/* Give back whatever it still owns, and leave it empty.  A capsule that was not taken
 * is dropped (its own destructor frees), a hold is dropped.  Foreign code runs; a
 * pending exception is kept. */
void dls_acquired_drop(dls_acquired *acquired);

/* Does it own nothing? */
bool dls_acquired_is_empty(const dls_acquired *acquired);

/* For asserts: do its members fit together?  The five cases are in the source. */
bool dls_acquired_check(const dls_acquired *acquired);

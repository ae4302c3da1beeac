/* What was got from a source and is not yet given to anybody. */
#ifndef DLS_SOURCE_LOAN_H
#define DLS_SOURCE_LOAN_H

#include "abi/dlpack_abi.h"
#include "core/base.h"
#include "core/hold.h"
#include "python/py.h"
#include "python/state.h"

typedef enum {
    DLS_LEGACY = 0,    /* `dltensor`: flags unknown */
    DLS_VERSIONED = 1, /* `dltensor_versioned`, also from an exchange table */
    DLS_OLDER = 2      /* described by an older protocol: no struct of the source's */
} dls_flavour;

/* tensor.shape and tensor.strides point into the source's struct (alive as long as
 * capsule or hold) or into dims.  A loan is filled in place and never copied. */
typedef struct {
    dl_tensor tensor;
    uint64_t flags;     /* READ_ONLY when stated or known, IS_COPIED, PADDED */
    dl_version version; /* versioned only */
    dls_flavour flavour;
    bool readonly_stated; /* the source can say READ_ONLY, so its absence counts */
    bool shared;          /* others held the capsule when it was looked at */
    bool altered;         /* tensor no longer says what the source's struct says */
    bool unordered; /* None was passed on, which by SYCL's convention orders nothing */
    uint64_t copy_stream; /* ordered, to be copied to the host on this stream; 0: no */
    void *managed;        /* the struct behind capsule or hold, NULL for DLS_OLDER */
    PyObject *capsule;    /* strong; not yet taken, may be handed on; NULL: taken */
    dls_hold hold;        /* once taken: owned */
    int64_t dims[2 * DLS_NDIM_INTERFACE];
} dls_loan;

/* All fields but dims to "nothing". */
void dls_loan_init(dls_loan *loan);
/* Give back whatever the loan still owns: an untaken capsule is dropped (its own
 * destructor frees), a hold is dropped.  GIL held; keeps a pending exception. */
void dls_loan_drop(dls_loan *loan);

/* One signature for every older protocol.  1 = *loan describes the memory and owns
 * what keeps it alive (flavour DLS_OLDER, readonly_stated true), 0 = the object does
 * not offer the protocol, nothing set, -1 = exception set (BufferError for data that
 * cannot be said in DLPack, naming type, reason and cure; what the object itself
 * raised otherwise), *loan empty.  `obj` is borrowed.
 *
 * - tensor.data is the address of element zero, byte_offset 0, device (1, 0);
 *   strides in elements, filled unless the source said "C-contiguous" (NULL then).
 * - dtypes without a DLPack code: code DLS_DTYPE_UNKNOWN, 8 bits, as many lanes as
 * bytes (0: too many), so that `reinterpret` can still name them.
 * - ml_dtypes: NumPy calls their kind 'V' (or 'f' with 1 byte): the name of
 *   obj.dtype decides ("bfloat16", "float8_e4m3fn", "int4" ...), no import; elements
 *   below 8 bits sit in one byte each: DL_FLAG_SUBBYTE_PADDED.
 * - Foreign byte order, masks, object/text/struct/datetime elements, suboffsets,
 *   strides that are no multiple of the item size (on an extent >= 2): BufferError
 *   (strides), or DLS_DTYPE_UNKNOWN where reinterpretation could help (datetime).
 * - READ_ONLY is set in flags from the protocol's own word. */
typedef int (*dls_reader)(dls_state *state, PyObject *obj, dls_loan *loan);

int dls_read_array_struct(dls_state *state, PyObject *obj, dls_loan *loan);
int dls_read_array_interface(dls_state *state, PyObject *obj, dls_loan *loan);
int dls_read_buffer(dls_state *state, PyObject *obj, dls_loan *loan);

#endif

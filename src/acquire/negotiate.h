/* What the rooms of the ladder share: one climb, and one step of it.  Not for others.
 */
#ifndef DLS_SOURCE_CLIMB_H
#define DLS_SOURCE_CLIMB_H

#include "acquire/attempt_host.h"

/* One climb: what is asked, and the first error that deserves to be shown. */
typedef struct {
    dls_state *state;
    dls_plan *plan;
    PyObject *obj;
    const dls_want *want;
    dls_loan *loan;
    PyObject *kept; /* strong: the error to show if nothing works */
    dls_way failed; /* known: this way was tried already and raised ... */
    PyObject
        *failure;    /* ... this (strong; NULL: gave nothing), it is not asked again */
    bool ordered;    /* the loan is off the host and nothing is owed any more */
    dls_rung got_by; /* the rung that gave the loan */
    bool settled;    /* the pending exception is dlshim's own and says it all */
    bool refused_other; /* a step was refused with something else than TypeError */
} dls_climb;

typedef enum {
    DLS_PENDING_STEP,   /* advance to fewer keywords or to the next rung (N2) */
    DLS_PENDING_BUFFER, /* BufferError: the data, not the keywords */
    DLS_PENDING_FINAL   /* not ours to hide */
} dls_pending_kind;

/* What the pending exception means to the ladder. */
dls_pending_kind dls_pending_error(void);
/* Take the pending exception away; the first that is no keyword TypeError is kept. */
void dls_climb_keep(dls_climb *c);

/* One way: 1 = the loan is filled, 0 = not offered after all, -1 = exception, loan
 * empty. mask: DLS_ASK_* for the rung DLPACK.  Host memory only, but for the table. */
DLS_APART int dls_climb_way(dls_climb *c, dls_rung rung, unsigned mask);
/* The exchange table.  strict: device memory only where no ordering is owed. */
int dls_climb_table(dls_climb *c, bool strict);
/* The same when it was called already (dls_table_call; stolen). */
int dls_climb_table_gave(dls_climb *c, dl_managed_tensor_versioned *managed,
                         bool strict);
/* The CUDA array interface, ordered and done: 1 also sets c->ordered. */
int dls_climb_cuda_interface(dls_climb *c);
/* The same for the SYCL USM interface. */
int dls_climb_sycl_interface(dls_climb *c);
/* What __dlpack__ or a capsule function returned (stolen; NULL: it raised). */
int dls_climb_capsule(dls_climb *c, PyObject *capsule);
/* The struct is there, but does it hold what the tensor shows (T12)?  1, or -1 with
 * BufferError and the loan dropped. */
int dls_climb_check_bits(dls_climb *c);

/* A capsule function gave device memory: it takes no stream, so what it owes is done.
 * 0, or -1 and the loan is dropped. */
int dls_climb_pay_function(dls_climb *c);

/* Memory known to be off the host, on `device`: the stream is forwarded, and what is
 * then owed is done (N4, N6).  0, or -1 with an exception. */
int dls_climb_off_host(dls_climb *c, dl_device device);

/* Does the object say that it has no elements?  Then no driver is needed to move them;
 * what lies is found out by its tensor, and ordered then.  1, 0, or -1. */
int dls_climb_says_empty(const dls_climb *c);
/* No rung gave it: the kept error, or a BufferError.  Always -1. */
int dls_climb_raise_nothing(dls_climb *c);

#endif

/* Ordering between SYCL queues, by calls of their Python methods: no C++ is linked and
 * no library of Intel's is looked for (reference streams.md 4.5).  GIL held. */
#ifndef DLS_SOURCE_QUEUE_H
#define DLS_SOURCE_QUEUE_H

#include "sync/transfer.h"

/* Do what is owed on oneAPI.  p.object: the producer's queue (dpctl's SyclQueue or
 * torch's xpu stream).  0, or -1 with BufferError when it cannot be known or its
 * methods fail. */
int dls_queue_order(dls_state *state, PyObject *obj, dls_duty duty, dls_pending p,
                    const dls_want *want);

#endif

/* Syncs SYCL queues by calls of their Python methods (S6).
 *
 * No C++ is linked, and no library of Intel's is looked for.  GIL held.
 */
#pragma once

#include "core/sync_words.h"
#include "python/py.h"
#include "python/state.h"

/* Carry out job->task.  job->p.object is the producer's queue (dpctl's SyclQueue or
 * torch's XPU stream); s is the consumer's, and is not read for tasks that make the
 * host wait.  Of *job only task, p and policy are read.  source is named in errors.  0,
 * or -1 with BufferError: the queue is not known, or one of its methods failed. */
int dls_sycl_queue_sync(dls_state *state, PyObject *source, const dls_sync_job *job,
                        PyObject *s);

/* Syncs SYCL queues (S6), and copies oneAPI memory to the host and host memory to
 * oneAPI (S18).
 *
 * By calls of the Python objects of its library, where that is imported already: no C++
 * is linked, nothing is imported, and no library of Intel's is looked for.  GIL held;
 * the library lets other threads run while it copies.  Every copy is complete when its
 * function returns.
 */
#pragma once

#include "abi/dlpack_abi.h"
#include "core/base.h"
#include "core/hold.h"
#include "core/sync_words.h"
#include "python/py.h"
#include "python/state.h"

/* --- syncs of queues ------------------------------------------------------ */

/* Carry out job->task.  job->p.object is the producer's queue (dpctl's SyclQueue or
 * torch's XPU stream); s is the consumer's, and is not read for tasks that make the
 * host wait.  Of *job only task, p and policy are read.  source is named in errors;
 * shows_syclobj: by a SYCL interface.  0, or -1 with BufferError: the queue is not
 * known, or one of its methods failed. */
int dls_sycl_queue_sync(dls_state *state, PyObject *source, const dls_sync_job *job,
                        PyObject *s, bool shows_syclobj);

/* --- copies --------------------------------------------------------------- */

/* The queue of this device that copies are made in; a producer is given it, to make its
 * work come before the copy.  A new reference, or NULL with BufferError. */
PyObject *dls_sycl_copy_queue(dls_state *state, PyObject *source, int32_t device_id);

/* Copy a tensor that has elements, and that dls_tensor_scan has accepted, to dst,
 * row-major.  Nothing may be pending in the memory any more.  syclobj: the owner of the
 * memory, in a form of the SYCL interface; NULL or a name: its device's.  dst has room
 * for all elements and stays the caller's.  Strided memory is fetched gaps included,
 * and gathered on the host.  0, or -1 with an exception; dst is undefined then, and
 * nothing is still written to it. */
int dls_sycl_copy_to_host(dls_state *state, PyObject *source, void *dst,
                          const dl_tensor *tensor, int64_t itemsize, PyObject *syclobj);

/* Bytes of the host, perhaps none, and their copy on a oneAPI device. */
typedef struct {
    const void *src;
    int64_t bytes;
    int64_t alignment; /* of the copy, a power of two */
    int32_t device_id;
    void *data; /* the copy's address */
    /* Strong: keeps the memory, in a form that the reader of the SYCL interface takes
     * (dls_syclobj_find). */
    PyObject *hold;
} dls_sycl_block;

/* Copy to new memory, in the queue that the library itself uses for the device.  0 with
 * block->data and block->hold, or -1 with an exception. */
int dls_sycl_copy_from_host(dls_state *state, PyObject *source, dls_sycl_block *block);

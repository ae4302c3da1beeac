/* Which stream an export through the exchange table is on.
 *
 * current_work_stream() knows no object: each export of device memory leaves {device,
 * P} in a thread-local, which it answers.  Where P cannot be learned the export has
 * ordered the work into L, and the answer is NULL (design section 6). */
#ifndef DLS_MODULE_WORK_STREAM_H
#define DLS_MODULE_WORK_STREAM_H

#include "request/request.h"

/* Export a Producer or a Tensor for a consumer of the table, on the careful road.  A
 * dl_managed_tensor_versioned* or (for borrowers, who are told no flags) a
 * dl_managed_tensor*, the caller's to delete; NULL with an exception.  answer: what the
 * source gave on the express road, or NULL; used up. */
void *dls_export_for_table(PyObject *self, bool versioned, dls_answer *answer);

/* Make the thread-locals, at import.  0, or -1 with MemoryError. */
int dls_work_stream_init(void);

/* The answer for a device, never a failure.  Needs no GIL. */
void *dls_work_stream_answer(dl_device device);

#endif

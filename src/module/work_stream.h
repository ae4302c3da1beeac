/* Which stream an export through the exchange table is on.
 *
 * current_work_stream() knows no object: each export of device memory leaves {device, P}
 * in a thread-local, which it answers.  Where P cannot be learned the export has ordered
 * the work into L, and the answer is NULL (design section 6). */
#ifndef DLS_MODULE_WORK_STREAM_H
#define DLS_MODULE_WORK_STREAM_H

#include "module/request.h"

/* Before the export: where P is known, request->want.stream becomes -1 (no ordering is
 * made) and *p says P; else the request is left to order into L.  *minus: a new reference
 * that want.stream borrows, or NULL.  0, or -1 with an exception. */
int dls_work_stream_begin(dls_state *state, PyObject *source, dls_plan *plan,
                          dls_request *request, dls_pending *p, PyObject **minus);

/* After it: leave what the next question is to be answered. */
void dls_work_stream_leave(dls_state *state, const dls_request *request, dl_device device,
                           dls_pending p);

/* Make the thread-locals, at import.  0, or -1 with MemoryError. */
int dls_work_stream_init(void);

/* The answer for a device, never a failure.  Needs no GIL. */
void *dls_work_stream_answer(dl_device device);

#endif

/* The stream of this thread's last export through our C table.
 *
 * current_work_stream() of DLPack's C exchange API is passed no object: each export of
 * device memory leaves {device, producer stream} in a thread-local, and the function
 * returns that. */
#pragma once

#include "core/sync_words.h"
#include "python/py.h"

/* Make the thread-locals, at import.  GIL held.  0, or -1 with MemoryError. */
int dls_work_stream_init(void);

/* Does dlshim synchronise exports of this kind of device with the stream that it
 * answers?  For any other device it passes the answer of the source on. */
bool dls_work_stream_is_synced(int32_t device_type);

/* current_work_stream of a library's own C table: which home an answer is left for. */
typedef int (*dls_work_stream_function)(int32_t device_type, int32_t device_id,
                                        void **out);

/* Leave the answer to the next question.  Any other p than a known stream: the export
 * was synchronised with the legacy default stream.  For a device that dlshim does not
 * synchronise, p's handle is the answer, NULL for none.  An export of host memory
 * leaves the answers as they are.  home: takes this answer instead of its library's;
 * NULL: none does.  Never fails. */
void dls_work_stream_leave(dl_device device, dls_producer_stream p,
                           dls_work_stream_function home);
/* The answer for a device: a stream handle, or NULL for the default stream.  Needs no
 * GIL, never fails. */
void *dls_work_stream_answer(dl_device device);
/* Note that the consumer was answered this stream; on which the kernel works that it
 * then calls. */
void dls_work_stream_note(dl_device device, void *stream);
/* The stream that this thread was answered last for the device, as the driver takes it:
 * *stream is left as it is for the default stream.  false: none was.  Needs no GIL. */
bool dls_work_stream_answered(dl_device device, uint64_t *stream);
/* The answer that was left for this home and this device, which is then forgotten;
 * false: there is none.  As above. */
bool dls_work_stream_take(dl_device device, dls_work_stream_function home, void **out);

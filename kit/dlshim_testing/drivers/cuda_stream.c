/* Streams, events and gates. */
#include "cuda.h"
#include "queue.h"

/* ---- streams ---- */

static int new_stream(call *made, CUstream *to, unsigned flags)
{
    if (flags > NON_BLOCKING)
        return INVALID_VALUE;
    fm_stream *stream = fm_stream_new(current_context(), !(flags & NON_BLOCKING), NULL, false);
    *to = stream_handle(stream);
    call_note(made, " got=%s", stream->name);
    return OK;
}

FM_EXPORT CUresult cuStreamCreate(CUstream *to, unsigned int flags)
{
    ENTER(CONTEXT | BLOCKS, "flags=%u", flags);
    LEAVE(new_stream(&this_call, to, flags));
}

FM_EXPORT CUresult cuStreamCreateWithPriority(CUstream *to, unsigned int flags, int priority)
{
    ENTER(CONTEXT | BLOCKS, "flags=%u priority=%d", flags, priority);
    LEAVE(new_stream(&this_call, to, flags));
}

FM_EXPORT CUresult cuStreamDestroy_v2(CUstream handle)
{
    ENTER(BLOCKS, "stream=%s", S(handle));
    LEAVE_IF((uintptr_t)handle <= 2, INVALID_HANDLE);
    fm_stream *stream;
    int rc = find_stream(handle, &stream);
    if (rc == OK)
        fm_stream_end(stream);
    LEAVE(rc);
}

static int synchronize(CUstream handle)
{
    fm_stream *stream;
    int rc = find_stream(handle, &stream);
    return rc == OK ? front_error(fm_stream_sync(stream)) : rc;
}

FM_EXPORT CUresult cuStreamSynchronize(CUstream handle)
{
    ENTER(BLOCKS, "stream=%s", S(handle));
    LEAVE(synchronize(handle));
}

static int query(CUstream handle)
{
    fm_stream *stream;
    int rc = find_stream(handle, &stream);
    return rc == OK ? front_stream_query(stream) : rc;
}

FM_EXPORT CUresult cuStreamQuery(CUstream handle)
{
    ENTER(0, "stream=%s", S(handle));
    LEAVE(query(handle));
}

FM_EXPORT CUresult cuStreamGetCtx(CUstream handle, CUcontext *context)
{
    ENTER(0, "stream=%s", S(handle));
    fm_stream *stream;
    int rc = find_stream(handle, &stream);
    if (rc == OK)
        *context = context_handle(stream->domain);
    LEAVE(rc);
}

#if FAKE_VERSION >= 12050
FM_EXPORT CUresult cuStreamGetCtx_v2(CUstream handle, CUcontext *context, CUgreenCtx *green)
{
    ENTER(0, "stream=%s", S(handle));
    fm_stream *stream;
    int rc = find_stream(handle, &stream);
    if (rc == OK) {
        *context = context_handle(stream->domain);
        *green = NULL;
    }
    LEAVE(rc);
}
#endif

FM_EXPORT CUresult cuStreamGetFlags(CUstream handle, unsigned int *flags)
{
    ENTER(0, "stream=%s", S(handle));
    fm_stream *stream;
    int rc = find_stream(handle, &stream);
    if (rc == OK)
        *flags = front_stream_flags(stream);
    LEAVE(rc);
}

FM_EXPORT CUresult cuStreamGetPriority(CUstream handle, int *priority)
{
    ENTER(0, "stream=%s", S(handle));
    fm_stream *stream;
    int rc = find_stream(handle, &stream);
    if (rc == OK)
        *priority = 0;
    LEAVE(rc);
}

FM_EXPORT CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    ENTER(CONTEXT, "%s", "");
    *least = 0;
    *greatest = -5;
    LEAVE(OK);
}

#if FAKE_VERSION >= 12000
FM_EXPORT CUresult cuStreamGetId(CUstream handle, unsigned long long *id)
{
    ENTER(0, "stream=%s", S(handle));
    fm_stream *stream;
    int rc = find_stream(handle, &stream);
    if (rc == OK)
        *id = stream->number;
    LEAVE(rc);
}
#endif

#if FAKE_VERSION >= 12080
FM_EXPORT CUresult cuStreamGetDevice(CUstream handle, CUdevice *device)
{
    ENTER(0, "stream=%s", S(handle));
    fm_stream *stream;
    int rc = find_stream(handle, &stream);
    if (rc == OK)
        *device = stream->domain->device;
    LEAVE(rc);
}
#endif

/* ---- events ---- */

FM_EXPORT CUresult cuEventCreate(CUevent *to, unsigned int flags)
{
    ENTER(CONTEXT | BLOCKS, "flags=%u", flags);
    fm_event *event = fm_event_new(current_context(), flags);
    *to = event_handle(event);
    NOTE(" got=%u", event->number);
    LEAVE(OK);
}

static int record(CUevent handle, CUstream stream_handle)
{
    fm_event *event;
    fm_stream *stream;
    int rc = find_event(handle, &event);
    if (rc == OK)
        rc = find_stream(stream_handle, &stream);
    return rc == OK ? front_error(fm_record(event, stream)) : rc;
}

FM_EXPORT CUresult cuEventRecord(CUevent event, CUstream stream)
{
    ENTER(BLOCKS, "ev=%s stream=%s", E(event), S(stream));
    LEAVE(record(event, stream));
}

#if FAKE_VERSION >= 11010
FM_EXPORT CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned int flags)
{
    ENTER(BLOCKS, "ev=%s stream=%s flags=%u", E(event), S(stream), flags);
    LEAVE(record(event, stream));
}
#endif

static int wait(CUstream stream_handle, CUevent handle)
{
    fm_event *event;
    fm_stream *stream;
    int rc = find_event(handle, &event);
    if (rc == OK)
        rc = find_stream(stream_handle, &stream);
    return rc == OK ? front_error(fm_wait(stream, event)) : rc;
}

FM_EXPORT CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags)
{
    ENTER(BLOCKS, "stream=%s ev=%s", S(stream), E(event));
    LEAVE_IF(flags, INVALID_VALUE);
    LEAVE(wait(stream, event));
}

FM_EXPORT CUresult cuEventQuery(CUevent handle)
{
    ENTER(0, "ev=%s", E(handle));
    fm_event *event;
    int rc = find_event(handle, &event);
    LEAVE(rc == OK ? front_event_query(event) : rc);
}

FM_EXPORT CUresult cuEventSynchronize(CUevent handle)
{
    ENTER(BLOCKS, "ev=%s", E(handle));
    fm_event *event;
    int rc = find_event(handle, &event);
    LEAVE(rc == OK ? front_error(fm_event_sync(event)) : rc);
}

FM_EXPORT CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end)
{
    ENTER(0, "start=%s end=%s", E(start), E(end));
    *milliseconds = 0;
    LEAVE(OK);
}

fm_event *event_to_end(CUevent handle); /* cuda.c */

FM_EXPORT CUresult cuEventDestroy_v2(CUevent handle)
{
    ENTER(BLOCKS, "ev=%s", E(handle));
    LEAVE(front_event_end(event_to_end(handle)));
}

#if FAKE_VERSION >= 12050
static int find_both(CUcontext context, fm_domain **domain, CUevent handle, fm_event **event)
{
    int rc = find_context(context, domain);
    return rc == OK ? find_event(handle, event) : rc;
}

FM_EXPORT CUresult cuCtxRecordEvent(CUcontext context, CUevent handle)
{
    ENTER(BLOCKS, "of=%s ev=%s", X(context), E(handle));
    fm_domain *domain;
    fm_event *event;
    int rc = find_both(context, &domain, handle, &event);
    LEAVE(rc == OK ? front_error(fm_domain_record(domain, event)) : rc);
}

FM_EXPORT CUresult cuCtxWaitEvent(CUcontext context, CUevent handle)
{
    ENTER(BLOCKS, "of=%s ev=%s", X(context), E(handle));
    fm_domain *domain;
    fm_event *event;
    int rc = find_both(context, &domain, handle, &event);
    LEAVE(rc == OK ? front_error(fm_domain_wait(domain, event)) : rc);
}
#endif

/* ---- gates: of an asynchronous fake; the others have no such thing switched on ---- */

static int wait_value(CUstream handle, CUdeviceptr word, cuuint32_t value, unsigned flags)
{
    fm_stream *stream;
    uint64_t seq;
    if (!fm_is_asynchronous())
        return NOT_SUPPORTED;
    int rc = find_stream(handle, &stream);
    const fm_memory *memory = fm_memory_at(word);
    if (rc == OK && (!memory || word % 4 || flags > FM_MISSING_BIT))
        rc = INVALID_VALUE;
    if (rc == OK)
        rc = front_error(fm_operation(stream, &seq));
    if (rc == OK)
        fm_queue_gate(stream, (void *)(uintptr_t)word, value, (fm_comparison)flags);
    return rc;
}

FM_EXPORT CUresult cuStreamWaitValue32(CUstream handle, CUdeviceptr word, cuuint32_t value,
                                       unsigned int flags)
{
    ENTER(0, "stream=%s word=%s value=%u", S(handle), M(word), value);
    LEAVE(wait_value(handle, word, value, flags));
}

#if FAKE_VERSION >= 11070
FM_EXPORT CUresult cuStreamWaitValue32_v2(CUstream handle, CUdeviceptr word, cuuint32_t value,
                                          unsigned int flags)
{
    ENTER(0, "stream=%s word=%s value=%u", S(handle), M(word), value);
    LEAVE(wait_value(handle, word, value, flags));
}
#endif

/* ---- per-thread twins: 0 means the per-thread default stream ---- */

static CUstream of_thread(CUstream handle)
{
    return handle ? handle : (CUstream)2;
}

FM_EXPORT CUresult cuStreamSynchronize_ptsz(CUstream handle)
{
    ENTER(BLOCKS, "stream=%s", S(of_thread(handle)));
    LEAVE(synchronize(of_thread(handle)));
}

FM_EXPORT CUresult cuStreamQuery_ptsz(CUstream handle)
{
    ENTER(0, "stream=%s", S(of_thread(handle)));
    LEAVE(query(of_thread(handle)));
}

FM_EXPORT CUresult cuEventRecord_ptsz(CUevent event, CUstream stream)
{
    ENTER(BLOCKS, "ev=%s stream=%s", E(event), S(of_thread(stream)));
    LEAVE(record(event, of_thread(stream)));
}

FM_EXPORT CUresult cuStreamWaitEvent_ptsz(CUstream stream, CUevent event, unsigned int flags)
{
    ENTER(BLOCKS, "stream=%s ev=%s", S(of_thread(stream)), E(event));
    LEAVE_IF(flags, INVALID_VALUE);
    LEAVE(wait(of_thread(stream), event));
}

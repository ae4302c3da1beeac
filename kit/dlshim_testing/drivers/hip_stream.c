/* Streams, events and captures. */
#include "hip.h"

/* ---- streams ---- */

static int new_stream(call *made, hipStream_t *to, unsigned flags)
{
    if (flags > NON_BLOCKING)
        return INVALID_VALUE;
    fm_stream *stream = fm_stream_new(current_device(), !(flags & NON_BLOCKING), NULL, false);
    *to = stream_handle(stream);
    call_note(made, " got=%s", stream->name);
    return OK;
}

FM_EXPORT hipError_t hipStreamCreateWithFlags(hipStream_t *to, unsigned int flags)
{
    ENTER(BLOCKS, "flags=%u", flags);
    LEAVE(new_stream(&this_call, to, flags));
}

FM_EXPORT hipError_t hipStreamDestroy(hipStream_t handle)
{
    ENTER(BLOCKS, "stream=%s", S(handle));
    LEAVE_IF((uintptr_t)handle <= 2, INVALID_HANDLE);
    fm_stream *stream;
    int rc = find_stream(handle, &stream);
    if (rc == OK)
        fm_stream_end(stream);
    LEAVE(rc);
}

FM_EXPORT hipError_t hipStreamSynchronize(hipStream_t handle)
{
    ENTER(BLOCKS, "stream=%s", S(handle));
    fm_stream *stream;
    int rc = find_stream(handle, &stream);
    LEAVE(rc == OK ? front_error(fm_stream_sync(stream)) : rc);
}

FM_EXPORT hipError_t hipStreamQuery(hipStream_t handle)
{
    ENTER(0, "stream=%s", S(handle));
    fm_stream *stream;
    int rc = find_stream(handle, &stream);
    LEAVE(rc == OK ? front_stream_query(stream) : rc);
}

FM_EXPORT hipError_t hipStreamGetFlags(hipStream_t handle, unsigned int *flags)
{
    ENTER(0, "stream=%s", S(handle));
    fm_stream *stream;
    int rc = find_stream(handle, &stream);
    if (rc == OK)
        *flags = front_stream_flags(stream);
    LEAVE(rc);
}

/* Returns the device, not an error; -1 when there is none to tell. */
FM_EXPORT int hipGetStreamDeviceId(hipStream_t handle)
{
    OPEN(0, "stream=%s", S(handle));
    fm_stream *stream;
    int rc = call_refused(&this_call, 0);
    if (rc == OK)
        rc = find_stream(handle, &stream);
    int device = rc == OK ? stream->domain->device : -1;
    call_leave(&this_call, rc);
    return device;
}

#if FAKE_VERSION >= 50600000
FM_EXPORT hipError_t hipStreamGetDevice(hipStream_t handle, hipDevice_t *device)
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

FM_EXPORT hipError_t hipEventCreateWithFlags(hipEvent_t *to, unsigned flags)
{
    ENTER(BLOCKS, "flags=%u", flags);
    fm_event *event = fm_event_new(current_device(), flags);
    *to = event_handle(event);
    NOTE(" got=%u", event->number);
    LEAVE(OK);
}

FM_EXPORT hipError_t hipEventRecord(hipEvent_t handle, hipStream_t stream_given)
{
    ENTER(BLOCKS, "ev=%s stream=%s", E(handle), S(stream_given));
    fm_event *event;
    fm_stream *stream;
    int rc = find_event(handle, &event);
    if (rc == OK)
        rc = find_stream(stream_given, &stream);
    LEAVE(rc == OK ? front_error(fm_record(event, stream)) : rc);
}

FM_EXPORT hipError_t hipStreamWaitEvent(hipStream_t stream_given, hipEvent_t handle,
                                        unsigned int flags)
{
    ENTER(BLOCKS, "stream=%s ev=%s", S(stream_given), E(handle));
    LEAVE_IF(flags, INVALID_VALUE);
    fm_event *event;
    fm_stream *stream;
    int rc = find_event(handle, &event);
    LEAVE_IF(rc != OK, rc);
    LEAVE_IF(find_stream(stream_given, &stream) != OK, INVALID_HANDLE); /* not 709, here */
    LEAVE(front_error(fm_wait(stream, event)));
}

FM_EXPORT hipError_t hipEventQuery(hipEvent_t handle)
{
    ENTER(0, "ev=%s", E(handle));
    fm_event *event;
    int rc = find_event(handle, &event);
    LEAVE(rc == OK ? front_event_query(event) : rc);
}

FM_EXPORT hipError_t hipEventSynchronize(hipEvent_t handle)
{
    ENTER(BLOCKS, "ev=%s", E(handle));
    fm_event *event;
    int rc = find_event(handle, &event);
    LEAVE(rc == OK ? front_error(fm_event_sync(event)) : rc);
}

FM_EXPORT hipError_t hipEventDestroy(hipEvent_t handle)
{
    ENTER(BLOCKS, "ev=%s", E(handle));
    LEAVE_IF(!handle, INVALID_HANDLE);
    LEAVE(front_event_end(event_to_end(handle)));
}

/* ---- captures ---- */

static int state(hipStream_t handle, hipStreamCaptureStatus *status, unsigned long long *id)
{
    fm_stream *stream;
    int rc = find_stream(handle, &stream);
    if (rc != OK)
        return rc;
    int found;
    rc = front_error(fm_capture_state(stream, &found, id));
    *status = (hipStreamCaptureStatus)found;
    return rc;
}

FM_EXPORT hipError_t hipStreamIsCapturing(hipStream_t handle, hipStreamCaptureStatus *status)
{
    ENTER(0, "stream=%s", S(handle));
    unsigned long long id;
    LEAVE(state(handle, status, &id));
}

FM_EXPORT hipError_t hipStreamGetCaptureInfo(hipStream_t handle, hipStreamCaptureStatus *status,
                                             unsigned long long *id)
{
    ENTER(0, "stream=%s", S(handle));
    unsigned long long found;
    int rc = state(handle, status, &found);
    if (rc == OK && id)
        *id = found;
    LEAVE(rc);
}

FM_EXPORT hipError_t hipStreamGetCaptureInfo_v2(hipStream_t handle, hipStreamCaptureStatus *status,
                                                unsigned long long *id, hipGraph_t *graph,
                                                const hipGraphNode_t **nodes, size_t *count)
{
    ENTER(0, "stream=%s", S(handle));
    unsigned long long found;
    int rc = state(handle, status, &found);
    if (rc == OK && id)
        *id = found;
    if (graph)
        *graph = NULL;
    if (nodes)
        *nodes = NULL;
    if (count)
        *count = 0;
    LEAVE(rc);
}

FM_EXPORT hipError_t hipStreamBeginCapture(hipStream_t handle, hipStreamCaptureMode mode)
{
    ENTER(0, "stream=%s mode=%d", S(handle), (int)mode);
    fm_stream *stream;
    int rc = find_stream(handle, &stream);
    LEAVE(rc == OK ? front_error(fm_capture_begin(stream, (fm_mode)mode)) : rc);
}

FM_EXPORT hipError_t hipStreamEndCapture(hipStream_t handle, hipGraph_t *graph)
{
    ENTER(0, "stream=%s", S(handle));
    fm_stream *stream;
    int rc = find_stream(handle, &stream);
    *graph = NULL;
    unsigned number;
    LEAVE(rc == OK ? front_error(fm_capture_end(stream, &number)) : rc);
}

FM_EXPORT hipError_t hipThreadExchangeStreamCaptureMode(hipStreamCaptureMode *mode)
{
    ENTER(0, "mode=%d", (int)*mode);
    *mode = (hipStreamCaptureMode)fm_exchange_mode((fm_mode)*mode);
    LEAVE(OK);
}

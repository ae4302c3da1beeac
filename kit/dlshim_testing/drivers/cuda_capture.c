/* Captures, graphs, and functions that run on the host in a stream's turn: what 9.2 has not. */
#include "cuda.h"
#include "queue.h"

#if FAKE_VERSION >= 10010

static const uintptr_t GRAPHS = 0x7c4000000000;

static int state(CUstream handle, CUstreamCaptureStatus *status, unsigned long long *id)
{
    fm_stream *stream;
    int rc = find_stream(handle, &stream);
    if (rc != OK)
        return rc;
    int found;
    rc = front_error(fm_capture_state(stream, &found, id));
    *status = (CUstreamCaptureStatus)found;
    return rc;
}

FM_EXPORT CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus *status)
{
    ENTER(0, "stream=%s", S(handle));
    unsigned long long id;
    LEAVE(state(handle, status, &id));
}

FM_EXPORT CUresult cuStreamGetCaptureInfo(CUstream handle, CUstreamCaptureStatus *status,
                                          cuuint64_t *id)
{
    ENTER(0, "stream=%s", S(handle));
    unsigned long long found;
    int rc = state(handle, status, &found);
    if (rc == OK)
        *id = found;
    LEAVE(rc);
}

#if FAKE_VERSION >= 11030
static int info(CUstream handle, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
                const CUgraphNode **nodes, size_t *count)
{
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
    return rc;
}

FM_EXPORT CUresult cuStreamGetCaptureInfo_v2(CUstream handle, CUstreamCaptureStatus *status,
                                             cuuint64_t *id, CUgraph *graph,
                                             const CUgraphNode **nodes, size_t *count)
{
    ENTER(0, "stream=%s", S(handle));
    LEAVE(info(handle, status, id, graph, nodes, count));
}
#endif

#if FAKE_VERSION >= 12030
FM_EXPORT CUresult cuStreamGetCaptureInfo_v3(CUstream handle, CUstreamCaptureStatus *status,
                                             cuuint64_t *id, CUgraph *graph,
                                             const CUgraphNode **nodes,
                                             const CUgraphEdgeData **edges, size_t *count)
{
    ENTER(0, "stream=%s", S(handle));
    if (edges)
        *edges = NULL;
    LEAVE(info(handle, status, id, graph, nodes, count));
}
#endif

FM_EXPORT CUresult cuStreamBeginCapture_v2(CUstream handle, CUstreamCaptureMode mode)
{
    ENTER(0, "stream=%s mode=%d", S(handle), (int)mode);
    fm_stream *stream;
    int rc = find_stream(handle, &stream);
    LEAVE(rc == OK ? front_error(fm_capture_begin(stream, (fm_mode)mode)) : rc);
}

FM_EXPORT CUresult cuStreamEndCapture(CUstream handle, CUgraph *graph)
{
    ENTER(0, "stream=%s", S(handle));
    fm_stream *stream;
    int rc = find_stream(handle, &stream);
    unsigned number = 0;
    if (rc == OK)
        rc = front_error(fm_capture_end(stream, &number));
    *graph = number ? (CUgraph)cookie(GRAPHS, number) : NULL;
    LEAVE(rc);
}

/* ---- graphs: of an asynchronous fake; an executable one is the graph itself ---- */

static int find_graph(const void *handle, unsigned *number)
{
    if (!fm_is_asynchronous())
        return NOT_SUPPORTED;
    *number = number_of(GRAPHS, (uintptr_t)handle);
    if (!fm_graph_exists(*number))
        fm_die("%#lx is no graph", (unsigned long)(uintptr_t)handle);
    return OK;
}

#if FAKE_VERSION >= 11040
FM_EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec *to, CUgraph graph,
                                               unsigned long long flags)
{
    ENTER(0, "flags=%llu", flags);
    unsigned number;
    int rc = find_graph(graph, &number);
    if (rc == OK)
        *to = (CUgraphExec)(void *)graph;
    LEAVE(rc);
}
#endif

FM_EXPORT CUresult cuGraphLaunch(CUgraphExec graph, CUstream handle)
{
    ENTER(BLOCKS, "stream=%s", S(handle));
    fm_stream *stream;
    unsigned number;
    uint64_t seq;
    int rc = find_graph(graph, &number);
    if (rc == OK)
        rc = find_stream(handle, &stream);
    if (rc == OK)
        rc = front_error(fm_operation(stream, &seq));
    if (rc == OK)
        fm_graph_launch(stream, number);
    LEAVE(rc);
}

FM_EXPORT CUresult cuGraphExecDestroy(CUgraphExec graph)
{
    ENTER(0, "%s", "");
    unsigned number;
    LEAVE(find_graph(graph, &number)); /* it is the graph itself */
}

FM_EXPORT CUresult cuGraphDestroy(CUgraph graph)
{
    ENTER(0, "%s", "");
    unsigned number;
    int rc = find_graph(graph, &number);
    if (rc == OK)
        fm_graph_end(number);
    LEAVE(rc);
}

FM_EXPORT CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    ENTER(0, "mode=%d", (int)*mode);
    *mode = (CUstreamCaptureMode)fm_exchange_mode((fm_mode)*mode);
    LEAVE(OK);
}

/* The function runs without the lock: it may not call the driver in real life. */
FM_EXPORT CUresult cuLaunchHostFunc(CUstream handle, CUhostFn function, void *argument)
{
    ENTER(BLOCKS, "stream=%s", S(handle));
    fm_stream *stream;
    uint64_t seq;
    int rc = find_stream(handle, &stream);
    if (rc == OK)
        rc = front_error(fm_operation(stream, &seq));
    if (rc == OK && fm_is_asynchronous()) {
        fm_queue_call(stream, function, argument);
        LEAVE(rc);
    }
    CUresult answer = call_leave(&this_call, rc);
    if (rc == OK)
        function(argument);
    return answer;
}

#endif

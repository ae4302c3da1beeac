/* The front of a fake libcuda: types, and how a call comes in and goes out.
 *
 * FAKE_VERSION is the driver's version (9020, 12020, 12050, 13000): a function that is newer is
 * not there.  FAKE_STUB answers 34 to everything, FAKE_NODEV finds no device.
 */
#ifndef FAKE_CUDA_H
#define FAKE_CUDA_H

#include <stddef.h>
#include <stdint.h>

#include "front.h"
#include "journal.h"
#include "shadow.h"

#ifndef FAKE_VERSION
#define FAKE_VERSION 13000
#endif

#ifdef FAKE_REAL_HEADER /* to compare our prototypes with the toolkit's */
#define __CUDA_API_VERSION_INTERNAL
#include FAKE_REAL_HEADER
#else
typedef int CUresult, CUdevice;
typedef int CUpointer_attribute, CUdevice_attribute, CUstreamCaptureStatus, CUstreamCaptureMode;
typedef int CUdriverProcAddressQueryResult, CUmemPool_attribute, CUlimit, CUctx_flags;
typedef unsigned long long CUdeviceptr;
typedef uint64_t cuuint64_t;
typedef uint32_t cuuint32_t;
typedef struct CUctx_st *CUcontext;
typedef struct CUgreenCtx_st *CUgreenCtx;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUarray_st *CUarray;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUmemPoolHandle_st *CUmemoryPool;
typedef struct CUgraphEdgeData_st CUgraphEdgeData;
typedef void (*CUhostFn)(void *);
typedef void (*CUstreamCallback)(CUstream, CUresult, void *);
typedef struct {
    char bytes[16];
} CUuuid;

typedef struct {
    size_t srcXInBytes, srcY;
    int srcMemoryType;
    const void *srcHost;
    CUdeviceptr srcDevice;
    CUarray srcArray;
    size_t srcPitch;
    size_t dstXInBytes, dstY;
    int dstMemoryType;
    void *dstHost;
    CUdeviceptr dstDevice;
    CUarray dstArray;
    size_t dstPitch;
    size_t WidthInBytes, Height;
} CUDA_MEMCPY2D;

typedef struct {
    size_t srcXInBytes, srcY, srcZ, srcLOD;
    int srcMemoryType;
    const void *srcHost;
    CUdeviceptr srcDevice;
    CUarray srcArray;
    void *reserved0;
    size_t srcPitch, srcHeight;
    size_t dstXInBytes, dstY, dstZ, dstLOD;
    int dstMemoryType;
    void *dstHost;
    CUdeviceptr dstDevice;
    CUarray dstArray;
    void *reserved1;
    size_t dstPitch, dstHeight;
    size_t WidthInBytes, Height, Depth;
} CUDA_MEMCPY3D;
#endif

#define RESULT CUresult

/* ---- contexts ---- */

fm_domain *current_context(void); /* of this thread; NULL for none */
bool device_exists(CUdevice device);
fm_domain *primary_of(CUdevice device);
bool is_primary(const fm_domain *domain);
/* The context of a handle, the current one for NULL: an error for none, or one that ended. */
int find_context(CUcontext handle, fm_domain **domain);

/* ---- handles ---- */

/* Unknown handles end the process.  The reserved ones want a current context. */
int find_stream(CUstream handle, fm_stream **stream);
int find_event(CUevent handle, fm_event **event);
CUcontext context_handle(const fm_domain *domain);
CUstream stream_handle(const fm_stream *stream);
CUevent event_handle(const fm_event *event);

label stream_label(CUstream handle);
label event_label(CUevent handle);
label context_label(CUcontext handle);
#define S(handle) stream_label(handle).text
#define E(handle) event_label(handle).text
#define X(handle) context_label(handle).text

/* ---- options, set by tests ---- */

typedef struct {
    int driver_version;
    int pointer_needs_context;  /* cuPointerGetAttribute wants a current context; 2: one of
                                   the memory's device */
    int concurrent_managed;     /* device attribute 89 */
    int pageable_access;        /* device attribute 88 */
    int memory_pools;           /* device attribute 115 */
} options;
extern options the_options;

#endif

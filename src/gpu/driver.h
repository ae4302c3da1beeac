/* The driver interface for syncs and copies: a table of functions for each vendor, the
 * calls that CUDA and HIP have in common, and how their libraries are found.
 *
 * Everything here may block and is called without the GIL (S16).  Where the result is
 * an int, it is DLS_OK or a code of core/base.h if there is a parameter `err`, else
 * the driver's own code: GPU_OK, or one that dls_gpu_check turns into an error. */
#pragma once

#include <stdbool.h>

#include "abi/dlpack_abi.h"
#include "abi/gpu_calls.h"
#include "core/base.h"
#include "core/sync_words.h"

/* --- libraries, functions and forks --------------------------------------- */
/* Finds shared libraries at run time and functions in them, and tells whether this
 * process was forked.  Libraries are never linked and never closed (S16).  No function
 * needs the GIL. */

/* The library of the first of `names` (NULL ends them) that this process has
 * mapped already, as a rule because an array's own library did.  If there is none and
 * only_mapped is false, the first that opens.  NULL: none of them. */
void *dls_loader_find(const char *const *names, bool only_mapped);

/* Fill `libraries` with the mapped ones whose file name begins with `prefix`, `room` at
 * most.  Returns their number; -1: no memory to look.  Frameworks bring copies of their
 * own, under names of their own. */
int dls_loader_all_mapped(const char *prefix, void **libraries, int room);

/* Changes whenever a library was mapped; always 0 where the system does not tell. */
unsigned long long dls_loader_generation(void);

/* Called before any lock of dlshim is taken.  From then on a fork waits until no thread
 * holds one of them. */
void dls_loader_watch_forks(void);

/* Say that a driver is about to be used.  From then on dls_loader_is_child says whether
 * this process was forked since; drivers must not be used in such a child (S23). */
void dls_loader_note_driver(void);
bool dls_loader_is_child(void);

/* A function of a library that must be there, or may be missing (NULL). */
typedef enum { DLS_LOADER_MUST, DLS_LOADER_MAY } dls_loader_need;
typedef struct {
    const char *name;
    size_t at; /* the member of a table that gets its address */
    dls_loader_need need;
} dls_loader_symbol;

/* Fill a table with the addresses of `count` symbols.  Returns NULL, or the first name
 * that must be there and is not. */
const char *dls_loader_fill(void *library, const dls_loader_symbol *symbols,
                            size_t count, void *table);

/* --- drivers -------------------------------------------------------------- */

/* HIP runtimes that one process may have mapped: a framework's, another's, the
 * system's. */
#define DLS_HIP_RUNTIMES 4

/* The context or device that was current before a place or a device was entered.  Only
 * the driver that filled it reads it. */
typedef struct {
    /* HIP, for each runtime: the number of the device that was current, plus 1; 0: it
     * was not changed */
    int device[DLS_HIP_RUNTIMES];
} dls_saved_device;

typedef struct dls_driver dls_driver;

/* A place where work is done: a context of CUDA, a device of HIP.  A plain value that
 * owns nothing; libraries are never unloaded, and contexts are their users'. */
typedef struct {
    const dls_driver *driver;
    const dls_gpu_calls *api; /* the library that is meant */
    uintptr_t context;        /* CUcontext, or device number */
    bool guessed;        /* the driver does not say that the memory belongs to it */
    bool records_device; /* an event can stand for all of its work (CUDA 12.5) */
} dls_place;

/* Calls that may fail, as errors name them.  X(name, in CUDA, in HIP) */
#define DLS_GPU_FAILURE_LIST(X)                                      \
    X(START, "cuInit", "")                                           \
    X(FIND, "looking for a context", "hipGetDeviceCount")            \
    X(FIND_STREAM, "cuStreamGetCtx", "")                             \
    X(ENTER, "cuCtxPushCurrent", "hipSetDevice")                     \
    X(EVENT_NEW, "cuEventCreate", "hipEventCreateWithFlags")         \
    X(RECORD, "cuEventRecord", "hipEventRecord")                     \
    X(RECORD_DEVICE, "cuCtxRecordEvent", "recording a whole device") \
    X(WAIT, "cuStreamWaitEvent", "hipStreamWaitEvent")               \
    X(SYNC, "cuStreamSynchronize", "hipStreamSynchronize")           \
    X(SYNC_EVENT, "cuEventSynchronize", "hipEventSynchronize")       \
    X(SYNC_DEVICE, "cuCtxSynchronize", "hipDeviceSynchronize")       \
    X(STREAM_NEW, "cuStreamCreate", "hipStreamCreateWithFlags")      \
    X(COPY, "cuMemcpyDtoHAsync", "hipMemcpyAsync")                   \
    X(COPY_PLANE, "cuMemcpy2DAsync", "hipMemcpy2DAsync")             \
    X(COPY_TO_DEVICE, "cuMemcpyHtoDAsync", "hipMemcpyAsync")         \
    X(COPY_WITHIN, "cuMemcpyDtoDAsync", "hipMemcpyAsync")            \
    X(COPY_PEER, "cuMemcpyPeerAsync", "hipMemcpyPeerAsync")          \
    X(ALLOCATE, "allocating memory", "hipMalloc")                    \
    X(FREE, "freeing memory", "hipFree")

typedef enum {
#define DLS_CALL(name, cuda, hip) DLS_CALL_##name,
    DLS_GPU_FAILURE_LIST(DLS_CALL)
} dls_call;

/* The way of a copy. */
typedef enum { DLS_WAY_TO_HOST, DLS_WAY_TO_DEVICE, DLS_WAY_WITHIN } dls_copy_way;

/* The functions and facts that differ between the vendors. */
struct dls_driver {
    const char *name; /* as errors begin */
    bool is_hip;      /* else CUDA */
    uint64_t legacy;  /* the handle of L */

    /* The place of work on `stream`; for the special handles up to 2 it is that of the
     * memory, which is asked for at most once, on device_id.  Starts the driver if it
     * has to.  DLS_OK with *place, or a code with *err. */
    int (*find)(uint64_t stream, int device_id, dls_memory *memory, dls_place *place,
                dls_error *err);
    /* Find the second place in which work may be unfinished, if the place is guessed
     * (memory of pools, virtual memory).  1 with *other, or 0: there is none.  NULL:
     * there never is one. */
    int (*find_other)(const dls_place *place, int device_id, dls_memory *memory,
                      dls_place *other);
    /* The place of new memory on a device: that of `stream`, or for the special handles
     * up to 2 the current one if it is of the device, else the device's own, which CUDA
     * makes where there is none yet (S19).  source: the device memory that will be
     * copied there, whose library HIP uses for it; NULL: the host's.  DLS_OK with
     * *place, or a code with *err: no such device, or the stream is another's. */
    int (*find_for_memory)(uint64_t stream, int device_id, const void *source,
                           dls_place *place, dls_error *err);
    /* The device's own place (CUDA's primary context), where most libraries work, if it
     * is in use and is not this place, which is current.  1 with *own, or 0.  NULL: a
     * device has one place. */
    int (*find_own)(const dls_place *place, dls_place *own);
    /* The number of the current device; 0 where none is current, or where the driver
     * is not in use. */
    int (*current_device)(void);
    /* Is the driver in use in this process already? */
    bool (*in_use)(void);

    /* Make the place current (S15).  DLS_OK: the caller must call leave(saved) on the
     * same thread; or a code with *err, and nothing was changed. */
    int (*enter)(const dls_place *place, dls_saved_device *saved, dls_error *err);
    /* Make the device current for a producer that is about to be called, where it is
     * not yet and the driver is in use.  true: the caller must call leave(saved) on the
     * same thread.  false: nothing was changed. */
    bool (*enter_device)(int device_id, dls_saved_device *saved);
    void (*leave)(const dls_saved_device *saved);

    /* For the members below, the place is current.  These two are called only where
     * place->records_device. */
    int (*record_device)(const dls_place *place, void *event);
    int (*wait_device)(const dls_place *place, void *event);
    /* Must the host leave managed memory alone while kernels of the device run?  NULL:
     * it need not. */
    bool (*host_must_be_alone)(int device_id);
    /* A number that tells places at one address apart; 0 where the driver has none. */
    uint64_t (*identity)(const dls_place *place);
    /* Start a copy of `bytes` bytes within the place, or between it and the host.  The
     * caller keeps both ends until the stream was synchronised. */
    int (*copy)(const dls_place *place, void *dst, const void *src, size_t bytes,
                dls_copy_way way, uint64_t stream);
    /* As copy, for `rows` runs of `bytes` each, `pitch` bytes apart in the source, to a
     * dense block. */
    int (*copy_plane)(const dls_place *place, void *dst, const void *src, size_t bytes,
                      size_t pitch, size_t rows, dls_copy_way way, uint64_t stream);
    /* As copy_plane, from one place to another, on a stream of `from`, which is
     * current. */
    int (*copy_peer)(const dls_place *to, void *dst, const dls_place *from,
                     const void *src, size_t bytes, uint64_t stream);
    /* Does new memory come from a pool?  It is then used and freed in the turn of a
     * stream. */
    bool (*has_pools)(const dls_place *place);
    /* New memory, and its end.  pooled: the answer of has_pools; the memory may be used
     * after the work that `stream` has been given so far, and is freed in its turn.
     * Other memory is freed when all work of the device is done: the host waits. */
    int (*allocate)(const dls_place *place, size_t bytes, bool pooled, uint64_t stream,
                    void **address);
    int (*deallocate)(const dls_place *place, void *address, bool pooled,
                      uint64_t stream);

    /* The driver's name of a result code, or NULL.  The text is the driver's. */
    const char *(*error_name)(const dls_gpu_calls *api, int result);
    /* A failed call stays in the thread's last error, where frameworks look after every
     * launch: take it away.  NULL: the driver keeps none. */
    void (*forget_error)(const dls_gpu_calls *api);
};

/* A stream handle as the drivers take it. */
static inline void *
dls_gpu_stream(uint64_t stream)
{
    return (void *)(uintptr_t)stream;
}

/* --- calls that both vendors have; the place is current -------------------- */

/* GPU_OK with a new *event, for dls_gpu_event_end; else *event is NULL. */
int dls_gpu_event_new(const dls_place *place, void **event);
void dls_gpu_event_end(const dls_place *place, void *event);
/* GPU_OK with a new *stream that does not wait for L; dlshim never ends one. */
int dls_gpu_stream_new(const dls_place *place, uint64_t *stream);

/* Does the stream capture a graph?  For L: does any stream that waits for L?  Does no
 * harm to a capture; false where the driver cannot be asked. */
bool dls_gpu_captures(const dls_place *place, uint64_t stream);
/* Two streams that capture: do they capture one graph? */
bool dls_gpu_one_capture(const dls_place *place, uint64_t a, uint64_t b);
/* Is the driver's code a refusal because of a capture? */
bool dls_gpu_is_capture_error(int result);

/* Set this thread's capture mode and return the one before, which the caller sets
 * again.  Some calls are refused during another thread's capture unless this thread
 * says "relaxed". */
int dls_gpu_set_capture_mode(const dls_gpu_calls *api, int mode);

/* DLS_OK for GPU_OK; else fill *err for the call that failed, and return its code
 * (S24). device_id: for the text, -1 where it is not known. */
int dls_gpu_check(const dls_place *place, int result, dls_call call, int device_id,
                  dls_error *err);

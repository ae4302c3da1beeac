/* What ordering and copies need of a device's driver: one table of functions for CUDA,
 * one for HIP.  handoff, pool and device_copy know nothing else of either.
 *
 * All are called without the GIL and may block.  Results are the driver's own codes, 0
 * is success; `fail` turns one into an error.
 */
#ifndef DLS_DEVICE_DRIVER_H
#define DLS_DEVICE_DRIVER_H

#include "abi/dlpack_abi.h"
#include "core/error.h"

/* Where work is done: a context of CUDA, a device of HIP. */
typedef struct {
    const void *api;   /* the function table of the library that is meant */
    uintptr_t context; /* CUcontext, or device number */
    bool guessed;      /* nobody said that it is the memory's */
} dls_place;

/* Calls, as errors name them. */
typedef enum {
    DLS_CALL_EVENT_NEW,
    DLS_CALL_RECORD,
    DLS_CALL_RECORD_DEVICE,
    DLS_CALL_WAIT,
    DLS_CALL_SYNC,
    DLS_CALL_SYNC_DEVICE,
    DLS_CALL_STREAM_NEW,
    DLS_CALL_COPY,
    DLS_CALL_COPY_PLANE,
    DLS_CALLS
} dls_call;

typedef struct {
    const char *name;
    uint64_t legacy; /* the handle of L */

    /* The place of work on `stream` (up to 2: of the memory at `address`, on
     * device_id). Starts the driver where that is needed.  DLS_OK, or a code with *err.
     */
    int (*find)(uint64_t stream, int device_id, const void *address, dls_place *place,
                dls_error *err);
    /* Where the place is guessed (pools, virtual memory) work may be pending in a
     * second one: 1 = *other. */
    int (*find_other)(const dls_place *place, int device_id, const void *address,
                      dls_place *other);
    /* Is the driver in use in this process already? */
    bool (*in_use)(void);
    /* Make it current; *before is for leave, which every success is paired with. */
    int (*enter)(const dls_place *place, int *before, dls_error *err);
    void (*leave)(const dls_place *place, int before);

    /* Below, the place is current. */
    bool (*captures)(const dls_place *place, uint64_t stream);
    bool (*one_capture)(const dls_place *place, uint64_t a, uint64_t b);
    bool (*can_record_device)(const dls_place *place);
    bool (*host_must_be_alone)(const dls_place *place, int device_id);
    uint64_t (*identity)(
        const dls_place *place); /* tells places at one address apart */
    int (*event_new)(const dls_place *place, void **event);
    void (*event_end)(const dls_place *place, void *event);
    int (*record)(const dls_place *place, void *event, uint64_t stream);
    int (*record_device)(const dls_place *place, void *event);
    int (*wait)(const dls_place *place, uint64_t stream, void *event);
    int (*wait_device)(const dls_place *place, void *event);
    int (*sync)(const dls_place *place, uint64_t stream);
    int (*sync_device)(const dls_place *place);
    int (*stream_new)(const dls_place *place, uint64_t *stream);
    int (*copy)(const dls_place *place, void *dst, const void *src, size_t bytes,
                uint64_t stream);
    /* `rows` runs of `bytes` each, `pitch` bytes apart, to a dense block. */
    int (*copy_plane)(const dls_place *place, void *dst, const void *src, size_t bytes,
                      size_t pitch, size_t rows, uint64_t stream);
    int (*fail)(const dls_place *place, dls_error *err, int result, dls_call call,
                int device_id);
    bool (*is_capture_error)(int result);
} dls_driver;

extern const dls_driver dls_cuda_driver;
extern const dls_driver dls_hip_driver;

static inline const dls_driver *
dls_driver_of(int32_t device_type)
{
    return device_type == dl_kDLROCM || device_type == dl_kDLROCMHost
               ? &dls_hip_driver
               : &dls_cuda_driver;
}

#endif

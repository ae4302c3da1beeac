/* The front of a fake libamdhip64: types, and how a call comes in and goes out.
 *
 * FAKE_VERSION is what hipRuntimeGetVersion tells (50221153, 60443484, 70000000): the numbers of
 * memory types, and what comes of pointers and streams that are unknown, go by it.  FAKE_NODEV
 * is the error of a machine without a device: 101 in ROCm 5.2, 100 in 6.4.
 *
 * There are no contexts: a domain is a device, and every thread has a current one, 0 at first.
 *
 * Every thread has a last error, for hipGetLastError: that of the last call, or from 7.0 on that
 * of the last call that failed.
 */
#ifndef FAKE_HIP_H
#define FAKE_HIP_H

#include <stddef.h>
#include <stdint.h>

#include "front.h"
#include "journal.h"
#include "shadow.h"

#ifndef FAKE_VERSION
#define FAKE_VERSION 60443484
#endif

#ifdef FAKE_REAL_HEADER /* to compare our prototypes with ROCm's */
#include FAKE_REAL_HEADER
#else
typedef int hipError_t, hipMemcpyKind, hipStreamCaptureStatus, hipStreamCaptureMode, hipDevice_t;
typedef struct ihipStream_t *hipStream_t;
typedef struct ihipEvent_t *hipEvent_t;
typedef struct ihipGraph *hipGraph_t;
typedef struct hipGraphNode *hipGraphNode_t;
typedef struct hipPointerAttribute_t hipPointerAttribute_t;
#endif

/* The layout of hipPointerAttribute_t in 5.x and 6.x. */
typedef struct {
    int type, device;
    void *device_pointer, *host_pointer;
    int managed;
    unsigned flags;
} pointer_facts;

#define RESULT hipError_t

enum { MAJOR = FAKE_VERSION / 10000000 };

/* ---- devices and handles ---- */

fm_domain *current_device(void); /* of this thread */

/* 0 and 2 mean those of the current device.  An unknown stream is an error before HIP 7, and
 * ends the process from then on; an unknown event always does. */
int find_stream(hipStream_t handle, fm_stream **stream);
int find_event(hipEvent_t handle, fm_event **event);
hipStream_t stream_handle(const fm_stream *stream);
hipEvent_t event_handle(const fm_event *event);
/* As find_event, but one that has ended is given too. */
fm_event *event_to_end(hipEvent_t handle);

label stream_label(hipStream_t handle);
label event_label(hipEvent_t handle);
#define S(handle) stream_label(handle).text
#define E(handle) event_label(handle).text

#endif

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

enum {
    OK = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_HANDLE = 400,
    NOT_READY = 600,
    CONTEXT_IS_DESTROYED = 709,
};

enum { DEVICES = 2, MAJOR = FAKE_VERSION / 10000000 };

/* ---- calls ---- */

typedef struct {
    const char *name;
    char text[160];
    int device; /* the current one when the call came in */
    bool apart; /* leaves the thread's last error as it is */
} call;

enum {
    EARLY = 1,  /* answers without a device, and starts nothing */
    BLOCKS = 2, /* may wait: Python's lock must not be held */
    APART = 4,  /* leaves the thread's last error as it is */
};

/* Take the lock and count.  Only then may handles be looked at, if only to name them. */
void call_open(call *made, const char *name, unsigned rules);
/* More for the line: what was given, what was made. */
void call_note(call *made, const char *format, ...) FM_FORMAT(2, 3);
/* The error with which the rules refuse the call, or OK. */
int call_refused(const call *made, unsigned rules);
/* Write the line and give the lock back. */
hipError_t call_leave(call *made, int rc);

#define OPEN(rules, ...)                                                                           \
    call this_call;                                                                                \
    do {                                                                                           \
        call_open(&this_call, __func__, rules);                                                    \
        call_note(&this_call, __VA_ARGS__);                                                        \
    } while (0)
#define ENTER(rules, ...)                                                                          \
    OPEN(rules, __VA_ARGS__);                                                                      \
    do {                                                                                           \
        int refused_ = call_refused(&this_call, rules);                                            \
        if (refused_ != OK)                                                                        \
            return call_leave(&this_call, refused_);                                               \
    } while (0)
#define NOTE(...) call_note(&this_call, __VA_ARGS__)
#define LEAVE(rc) return call_leave(&this_call, (int)(rc))
#define LEAVE_IF(condition, rc)                                                                    \
    do {                                                                                           \
        if (condition)                                                                             \
            LEAVE(rc);                                                                             \
    } while (0)

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

typedef struct {
    char text[32];
} label;
label stream_label(hipStream_t handle);
label event_label(hipEvent_t handle);
label memory_label(uintptr_t address);
#define S(handle) stream_label(handle).text
#define E(handle) event_label(handle).text
#define M(address) memory_label((uintptr_t)(address)).text

#endif

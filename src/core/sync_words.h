/* The words of the sync rules (docs/streams.rst).
 *
 * P is the producer stream: the one with the producer's unfinished work on the memory.
 * S is the consumer stream, L the legacy default stream.  Which rule fits which device,
 * producer and value of `stream` is data in gpu/sync_rules.def.  This file has types
 * only, so that the record of an exchange can hold them; it needs no driver.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "abi/dlpack_abi.h"

/* Every list has entries X(NAME, text).  Tables and errors show the text. */

/* Devices that share one set of rules (S3 to S9). */
#define DLS_FAMILY_LIST(X)          \
    X(HOST, "host")                 \
    X(CUDA, "CUDA")                 \
    X(CUDA_HOST, "CUDA host")       \
    X(CUDA_MANAGED, "CUDA managed") \
    X(ROCM, "ROCm")                 \
    X(ROCM_HOST, "ROCm host")       \
    X(ONEAPI, "oneAPI")             \
    X(OTHER, "other")

/* The values that a consumer may pass as `stream=` (S1). */
#define DLS_VALUE_LIST(X)                                                     \
    X(NONE, "None")                                                           \
    X(MINUS_ONE, "-1")                                                        \
    X(ZERO, "0")                                                              \
    X(ONE, "1")                                                               \
    X(TWO, "2")                                                               \
    X(HANDLE, "handle")                                                       \
    X(OBJECT, "object") /* an object without a handle, such as a SyclQueue */ \
    X(WAIT, "wait")     /* the option's word: ready for every stream */

/* How a producer treats the stream that it is passed (S2). */
#define DLS_PRODUCER_LIST(X)                                                       \
    X(MODERN, "modern")                   /* syncs with the stream itself */       \
    X(REFUSES_TWO, "modern, not 2")       /* BufferError for stream 2 (torch) */   \
    X(NO_MINUS_ONE, "modern, not -1")     /* takes -1 for a handle (JAX) */        \
    X(UNKNOWN, "modern, unknown library") /* its P cannot be found */              \
    X(IGNORES, "ignores stream")          /* takes the keyword and does nothing */ \
    X(OLD, "no stream")     /* has no such keyword, or is asked in another way:    \
                               capsules, functions, array interfaces */            \
    X(WAITED, "has waited") /* the data were ready when it returned */

/* The values that the producer is passed as `stream=`; OMIT: the keyword is not
 * given. */
#define DLS_ARGUMENT_LIST(X) \
    X(OMIT, "-")             \
    X(PASS_NONE, "None")     \
    X(PASS_MINUS_1, "-1")    \
    X(PASS_0, "0")           \
    X(PASS_1, "1")           \
    X(PASS_S, "S")           \
    X(PASS_OWN, "D") /* a stream or queue of dlshim's own, for which it then waits */

/* The task that a rule leaves for dlshim after the call.  The action for it depends on
 * the knowledge of P, see dls_action. */
#define DLS_TASK_LIST(X)                                               \
    X(NOTHING, "-")                                                    \
    X(EDGE_FROM_L, "edge(L,S)") /* the producer led its work into L */ \
    X(SYNC, "sync(P,S)")                                               \
    X(SYNC_IF_KNOWN, "sync(P,S) if P is known")                        \
    X(WAIT, "wait(P)") /* the host is the reader */                    \
    X(WAIT_IF_KNOWN, "wait(P) if P is known")                          \
    X(WAIT_L, "wait(L)")     /* the producer led its work into L */    \
    X(WAIT_OWN, "wait(D)")   /* the producer led its work into D */    \
    X(REFUSE, "BufferError") /* dlshim cannot sync there */            \
    X(VALUE_ERROR, "ValueError")                                       \
    X(TYPE_ERROR, "TypeError")

/* The actions for a task.  The knowledge of P decides between them (S12, S14). */
#define DLS_ACTION_LIST(X)                                \
    X(NOTHING, "nothing")                                 \
    X(EDGE, "edge(P,S)")                                  \
    X(DEVICE_EDGE, "edge(whole device,S)")                \
    X(EVENT_EDGE, "S waits for the event")                \
    X(WAIT_STREAM, "the host waits for P")                \
    X(WAIT_EVENT, "the host waits for the event")         \
    X(WAIT_DEVICE, "the host waits for the whole device") \
    X(REFUSE_CAPTURE, "BufferError: capture")             \
    X(REFUSE_UNKNOWN, "BufferError: P is not known")      \
    X(REFUSE, "BufferError")

#define DLS_ENUM_FAMILY(name, text) DLS_FAMILY_##name,
#define DLS_ENUM_VALUE(name, text) DLS_VALUE_##name,
#define DLS_ENUM_PRODUCER(name, text) DLS_PRODUCER_##name,
#define DLS_ENUM_ARGUMENT(name, text) DLS_##name,
#define DLS_ENUM_TASK(name, text) DLS_TASK_##name,
#define DLS_ENUM_ACTION(name, text) DLS_ACTION_##name,
typedef enum { DLS_FAMILY_LIST(DLS_ENUM_FAMILY) DLS_FAMILIES } dls_family;
typedef enum { DLS_VALUE_LIST(DLS_ENUM_VALUE) DLS_VALUES } dls_value;
typedef enum { DLS_PRODUCER_LIST(DLS_ENUM_PRODUCER) DLS_PRODUCERS } dls_producer_kind;
typedef enum { DLS_ARGUMENT_LIST(DLS_ENUM_ARGUMENT) DLS_ARGUMENTS } dls_argument;
typedef enum { DLS_TASK_LIST(DLS_ENUM_TASK) DLS_TASKS } dls_task;
typedef enum { DLS_ACTION_LIST(DLS_ENUM_ACTION) DLS_ACTIONS } dls_action;

/* A value of `stream` that was read. */
typedef struct {
    dls_value value;
    uint64_t handle;  /* of ONE, TWO and HANDLE; 0 for ZERO */
    bool from_object; /* it is the handle of a stream object */
} dls_stream;

/* The knowledge of P (S11). */
typedef enum {
    DLS_P_UNKNOWN,
    DLS_P_READY, /* the producer has no unfinished work */
    DLS_P_KNOWN, /* it is the stream below */
    DLS_P_EVENT  /* the work ends with the event below */
} dls_knowledge;

typedef struct {
    dls_knowledge known;
    /* READY: the stream on which consumers of our C table go on, 0 for none; of devices
     * that dlshim does not synchronise (S21).
     * KNOWN: 1 is L, 2 the per-thread default stream (CUDA), else an address: of the
     * driver's stream, or of the object where streams are objects.
     * EVENT: the driver's event; 0: none, or of a device that dlshim does not know.  It
     * lives as long as the struct that came with it. */
    uint64_t handle;
    void *object; /* borrowed; oneAPI: the queue */
} dls_producer_stream;

/* The option unknown_stream (S12). */
enum { DLS_UNKNOWN_AUTO, DLS_UNKNOWN_LEGACY, DLS_UNKNOWN_SAME, DLS_UNKNOWN_ERROR };

/* On which stream dlshim copies the memory to the host (S18). */
typedef enum {
    DLS_COPY_NONE,    /* there is no such stream: nothing is to be copied there */
    DLS_COPY_NOTHING, /* the array is empty, which takes no stream and no driver */
    DLS_COPY_ON,      /* on `stream`, which has been synced with P */
    DLS_COPY_WAITED   /* on any queue: the host has waited for P (oneAPI) */
} dls_copy_kind;

typedef struct {
    dls_copy_kind kind;
    uint64_t stream; /* set for COPY_ON */
} dls_copy_place;

/* The answers of a driver.  All zero is right if no driver was asked. */
typedef struct {
    bool can_record_device; /* an event can stand for a whole device (CUDA 12.5) */
    bool no_device_wait;    /* the host cannot wait for a whole device (oneAPI) */
    /* Host and kernels must not touch managed memory at the same time (S4). */
    bool host_must_be_alone;
    bool s_captures;
    bool p_captures;
    bool one_capture;     /* S and P both capture, and into the same graph */
    bool device_captures; /* L says that a stream of the context captures */
} dls_sync_facts;

/* Memory, and what a driver tells of it: it is asked once in an exchange
 * (gpu/pointer.h). */
typedef struct {
    const void *address; /* of element zero; NULL: not known yet */
    const void *asked;   /* the driver that has answered; NULL: none, and the rest says
                          * nothing */
    uintptr_t owner;     /* CUDA: the context; HIP: the runtime.  0: unknown, or none */
    int type;     /* CU_TYPE_HOST (pinned), CU_TYPE_DEVICE; 0: it has no answer */
    int device;   /* -1: unknown */
    bool managed; /* CUDA alone tells */
    int error;    /* with which the driver failed; GPU_OK: it answered, if only that it
                   * knows no such address */
} dls_memory;

/* One task for a driver: which stream must come after which, and where. */
typedef struct {
    dls_task task;
    dls_producer_stream p;
    uint64_t s;      /* as the driver takes it; L for None */
    bool has_s;      /* false: the host is the reader */
    bool s_omitted;  /* the consumer named no stream: L is only assumed (S14) */
    bool said_ready; /* stream=-1 was passed: a copy alone waits (S10) */
    uint8_t policy;  /* DLS_UNKNOWN_* */
    dl_device device;
    dls_memory memory;
    /* Guarded releases (S22): the place, as the driver named it at the export. */
    const void *place_api;
    uintptr_t place_context;
    uint64_t place_id;
} dls_sync_job;

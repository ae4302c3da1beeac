/* The words of stream ordering (design section 6; reference streams.md 6).
 *
 * P is the stream in which the producer's work on the memory is pending, S the one that
 * the consumer passed, L the legacy default stream.  What happens for which device,
 * producer and value of `stream` is data: gpu/sync_rules.def.
 */
#ifndef DLS_CORE_ORDER_H
#define DLS_CORE_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "abi/dlpack_abi.h"

/* X(NAME, text) throughout: the text is what tables and messages show. */

/* Devices that share one set of rules. */
#define DLS_FAMILY_LIST(X)          \
    X(HOST, "host")                 \
    X(CUDA, "CUDA")                 \
    X(CUDA_HOST, "CUDA host")       \
    X(CUDA_MANAGED, "CUDA managed") \
    X(ROCM, "ROCm")                 \
    X(ROCM_HOST, "ROCm host")       \
    X(ONEAPI, "oneAPI")             \
    X(OTHER, "other")

/* What may stand behind `stream=`. */
#define DLS_VALUE_LIST(X) \
    X(NONE, "None")       \
    X(MINUS_ONE, "-1")    \
    X(ZERO, "0")          \
    X(ONE, "1")           \
    X(TWO, "2")           \
    X(HANDLE, "handle")   \
    X(OBJECT, "object") /* of no known handle: a SyclQueue */

/* How a producer treats the stream that it is passed. */
#define DLS_PRODUCER_LIST(X)                                                     \
    X(MODERN, "modern")               /* orders its work before the stream */    \
    X(REFUSES_TWO, "modern, not 2")   /* BufferError for stream 2 (torch) */     \
    X(NO_MINUS_ONE, "modern, not -1") /* takes -1 for a handle (JAX) */          \
    X(IGNORES, "ignores stream")      /* takes the keyword and does nothing */   \
    X(OLD, "no stream")     /* no keyword, capsule, function, array interface */ \
    X(WAITED, "has waited") /* the data were ready when it returned */

/* What the producer is passed. */
#define DLS_ARGUMENT_LIST(X) \
    X(NOTHING, "-")          \
    X(NULL_, "None")         \
    X(MINUS, "-1")           \
    X(NIL, "0")              \
    X(L, "1")                \
    X(S, "S")

/* What dlshim owes after the call, before P is looked at. */
#define DLS_DUTY_LIST(X)                                       \
    X(NOTHING, "-")                                            \
    X(HOP, "edge(L,S)") /* the producer ordered into L */      \
    X(ORDER, "order(P,S)")                                     \
    X(ORDER_KNOWN, "order(P,S) if P is known")                 \
    X(WAIT, "wait(P)") /* the host is the reader */            \
    X(WAIT_KNOWN, "wait(P) if P is known")                     \
    X(WAIT_L, "wait(L)")     /* the producer ordered into L */ \
    X(REFUSE, "BufferError") /* no road there */               \
    X(VALUE, "ValueError")                                     \
    X(TYPE, "TypeError")

/* What is done. */
#define DLS_ACTION_LIST(X)                                \
    X(NOTHING, "nothing")                                 \
    X(EDGE, "edge(P,S)")                                  \
    X(DEVICE_EDGE, "edge(whole device,S)")                \
    X(SYNC_STREAM, "the host waits for P")                \
    X(SYNC_DEVICE, "the host waits for the whole device") \
    X(REFUSE_CAPTURE, "BufferError: capture")             \
    X(REFUSE_UNKNOWN, "BufferError: P is not known")      \
    X(REFUSE, "BufferError")

#define DLS_ENUM_FAMILY(name, text) DLS_FAMILY_##name,
#define DLS_ENUM_VALUE(name, text) DLS_VALUE_##name,
#define DLS_ENUM_PRODUCER(name, text) DLS_PRODUCER_##name,
#define DLS_ENUM_ARGUMENT(name, text) DLS_ARGUMENT_##name,
#define DLS_ENUM_DUTY(name, text) DLS_DUTY_##name,
#define DLS_ENUM_ACTION(name, text) DLS_ACTION_##name,
typedef enum { DLS_FAMILY_LIST(DLS_ENUM_FAMILY) DLS_FAMILIES } dls_family;
typedef enum { DLS_VALUE_LIST(DLS_ENUM_VALUE) DLS_VALUES } dls_value;
typedef enum { DLS_PRODUCER_LIST(DLS_ENUM_PRODUCER) DLS_PRODUCERS } dls_producer_kind;
typedef enum { DLS_ARGUMENT_LIST(DLS_ENUM_ARGUMENT) DLS_ARGUMENTS } dls_argument;
typedef enum { DLS_DUTY_LIST(DLS_ENUM_DUTY) DLS_DUTIES } dls_duty;
typedef enum { DLS_ACTION_LIST(DLS_ENUM_ACTION) DLS_ACTIONS } dls_action;

/* What is known of P.  A handle is 1 (L), 2 (per-thread default) or above; where
 * streams are objects it is the object's address. */
typedef enum {
    DLS_P_UNKNOWN,
    DLS_P_READY, /* nothing is pending */
    DLS_P_KNOWN
} dls_knowledge;

typedef struct {
    dls_knowledge known;
    uint64_t handle;
    void *object; /* borrowed, oneAPI: the queue */
} dls_pending;

/* The option unknown_stream. */
enum { DLS_UNKNOWN_AUTO, DLS_UNKNOWN_LEGACY, DLS_UNKNOWN_SAME, DLS_UNKNOWN_ERROR };

/* What a driver has been asked; all zero is right where none was. */
typedef struct {
    bool can_record_device; /* a device-wide event exists (CUDA 12.5) */
    bool no_device_wait;    /* nor can the host wait for all of a device (oneAPI) */
    bool
        host_must_be_alone; /* host and kernels must not touch managed memory at once */
    bool s_captures;
    bool p_captures;
    bool one_capture;     /* both, and the same one */
    bool device_captures; /* some stream of the context, as far as can be seen */
} dls_order_facts;

/* An ordering to carry out. */
typedef struct {
    dls_duty duty;
    dls_pending p;
    uint64_t s;     /* as the driver takes it; L for None */
    bool has_s;     /* false: the host is the reader */
    uint8_t policy; /* DLS_UNKNOWN_* */
    dl_device device;
    const void *address;  /* of element zero */
    const void *home_api; /* guards: the place, as the driver named it at the export */
    uintptr_t home;
    uint64_t home_id;
} dls_ordering;

#endif

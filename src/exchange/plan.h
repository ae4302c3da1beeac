/* One plan per type: which ways in it offers and what asking it has taught (N1).
 *
 * Plans are counted; a Producer owns a count, so the hot road looks nothing up.  A plan
 * holds nothing that leads back to its type.  GIL held throughout.
 */
#ifndef DLS_SOURCE_PLAN_H
#define DLS_SOURCE_PLAN_H

#include "abi/dlpack_abi.h"
#include "acquire/call.h"
#include "exchange/library.h"
#include "python/py.h"
#include "python/state.h"

/* The rungs of the ladder (N2), in the order in which they are tried. */
#define DLS_RUNG_LIST(X)                    \
    X(TABLE, "exchange table")              \
    X(DLPACK, "__dlpack__")                 \
    X(FUNCTION, "capsule function")         \
    X(CUDA, "__cuda_array_interface__")     \
    X(SYCL, "__sycl_usm_array_interface__") \
    X(STRUCT, "__array_struct__")           \
    X(INTERFACE, "__array_interface__")     \
    X(BUFFER, "buffer protocol")

typedef enum {
#define DLS_RUNG_ENUM(name, text) DLS_RUNG_##name,
    DLS_RUNG_LIST(DLS_RUNG_ENUM)
#undef DLS_RUNG_ENUM
        DLS_RUNG_COUNT
} dls_rung;

extern const char *const dls_rung_names[DLS_RUNG_COUNT];

/* A way of asking that has worked. */
typedef struct {
    bool known;
    uint8_t rung;
    uint8_t mask;      /* DLS_ASK_*: keywords passed (rung DLPACK) */
    uint8_t versioned; /* flavour that it answered */
} dls_way;

/* A way that may take the express road (module/express), in one byte.  0: it may not.
 */
#define DLS_EXPRESS_OPEN 1u
#define DLS_EXPRESS_TABLE 2u     /* rung TABLE, else DLPACK ... */
#define DLS_EXPRESS_VERSION 4u   /* ... with max_version */
#define DLS_EXPRESS_VERSIONED 8u /* the flavour that it answered */
#define DLS_EXPRESS_WANTED 16u   /* the flavour that is wanted */
#define DLS_EXPRESS_BY_TYPE 32u  /* the plan's by_type */
#define DLS_EXPRESS_DIRECT 64u   /* the plan's method is called */
#define DLS_EXPRESS_ASKED \
    128u /* where it lies is asked by a method that is looked up */

typedef struct dls_plan {
    intptr_t refs;
    PyTypeObject *type;         /* an address to compare with, not a reference */
    const dls_library *library; /* NULL: no row */
    uint32_t traits;            /* DLS_LIB_* of the row */
    const dl_exchange_api *table;
    PyObject *method; /* __dlpack__ and ... */
    PyObject
        *device_method; /* ... __dlpack_device__ of a type that is never changed and
                         * never ends: called without a look-up; strong, or NULL */
    /* Of the library's own class (no subclass), found on a class that cannot be
     * changed; one put on a class before it later is not heard.  Strong, or NULL:
     * looked up each time. */
    PyObject *is_neg;         /* LAZY_BITS */
    dls_getter requires_grad; /* the same */
    dls_getter where;         /* BASE_TELLS, IS_CPU_TELLS (exchange/on_host.h) */
    uint32_t offers;          /* bit 1 << dls_rung */
    bool can_cycle;           /* instances take part in garbage collection */
    bool has_device;          /* __dlpack_device__ is there */
    bool cpu_only;    /* objects cannot be elsewhere: the device is not asked (N5) */
    bool by_type;     /* __dlpack__ is a method that instances could shadow (N1) */
    bool on_instance; /* found on the instance: belongs to one object only */
    bool met;         /* exported once: the device is known to be the host, or asked */
    uint8_t refused;  /* DLS_ASK_*: keywords that had to be dropped off the host (N1) */
    uint8_t taken; /* DLS_ASK_*: keywords that were taken off the host: never refused */
    bool off_host; /* has been seen off the host: always ask (N5) */
    uint8_t express[2]; /* DLS_EXPRESS_*, of ... */
    dls_way ways[2];    /* [0] a legacy, [1] a versioned capsule is wanted */
} dls_plan;

static inline bool
dls_plan_has(const dls_plan *plan, uint32_t trait)
{
    return (plan->traits & trait) != 0;
}

static inline bool
dls_plan_offers(const dls_plan *plan, dls_rung rung)
{
    return plan->offers >> rung & 1;
}

/* Off the host nothing is taken for granted (N5). */
static inline void
dls_plan_leave_host(dls_plan *plan)
{
    plan->off_host = true;
    plan->express[0] = plan->express[1] = 0;
}

/* The plan of an object's type, a new count; NULL with UnsupportedObjectError when it
 * offers no way in, or with what looking raised. */
dls_plan *dls_plan_find(dls_state *state, PyObject *obj);
static inline dls_plan *
dls_plan_share(dls_plan *plan)
{
    plan->refs++;
    return plan;
}
void dls_plan_drop(dls_plan *plan); /* NULL allowed */

/* An AttributeError is pending: has the type lost, since it was met, the __dlpack__
 * that the plan calls?  If so the plan is taken out of the cache and fits no type any
 * more, the exception is cleared and true is returned. */
bool dls_plan_retire(dls_state *state, dls_plan *plan, PyObject *obj);

#endif

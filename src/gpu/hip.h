/* The HIP runtimes that are mapped (S7), and their answers about an address.
 *
 * Frameworks bring copies of their own, and another copy would not have their streams,
 * so dlshim loads none.  Syncs and copies use the runtimes through dls_hip_driver in
 * gpu/pointer.h.  All functions are called without the GIL; none needs it. */
#pragma once

#include "abi/dlpack_abi.h"
#include "abi/gpu_calls.h"
#include "core/base.h"

/* The answer of a runtime about an address.  A plain value; the runtime is never
 * unloaded. */
typedef struct {
    const dls_hip_api *api; /* the runtime that has an answer; NULL: none has */
    int device;             /* -1: unknown */
    bool on_host;           /* pinned */
} dls_hip_pointer;

/* Ask every mapped runtime, up to the first that has the address.  Never fails. */
void dls_hip_ask_pointer(const void *address, dls_hip_pointer *out);

/* DLS_OK, or DLS_EBUFFER with *err: this is a forked child (S23). */
int dls_hip_check_child(dls_error *err);

/* Is any runtime mapped?  None is called. */
bool dls_hip_is_found(void);

/* Is any runtime mapped that can be used? */
bool dls_hip_is_mapped(void);

/* The HIP runtimes that are mapped (S7), and their answers about memory.
 *
 * Frameworks bring copies of their own, and another copy would not have their streams,
 * so dlshim loads none.  Syncs and copies use the runtimes through dls_hip_driver in
 * gpu/pointer.h.  All functions are called without the GIL; none needs it. */
#pragma once

#include "abi/dlpack_abi.h"
#include "abi/gpu_calls.h"
#include "core/base.h"
#include "core/sync_words.h"

/* Ask every mapped runtime about memory, up to the first that knows the address, which
 * becomes its owner; nothing is asked twice.  Never fails. */
void dls_hip_ask_memory(dls_memory *memory);

/* DLS_OK, or DLS_EBUFFER with *err: this is a forked child (S23). */
int dls_hip_check_child(dls_error *err);

/* Is any runtime mapped?  None is called. */
bool dls_hip_is_found(void);

/* Is any runtime mapped that can be used? */
bool dls_hip_is_mapped(void);

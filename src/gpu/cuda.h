/* The CUDA driver: found at first need (S16), and its answers about memory.
 *
 * Syncs and copies use it through dls_cuda_driver in gpu/pointer.h.  All functions may
 * block and are called without the GIL; none needs it. */
#pragma once

#include "core/base.h"
#include "core/sync_words.h"

/* Start the driver.  DLS_OK, or DLS_EBUFFER with the missing thing in *err (S24): no
 * library, the toolkit's stub, no device (remembered, for it costs 10 ms each time),
 * too old, a forked child (S23). */
int dls_cuda_load(dls_error *err);

/* Does this process have the driver mapped?  It is not called. */
bool dls_cuda_is_found(void);

/* Does this process have the driver mapped?  Then it is started: true.  For work that
 * is needed only there.  Makes no driver call but cuInit. */
bool dls_cuda_is_mapped(void);

/* Can kernels of the current device reach the system's own memory, which is in no
 * allocation of the driver's (HMM, Grace Hopper)?  The device's number, or -1.  The
 * driver was loaded. */
int dls_cuda_system_memory_device(void);

/* The number of the current device; 0 where none is current.  The driver was loaded. */
int dls_cuda_current_device(void);

/* Ask the driver, which was loaded, about memory; where no context is current, again
 * inside each device's own until it answers.  Never fails: members without an answer
 * stay at "unknown". */
void dls_cuda_ask_memory(dls_memory *memory);

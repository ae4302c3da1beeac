/* The allocator of our C table.  Consumers call it through module/ctable_out on any
 * thread, with or without the GIL. */
#ifndef DLS_MODULE_CTABLE_ALLOCATOR_H
#define DLS_MODULE_CTABLE_ALLOCATOR_H

#include "abi/dlpack_abi.h"

typedef void (*dls_set_error)(void *context, const char *kind, const char *message);

/* Make *out a new tensor on the host with the prototype's dtype and shape: row-major,
 * not initialised, the caller's to delete.  0, or -1 after `tell` (NULL is allowed) was
 * called with `context`, the name of an exception class and a message. */
int dls_ctable_allocate(dl_tensor *prototype, dl_managed_tensor_versioned **out,
                        void *context, dls_set_error tell);

#endif

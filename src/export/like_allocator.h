/* Memory by the allocator of the library of which like= named an array (S19).  Called
 * by resolve_device_copy.c.  GIL held; foreign code runs. */
#pragma once

#include "core/hold.h"
#include "exchange/exchange.h"

/* Does like= name a library that allocates on this device? */
static inline bool
dls_like_allocates(const dls_request *request, dl_device device)
{
    return request->like != NULL
           && request->like_device.device_type == device.device_type
           && request->like_device.device_id == device.device_id;
}

/* Memory that is wanted. */
typedef struct {
    dl_device device;
    int64_t bytes;
    int64_t align;        /* a power of two */
    uint64_t copy_stream; /* dlshim's own on that device, which will write there */
} dls_wanted_memory;

/* Ask that library for memory.  The copy stream comes after the work that the library
 * has given to its own stream, because memory that it hands out again may be in use
 * there.  0: *hold owns the memory, which begins at *address.  -1 with an exception: a
 * capture on the library's stream, or no memory; *hold is empty, or the caller's to
 * drop. */
int dls_like_allocate(const dls_exchange *x, const dls_wanted_memory *wanted,
                      dls_hold *hold, void **address);

/* The host copy that an export needs.  Called by resolve.c, once it is decided.  GIL
 * held; other threads run during a large copy. */
#pragma once

#include "export/resolve.h"

/* From so many bytes on, a copy lets other threads run. */
#define DLS_COPY_WITHOUT_GIL 65536

/* Make a row-major copy of what resolved->delivery describes, for resolved->reason, and
 * from the device if resolved->fetch; the shape was scanned.  The copy is private, so
 * it is writable unless the user says otherwise (T8).  0: resolved->delivery describes
 * the copy, and resolved->made holds it.  -1: an exception is set, and resolved->made
 * is empty: a copy is needed that was forbidden, or that dlshim cannot make. */
int dls_resolve_copy(dls_exchange *x, dls_resolved *resolved);

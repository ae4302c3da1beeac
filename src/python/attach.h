/* The attachment of this thread to Python, and the steps by which it may then drop a
 * hold (T10): the Python half of core/hold. */
#pragma once

#include "core/hold.h"
#include "python/py.h"

/* Hand the Python half to core/hold and watch for the end of the interpreter.
 * *import_number: the flags that a hold of this import's objects has
 * (DLS_HOLD_IMPORT_BIT).  True: no interpreter but the main one has imported dlshim.
 * Called at every import; the GIL is held. */
bool dls_attach_install(uint32_t *import_number);

/* The module of this import is freed, perhaps with its interpreter.  From now on only
 * threads of that interpreter drop the import's holds (CPython 3.12 and later,
 * interpreters that are not the main one). */
void dls_attach_leave(uint32_t import_number);

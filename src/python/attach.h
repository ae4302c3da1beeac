/* How this thread stands to Python, and what it may then do to drop what a hold holds
 * (T10): the Python half of core/hold. */
#pragma once

#include "core/hold.h"
#include "python/py.h"

/* Hand the Python half to core/hold and watch for the end of the interpreter.  True: no
 * interpreter but the main one has imported dlshim.
 * Called at every import; the GIL is held. */
bool dls_attach_install(void);

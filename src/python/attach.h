/* Python's half of letting go: where a thread stands, and what it may then do (design
 * T10, reference abi3-and-style D). */
#ifndef DLS_PYTHON_GUARD_H
#define DLS_PYTHON_GUARD_H

#include "core/hold.h"
#include "python/py.h"

/* Hand the Python half to core/owner and watch for the end of the interpreter.
 * GIL held; called at every import, effective once. */
void dls_guard_install(void);
/* No interpreter but the main one has imported dlshim.  GIL held. */
bool dls_guard_is_alone(void);

#endif

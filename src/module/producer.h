/* The type Producer: the lazy wrapper that upgrade() makes.  The members of its objects
 * are in exchange/producer_object.h.  Called by module/.  The GIL is held. */
#ifndef DLS_MODULE_PRODUCER_H
#define DLS_MODULE_PRODUCER_H

#include "exchange/producer_object.h"

/* Make the type, and add it to the module.  0, or -1 with an exception. */
int dls_producer_type_init(dls_state *state, PyObject *module);

/* Is it this type, whichever import made it?  Any type may be asked about. */
bool dls_producer_is_type(PyTypeObject *type);

/* A new Producer over `source` (borrowed).  Steals the plan's count and the options, on
 * failure too.  NULL with MemoryError. */
PyObject *dls_producer_new(dls_state *state, PyObject *source, dls_plan *plan,
                           dls_options *options);

#endif

/* Homes: what compiled kernels make of what the objects of a type give them.
 *
 * A consumer of the C table learns the table by the class of its argument, keeps its
 * address for ever, and asks it for memory, for the stream, and for objects around its
 * results, none of which names the argument.  Therefore the objects of each home have a
 * class of Producers of their own, and that class a C table of its own (H1).  The home
 * of a type is its library: by the C table of the library, or by the function that
 * makes an array of the library of a Tensor (the importer).  Types without either have
 * dlshim for a home, the type Producer itself, and results that are Tensors.
 * The GIL is held, but where a function says otherwise. */
#pragma once

#include "types/plan.h"

/* --- the home of a type (homes.c) ----------------------------------------- */

/* At an import.  0, or -1 with an exception. */
int dls_homes_init(void);

/* Find plan->producer_type.  type: that of the object at hand, which is the plan's.
 * Result and exceptions as of dls_plan_home. */
PyTypeObject *dls_home_find(dls_state *state, dls_plan *plan, PyTypeObject *type);

/* For shim/: _home_of, _upgrade_into, _class_tables. */
DLS_EXTERN PyMethodDef dls_home_functions[]; /* ends with {NULL} */

/* --- importers (importers.c) ---------------------------------------------- */
/* A slot is a number in [0, DLS_HOME_SLOTS) that stands for an importer in this
 * interpreter, whichever import of dlshim runs.  It is never given to another one. */

/* How many importers an interpreter can have: so many functions stand in the code. */
#define DLS_HOME_SLOTS 64

/* The slot of an importer, a new one where it has none; -1: all are used; -2 with an
 * exception. */
int dls_importer_slot(PyObject *importer);

/* The importer's array of the Tensor, a new reference; NULL, nothing set: it has gone,
 * or it raised. */
PyObject *dls_importer_run(int slot, PyObject *tensor);

/* --- C tables of homes (home_tables.c) ------------------------------------ */
/* They are never freed, and consumers read them on any thread. */

/* The C table for the home of a library with this C table.  asks: the library's own
 * current_work_stream is the answer (H3).  NULL with MemoryError. */
const dl_exchange_api *dls_home_table_of_library(const dl_exchange_api *library,
                                                 bool asks);
/* The C table for the home of an importer.  decorated: for the class of the objects
 * itself, which dlshim.producer has changed. */
const dl_exchange_api *dls_home_table_of_importer(int slot, bool decorated);

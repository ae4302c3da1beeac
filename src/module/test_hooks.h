/* The underscore functions of the module, which are not public (docs/development.rst):
 * what shim/ reads (records.c), and switches for tests.  The GIL is held. */
#pragma once

#include "python/py.h"

DLS_EXTERN PyMethodDef dls_record_methods[]; /* ends with {NULL} */
DLS_EXTERN PyMethodDef dls_hook_methods[];   /* ends with {NULL} */

/* The underscore functions of the module, which are not public.  Their contracts are
 * the docstrings in the source. */
#ifndef DLS_MODULE_TEST_HOOKS_H
#define DLS_MODULE_TEST_HOOKS_H

#include "python/py.h"

extern PyMethodDef dls_hook_methods[]; /* ends with {NULL} */

#endif

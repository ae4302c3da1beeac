/* Underscore functions of the module: for tests, inspect and docs, not public. */
#ifndef DLS_MODULE_HOOKS_H
#define DLS_MODULE_HOOKS_H

#include <stdatomic.h>

#include "python/py.h"

/* Test switch: false = always translate, so that both roads run the same tests. */
extern atomic_bool dls_hand_on_allowed;

/* _counters, _hook, _peek, _plan, _late, _libraries, _askers: {NULL} terminated. */
extern PyMethodDef dls_hook_methods[];

#endif

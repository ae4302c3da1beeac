/* The Python that runs, and the functions that the limited API lacks on some of them:
 * their table is dls_compat (py.h).  GIL held. */
#pragma once

#include "python/py.h"

/* Fill dls_compat. */
void dls_compat_load(void);
/* 0x030b for 3.11 and so on. */
int dls_python_version(void);
/* Test hook: all fallbacks (true) or what the interpreter has (false). */
void dls_compat_force_fallback(bool force);
/* The method _compat: dict name -> bool, is the real function in use? */
PyObject *dls_compat_report(PyObject *module, PyObject *ignored);

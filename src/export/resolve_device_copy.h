/* The copy of an export in CUDA or ROCm memory (S19).  Called by resolve_copy.c, once
 * it is decided and allowed.  GIL held; other threads run during driver calls. */
#pragma once

#include "export/resolve.h"

/* Make a row-major copy of what resolved->delivery describes: on the wanted device if
 * resolved->send, else on its own.  0: resolved->delivery describes the copy, which is
 * complete, and resolved->made holds it.  -1: an exception is set. */
int dls_resolve_device_copy(dls_exchange *x, dls_resolved *resolved);

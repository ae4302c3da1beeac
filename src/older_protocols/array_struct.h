/* The reader of __array_struct__: a capsule of NumPy's PyArrayInterface. */
#pragma once

#include "older_protocols/reading.h"

/* A dls_reader. */
int dls_array_struct_read(dls_reading *reading);

/* The reader of __array_struct__: a capsule of NumPy's PyArrayInterface. */
#ifndef DLS_OLDER_PROTOCOLS_ARRAY_STRUCT_H
#define DLS_OLDER_PROTOCOLS_ARRAY_STRUCT_H

#include "older_protocols/reading.h"

/* A dls_reader. */
int dls_array_struct_read(dls_reading *reading);

#endif

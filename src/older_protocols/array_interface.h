/* The reader of __array_interface__, version 3.  Called through the table of
 * older_protocols.c.  GIL held; foreign code runs. */
#ifndef DLS_OLDER_PROTOCOLS_ARRAY_INTERFACE_H
#define DLS_OLDER_PROTOCOLS_ARRAY_INTERFACE_H

#include "older_protocols/reading.h"

/* A dls_reader. */
int dls_array_interface_read(dls_reading *reading);

#endif

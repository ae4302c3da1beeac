/* The reader of __array_interface__, version 3.  Called through the table of
 * older_protocols.c.  GIL held; foreign code runs. */
#pragma once

#include "older_protocols/reading.h"

/* A dls_reader. */
int dls_array_interface_read(dls_reading *reading);

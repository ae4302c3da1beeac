/* The reader of the buffer protocol (PEP 3118). */
#ifndef DLS_OLDER_PROTOCOLS_BUFFER_H
#define DLS_OLDER_PROTOCOLS_BUFFER_H

#include "older_protocols/reading.h"

/* A dls_reader. */
int dls_buffer_read(dls_reading *reading);

#endif

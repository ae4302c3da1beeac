/* The reader of the buffer protocol (PEP 3118). */
#pragma once

#include "older_protocols/reading.h"

/* A dls_reader. */
int dls_buffer_read(dls_reading *reading);

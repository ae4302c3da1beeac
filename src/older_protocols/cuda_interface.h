/* The reader of __cuda_array_interface__, versions 0 to 3. */
#pragma once

#include "older_protocols/reading.h"

/* A dls_reader. */
int dls_cuda_interface_read(dls_reading *reading);

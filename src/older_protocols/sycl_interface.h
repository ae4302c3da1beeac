/* The reader of __sycl_usm_array_interface__, version 1.  Called through the table of
 * older_protocols.c.  GIL held; foreign code runs. */
#pragma once

#include "older_protocols/reading.h"

/* A dls_reader.  acquired->hold.py becomes the tuple (object, dict, syclobj), the last
 * in a form that may be given to others again and again. */
int dls_sycl_interface_read(dls_reading *reading);

/* The syclobj, borrowed, of a hold that this reader filled and that several may share
 * by now; NULL for every other hold.  Needs the GIL. */
PyObject *dls_syclobj_find(const dls_hold *hold);

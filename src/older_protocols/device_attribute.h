/* The device that a GPU array names itself, where no driver can tell. */
#ifndef DLS_OLDER_PROTOCOLS_DEVICE_ATTRIBUTE_H
#define DLS_OLDER_PROTOCOLS_DEVICE_ATTRIBUTE_H

#include "python/py.h"
#include "python/state.h"

/* The number in obj.device.id (CuPy), obj.device_id or obj.device, the first that is a
 * device number; *ordinal is -1 where none is.  What these raise means "no number",
 * unless no probe may hide it: 0, or -1 with such an exception.  Needs the GIL and runs
 * the object's code. */
int dls_device_attribute_read(dls_state *state, PyObject *obj, int *ordinal);

#endif

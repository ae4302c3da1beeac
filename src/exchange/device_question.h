/* The hot road: one call of __dlpack__ with exactly the keywords wanted. */
#ifndef DLS_SOURCE_CALL_H
#define DLS_SOURCE_CALL_H

#include "abi/dlpack_abi.h"
#include "exchange/plan.h"
#include "python/py.h"
#include "python/state.h"

/* Keywords of one call, also the index of state->kwnames. */
#define DLS_ASK_STREAM 1u
#define DLS_ASK_VERSION 2u
#define DLS_ASK_DEVICE 4u
#define DLS_ASK_COPY 8u

/* Values for the keywords of the mask; those not in it are not looked at. */
typedef struct {
    PyObject *stream;    /* borrowed */
    PyObject *dl_device; /* borrowed */
    PyObject *copy;      /* borrowed */
} dls_call_values;

/* obj.__dlpack__(...) -> new reference to whatever it returned, or NULL.  by_type: the
 * method of the type, whatever the instance's own dict says. */
PyObject *dls_call_dlpack(dls_state *state, PyObject *obj, bool by_type, unsigned mask,
                          const dls_call_values *values);

/* Without keywords, by the method that is found on obj. */
PyObject *dls_call_bare(dls_state *state, PyObject *obj);
/* Without keywords, or with max_version alone, as the DLS_EXPRESS_* of road say. */
PyObject *dls_call_express(dls_state *state, const dls_plan *plan, PyObject *obj,
                           unsigned road);

/* obj.__dlpack_device__() (method: as in dls_plan, NULL: to be looked up) as two ints,
 * whatever they were (Paddle's None is 0, open3d's enum has a .value).  1 = *device, 0
 * = the answer is useless or it raised, nothing set, -1 = an exception that is not ours
 * to hide (MemoryError, KeyboardInterrupt). */
int dls_call_device(dls_state *state, PyObject *method, PyObject *obj,
                    dl_device *device);

/* A (device_type, device_id) pair from any sequence of two.  strict: ints only (what
 * users and consumers pass); else also enums, and None as the id (what producers
 * answer).  1 = yes,
 * 0 = no such pair, nothing set, -1 = an exception that is not ours to hide. */
int dls_device_from_pair(dls_state *state, PyObject *pair, bool strict,
                         dl_device *device);

#endif

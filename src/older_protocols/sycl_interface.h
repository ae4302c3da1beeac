/* __sycl_usm_array_interface__ v1 as a way in (reference streams.md 4). */
#ifndef DLS_SOURCE_SYCL_INTERFACE_H
#define DLS_SOURCE_SYCL_INTERFACE_H

#include "acquire/attempt_host.h"

/* As the other readers (exchange/acquired.h), but for these:
 *
 * - tensor.device is (14, number): want->assumed, else what ['syclobj'] tells, with the
 * help of its library if that is imported.
 * - tensor.data is the allocation's base and byte_offset leads to element zero: with a
 *   negative stride consumers want both (T5).
 * - loan->hold.py is the tuple (provider, dict, syclobj), the last as it can be named
 * to others again and again (dls_sycl_named).
 *
 * *queue: the queue that ['syclobj'] names, a new reference, so P is known unless the
 * provider has waited (DLS_LIB_INTERFACE_WAITS); NULL for a context, a filter string, a
 * device that is assumed not to be oneAPI's, or an error. */
int dls_read_sycl_interface(dls_state *state, PyObject *obj, const dls_want *want,
                            dls_loan *loan, PyObject **queue);

/* The syclobj, borrowed, of a hold that this reader filled and that others may share by
 * now; NULL for every other hold. */
PyObject *dls_sycl_named(const dls_hold *hold);

#endif

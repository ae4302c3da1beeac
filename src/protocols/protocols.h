/* The way in through another protocol than DLPack: __cuda_array_interface__,
 * __sycl_usm_array_interface__, __array_struct__, __array_interface__, Arrow's four
 * methods or the buffer protocol.  Called by acquire/; needs the GIL, and runs code of
 * the object. */
#pragma once

#include "exchange/exchange.h"

/* Read `obj` (borrowed) through one of the protocols, CUDA to BUFFER.  plan: of its
 * type; NULL: nothing is known of that.
 *
 *  1: *acquired describes the memory and keeps it alive.
 *  0: the object does not offer the protocol; no exception.
 * -1: an exception is set, and *acquired is empty.  It is a BufferError that names the
 *     type, the reason and the cure if DLPack cannot describe the data; an exception
 *     of the object itself comes through.
 *
 * A success sets in *acquired (generation DLS_DESCRIBED):
 *
 * - tensor.data is the address of element zero and byte_offset is 0.  Through SYCL,
 *   data is the base of the allocation and byte_offset leads to element zero: with a
 *   negative stride consumers need both (T5).
 * - tensor.strides count elements; NULL where the protocol said "row-major".
 * - tensor.device is (1, 0) for the host protocols.  Through CUDA and SYCL it is
 *   request->assumed, if there is one.  Else CUDA's is the one that the driver names
 *   for the address (for an empty array: the object's own word, else the current
 *   device, else 0), and SYCL's is (14, number) from ['syclobj'].
 * - tensor.dtype has the code DLS_DTYPE_UNKNOWN, 8 bits and as many lanes as an element
 *   has bytes (0: too many) where DLPack has no code, so that `reinterpret` can still
 *   name it.  NumPy's kind for the types of ml_dtypes is 'V', 'W' or 'f' (with 1 byte):
 *   the name of obj.dtype decides.  Elements below 8 bits have a byte each and the flag
 *   SUBBYTE_PADDED.
 * - flags get READ_ONLY from the protocol's own word, and readonly_stated is true.
 *   Arrow's memory is READ_ONLY, but for chunks that were joined: these are IS_COPIED.
 *
 * *p becomes the producer stream, as far as the protocol names it: KNOWN, READY (the
 * dict says that nothing has to be waited for) or UNKNOWN.  A queue in p->object is
 * borrowed from acquired->hold.  The stream 0, which CUDA's protocol forbids, is an
 * error only if it would count: not where `request` asks for no sync or names the
 * producer stream itself. */
int dls_read_object(dls_state *state, PyObject *obj, const dls_plan *plan,
                    dls_protocol protocol, const dls_request *request,
                    dls_acquired *acquired, dls_producer_stream *p);

/* As dls_read_object, through the method of Arrow that column->protocol names, for a
 * caller that keeps the array itself: column->array has it, and column->acquired does
 * not hold it. The rest of *column is filled here. */
int dls_read_column(dls_state *state, PyObject *obj, const dls_plan *plan,
                    const dls_request *request, dls_column *column);
/* Move the array, which was not released, into the hold of `acquired`.  0, or -1 with
 * MemoryError, and the array is released. */
int dls_read_hold_array(const dls_state *state, arrow_array *array,
                        dls_acquired *acquired);

/* As dls_read_object, of a value that was found for obj elsewhere: given is
 * what the attribute of the protocol would be, a strong reference that is taken over.
 */
int dls_read_given(dls_state *state, PyObject *obj, PyObject *given,
                   dls_protocol protocol, const dls_request *request,
                   dls_acquired *acquired, dls_producer_stream *p);

/* sycl_interface.c: the syclobj, borrowed, of a hold that the reader of the SYCL
 * interface filled and that several may share by now; NULL for every other hold.  Needs
 * the GIL. */
PyObject *dls_syclobj_find(const dls_hold *hold);

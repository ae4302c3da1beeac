/* Dicts that describe an array (__array_interface__, __cuda_array_interface__ and their
 * kin): what these protocols have in common.
 *
 * Such dicts are written by hand in many libraries, so every value is checked, and
 * values are held while they are read: reading them may run code that changes the dict.
 */
#ifndef DLS_SOURCE_INTERFACE_DICT_H
#define DLS_SOURCE_INTERFACE_DICT_H

#include "older_protocols/reading.h"

/* One dict being read.  Nothing here is owned. */
typedef struct {
    dls_reading reading;
    PyObject *dict; /* borrowed: the caller holds it as long as this lives */
} dls_interface;

/* All functions below need the GIL and return 0, or -1 with an exception set
 * (BufferError naming the object, the protocol and the key, but what the object itself
 * raised comes through), unless they say otherwise.  `wanted` ends the sentence
 * "['key'] must ...". */

/* --- the dict --- */

/* BufferError unless it is one. */
int dls_interface_check_dict(const dls_interface *from);

/* Last step: the loan's hold gets the provider and the dict (numpy's scalars keep the
 * array that they made in it). */
int dls_interface_hold(dls_interface *from);

/* 1 = *value is a new reference, 0 = missing or None, -1 = exception set.  The second
 * makes the key from text. */
int dls_interface_get(const dls_interface *from, PyObject *key, PyObject **value);
int dls_interface_get_text(const dls_interface *from, const char *key,
                           PyObject **value);

/* --- errors, always -1 --- */

/* "['key'] must <wanted>, not <type's name>; ...": for values of a wrong type. */
int dls_interface_fail_type(const dls_interface *from, const char *key,
                            const char *wanted, PyObject *value);
/* "['key'] must <wanted>, not <repr>; ...". */
int dls_interface_fail_value(const dls_interface *from, const char *key,
                             const char *wanted, PyObject *value);
int dls_interface_fail_missing(const dls_interface *from, const char *key,
                               const char *wanted);

/* --- numbers: what has __index__ is an int, True too unless refused before --- */

int dls_interface_refuse_bool(const dls_interface *from, const char *key,
                              const char *wanted, PyObject *value);
int dls_interface_read_int(const dls_interface *from, const char *key,
                           const char *wanted, PyObject *value, int64_t *out);
/* Addresses and handles: 0 to 2**64 - 1.  A negative number is none, though it would
 * wrap to one. */
int dls_interface_read_unsigned(const dls_interface *from, const char *key,
                                const char *wanted, PyObject *value, uint64_t *out);

/* --- entries that all protocols have; this is their order --- */

/* A mask that is there and not None is a BufferError. */
int dls_interface_check_mask(const dls_interface *from);

/* typestr (and descr, for structs): dtype and item size.  ml_dtypes go by obj.dtype. */
int dls_interface_read_typestr(dls_interface *from);

/* shape: ndim and extents, not yet checked. */
int dls_interface_read_shape(dls_interface *from);

/* strides: tensor.strides, NULL when missing or None; after the shape.  The ints are
 * taken as they stand: dls_reading_finish takes them for bytes, so a protocol that
 * counts elements turns them into bytes first. */
int dls_interface_read_strides(dls_interface *from);

/* data = (address, read-only): tensor.data and READ_ONLY.  The two items, borrowed;
 * each is read once. */
int dls_interface_set_data(dls_interface *from, PyObject *address, PyObject *readonly);

#endif

/* Dicts that describe an array: __array_interface__, __cuda_array_interface__ and
 * __sycl_usm_array_interface__.  Their common parts are read here, by the columns of
 * the protocol's row (reading.h).  Called by the readers of the three.
 *
 * Many libraries write such dicts by hand, so every value is checked.  Reading a value
 * may run code that changes the dict: all entries are looked up when it is opened, and
 * held until the reading ends.
 *
 * All functions need the GIL and return 0, or -1 with an exception set, unless they say
 * otherwise.  It is a BufferError that names the object, the protocol and the key; an
 * exception of the object itself comes through. */
#pragma once

#include "protocols/reading.h"

/* The first step of a reader: reading->given is a dict; its version, mask, typestr,
 * shape and strides in this order.  Sets reading->entries and version, the dtype and
 * item size, ndim, shape and byte strides (row-major: NULL), not yet checked. */
int dls_dict_open(dls_reading *reading);

/* A value that is read, and its name in messages. */
typedef struct {
    dls_entry key;
    const char *wanted; /* ends the sentence "['key'] must ..." */
    PyObject *value;    /* borrowed: the entry (NULL: missing), or one of its items */
} dls_dict_value;

/* An entry, after dls_dict_open. */
static inline dls_dict_value
dls_dict_get(const dls_reading *reading, dls_entry key, const char *wanted)
{
    return (dls_dict_value){key, wanted, reading->entries[key]};
}

/* 0 if the entry is there, else "['key'] is missing, must <wanted>; ..." and -1. */
int dls_dict_require(const dls_reading *reading, const dls_dict_value *entry);

/* "['key'] must <wanted>, not <type's name>; ...": for values of a wrong type.  Always
 * -1. */
int dls_dict_fail_type(const dls_reading *reading, const dls_dict_value *v);
/* "['key'] must <wanted>, not <repr>; ...".  Always -1. */
int dls_dict_fail_value(const dls_reading *reading, const dls_dict_value *v);

/* An address or a handle, 0 to 2**64 - 1: an object with __index__ is an int, but a
 * strict protocol refuses bool.  A negative number would wrap to a positive one:
 * refused. */
int dls_dict_read_unsigned(const dls_reading *reading, const dls_dict_value *v,
                           uint64_t *out);

/* ['offset'] in bytes; 0 where it is missing.  After dls_dict_open. */
int dls_dict_read_offset(const dls_reading *reading, int64_t *bytes);

/* ['data'] as a pair (address, read-only): tensor.data and READ_ONLY. */
int dls_dict_read_data(dls_reading *reading);
/* As dls_dict_read_data, where ['data'] is known to be a sequence. */
int dls_dict_read_pair(dls_reading *reading);

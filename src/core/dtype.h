/* DLPack dtypes and their names in other protocols; DLPack devices and their names.
 * Pure functions.
 *
 * One table in dtype.c holds every named dtype: name as NumPy, ml_dtypes and
 * users spell it ("float32", "bfloat16", "float8_e4m3fn", "bool", "complex64",
 * "int4", "float4_e2m1fn" ...), code and bits.  All lookups walk that table.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "abi/dlpack_abi.h"

/* No DLPack code: the element is `bits` wide and only `reinterpret` can name it.  They
 * never leave dlshim.  COMPLEX and FLOAT: of a width that DLPack has no code for.
 * TIME: a date or a duration, a signed number.  UNKNOWN: bytes of any meaning. */
#define DLS_DTYPE_COMPLEX 252
#define DLS_DTYPE_FLOAT 253
#define DLS_DTYPE_TIME 254
#define DLS_DTYPE_UNKNOWN 255

/* Probes return 1 = yes (*out filled), 0 = no. */

/* Python-level name -> dtype ("float32", "bool", "bfloat16" ...). */
int dls_dtype_from_name(const char *name, dl_dtype *out);

/* Name of a dtype for reprs and messages, "float32x4" for lanes, "code 99, 16 bits"
 * for unknown ones.  Writes at most size bytes with the NUL; returns text. */
const char *dls_dtype_name(dl_dtype dtype, char *text, size_t size);

/* Array-interface kind ('b' 'i' 'u' 'f' 'c' ...) and item size in bytes -> dtype.
 * 0 for kinds that DLPack cannot say ('M' 'm' 'V' 'S' 'U' 'O' 't', longdouble). */
int dls_dtype_from_kind(char kind, int64_t itemsize, dl_dtype *out);

/* Has the array interface a kind for it?  Not for bfloat16, float8 and the like. */
bool dls_dtype_has_kind(dl_dtype dtype);

/* PEP 3118 format of ONE element plus the exporter's item size -> dtype.  NULL
 * format means "B".  The item size decides the width (ctypes says '<l' for 8
 * bytes).  'c' is taken as uint8.  0 for structs, pointers, objects, text,
 * longdouble, repeat counts.  *swapped: it is in a foreign byte order. */
int dls_dtype_from_format(const char *format, int64_t itemsize, dl_dtype *out,
                          bool *swapped);

/* PEP 3118 format of a dtype ("f", "?", "Zf" ...), NULL when there is none
 * (bfloat16, float8, sub-byte, lanes > 1). */
const char *dls_dtype_format(dl_dtype dtype);

/* Arrow's format string of a dtype ("l", "g" ...), NULL where Arrow lays the same
 * values out in another way (its booleans are bits) or has no such values. */
const char *dls_dtype_arrow(dl_dtype dtype);
/* The dtype of such a format; 0 for all others. */
int dls_dtype_from_arrow(const char *format, dl_dtype *out);

/* Array-interface typestr ("<f4", "|b1", "|u1"), native byte order; dtypes
 * without a NumPy kind give "<V2" and the like.  0 for sub-byte elements.
 * text holds at least 16 bytes. */
int dls_dtype_typestr(dl_dtype dtype, char *text);

/* Bits of one element, lanes included. */
static inline int64_t
dls_dtype_bits(dl_dtype dtype)
{
    return (int64_t)dtype.bits * dtype.lanes;
}

/* Bytes from one element to the next as the strides count them, 0 when an
 * element is no whole number of bytes and not padded.  padded = the
 * SUBBYTE_PADDED flag: each element below 8 bits then takes one byte. */
int64_t dls_dtype_itemsize(dl_dtype dtype, bool padded);

/* --- devices --------------------------------------------------------------- */
/* Whether `data` is an address there, whether the CPU may read it, and the names that
 * users give (T5, T7). */

#define DLS_DEVICE_BIT(code) (UINT32_C(1) << (code))

/* Devices where `data` is an address, into which an offset can be folded.  On all
 * others, unknown codes included, it is a handle, and only byte_offset can describe a
 * view. */
#define DLS_ADDRESS_DEVICES                                               \
    (DLS_DEVICE_BIT(dl_kDLCPU) | DLS_DEVICE_BIT(dl_kDLCUDA)               \
     | DLS_DEVICE_BIT(dl_kDLCUDAHost) | DLS_DEVICE_BIT(dl_kDLROCM)        \
     | DLS_DEVICE_BIT(dl_kDLROCMHost) | DLS_DEVICE_BIT(dl_kDLCUDAManaged) \
     | DLS_DEVICE_BIT(dl_kDLOneAPI))

/* Devices whose `data` the CPU may read as it is, without waiting for anything. */
#define DLS_HOST_DEVICES                                        \
    (DLS_DEVICE_BIT(dl_kDLCPU) | DLS_DEVICE_BIT(dl_kDLCUDAHost) \
     | DLS_DEVICE_BIT(dl_kDLROCMHost))

static inline bool
dls_device_in(int32_t device_type, uint32_t set)
{
    return (uint32_t)device_type < 32 && (set >> device_type & 1);
}

static inline bool
dls_device_has_addresses(int32_t device_type)
{
    return dls_device_in(device_type, DLS_ADDRESS_DEVICES);
}

static inline bool
dls_device_is_host(int32_t device_type)
{
    return dls_device_in(device_type, DLS_HOST_DEVICES);
}

/* The name of a device ("cpu", "cuda:1"), which dls_device_from_name reads if the type
 * is known.  Writes at most size bytes with the NUL; returns text. */
const char *dls_device_name(dl_device device, char *text, size_t size);

/* The device that a name says ("cpu", "cuda", "rocm:1", "oneapi").  1 = yes, 0 = no. */
int dls_device_from_name(const char *name, dl_device *out);

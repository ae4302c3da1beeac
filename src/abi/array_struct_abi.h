/* The struct that `__array_struct__` hands out: NumPy's PyArrayInterface, declared by
 * us.
 *
 * A capsule without a name holds a pointer to this struct; the capsule's destructor
 * frees it.  The layout has been the same since the protocol was published (2005). */
#pragma once

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define ARRAY_STRUCT_TWO 2 /* first field, a sanity check */

#define ARRAY_STRUCT_CONTIGUOUS 0x001
#define ARRAY_STRUCT_FORTRAN 0x002
#define ARRAY_STRUCT_ALIGNED 0x100
#define ARRAY_STRUCT_NOTSWAPPED 0x200
#define ARRAY_STRUCT_WRITEABLE 0x400
#define ARRAY_STRUCT_HAS_DESCR 0x800

typedef struct {
    int two;
    int nd;
    char typekind; /* 'b' 'i' 'u' 'f' 'c' 'M' 'm' 'O' 'S' 'U' 'V' 't' */
    int itemsize;  /* bytes */
    int flags;     /* ARRAY_STRUCT_* */
    intptr_t *shape;
    intptr_t *strides; /* bytes; NULL = row-major */
    void *data;
    void *descr; /* a Python list as in the array interface, only with HAS_DESCR */
} array_struct;

static_assert(offsetof(array_struct, nd) == sizeof(int), "nd");
static_assert(offsetof(array_struct, typekind) == 2 * sizeof(int), "typekind");
#if UINTPTR_MAX == UINT64_MAX
static_assert(sizeof(int) == 4 && sizeof(intptr_t) == 8, "LP64 or LLP64");
static_assert(sizeof(array_struct) == 56, "PyArrayInterface");
static_assert(offsetof(array_struct, itemsize) == 12, "itemsize");
static_assert(offsetof(array_struct, flags) == 16, "flags");
static_assert(offsetof(array_struct, shape) == 24, "shape");
static_assert(offsetof(array_struct, strides) == 32, "strides");
static_assert(offsetof(array_struct, data) == 40, "data");
static_assert(offsetof(array_struct, descr) == 48, "descr");
#endif

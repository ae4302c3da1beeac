/* Checked size arithmetic and small helpers.  No Python, no allocation. */
#ifndef DLS_CORE_BASE_H
#define DLS_CORE_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* DLS_FLAT: the learned road, one body without calls between its steps.  DLS_COLD: off
 * that road, out of line and small.  DLS_APART: quick, but not part of that body.
 * DLS_RARE: a condition that seldom holds. */
#if defined(__GNUC__) || defined(__clang__)
#define DLS_COLD __attribute__((cold, noinline))
#define DLS_APART __attribute__((noinline))
#define DLS_FLAT __attribute__((flatten))
#define DLS_RARE(condition) __builtin_expect(!!(condition), 0)
#define DLS_KNOWN(value) __builtin_constant_p(value) /* to the compiler, once inlined \
                                                      */
#else
#define DLS_RARE(condition) (condition)
#define DLS_KNOWN(value) 0
#define DLS_COLD
#define DLS_APART
#define DLS_FLAT
#endif

/* Above this a tensor's ndim is taken for garbage (T11).  NumPy stops at 64. */
#define DLS_NDIM_ABSURD 1024
/* What array interfaces and buffers can say (PyBUF_MAX_NDIM, NPY_MAXDIMS). */
#define DLS_NDIM_INTERFACE 64

/* *out = a * b or a + b; false (and *out undefined) when it overflows (T11). */
static inline bool
dls_mul(int64_t a, int64_t b, int64_t *out)
{
#if defined(__GNUC__) || defined(__clang__)
    return !__builtin_mul_overflow(a, b, out);
#else
    if (a != 0 && b != 0) {
        if ((a == -1 && b == INT64_MIN) || (b == -1 && a == INT64_MIN)) {
            return false;
        }
        if (a > 0 ? (b > 0 ? a > INT64_MAX / b : b < INT64_MIN / a)
                  : (b > 0 ? a < INT64_MIN / b : b < INT64_MAX / a)) {
            return false;
        }
    }
    *out = a * b;
    return true;
#endif
}

static inline bool
dls_add(int64_t a, int64_t b, int64_t *out)
{
#if defined(__GNUC__) || defined(__clang__)
    return !__builtin_add_overflow(a, b, out);
#else
    if (b > 0 ? a > INT64_MAX - b : a < INT64_MIN - b) {
        return false;
    }
    *out = a + b;
    return true;
#endif
}

#endif

/* Checked size arithmetic, limits, error records, and the speed marks.  Used
 * everywhere, on any thread.  No Python, no allocation. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Speed marks.  They stand only where a measurement showed a gain of 2 % (`nox -s
 * instructions`), and change nothing but code generation.
 *
 * - DLS_INLINE: always inlined.  A step of the fast path, whose caller passes
 *   constants.
 * - DLS_APART: never inlined.  It is called where the fast path ends, and would cost
 *   the fast path registers.
 *
 * Two are no speed marks.
 *
 * - DLS_UNUSED(parameter): the function has the parameter for the sake of its type, and
 *   does not use it.
 * - DLS_EXTERN: in place of "extern" before a variable, and before a function whose
 *   address is taken.  It is in this library, so that the loader fills in no address of
 *   it. */
#if defined(__GNUC__) || defined(__clang__)
#define DLS_INLINE static inline __attribute__((always_inline))
#define DLS_APART __attribute__((noinline))
#define DLS_EXTERN extern __attribute__((visibility("hidden")))
#define DLS_UNUSED(parameter) unused_##parameter __attribute__((unused))
#else
#define DLS_INLINE static inline
#define DLS_APART
#define DLS_EXTERN extern
#define DLS_UNUSED(parameter) unused_##parameter
#endif

/* A struct with more dimensions than this is refused as garbage (T11).  NumPy stops at
 * 64. */
#define DLS_NDIM_ABSURD 1024
/* The most dimensions that array interfaces and buffers can have (PyBUF_MAX_NDIM,
 * NPY_MAXDIMS). */
#define DLS_NDIM_INTERFACE 64

/* *out = a * b, or a + b.  False if that overflows (T11); *out is undefined then. */
static inline bool
dls_mul(int64_t a, int64_t b, int64_t *out)
{
#if defined(__GNUC__) || defined(__clang__)
    return !__builtin_mul_overflow(a, b, out);
#else
    *out = (int64_t)((uint64_t)a * (uint64_t)b);
    return a == 0 || (!(a == -1 && b == INT64_MIN) && *out / a == b);
#endif
}

static inline bool
dls_add(int64_t a, int64_t b, int64_t *out)
{
#if defined(__GNUC__) || defined(__clang__)
    return !__builtin_add_overflow(a, b, out);
#else
    *out = (int64_t)((uint64_t)a + (uint64_t)b);
    return b < 0 ? *out < a : *out >= a;
#endif
}

/* Error records: core and gpu describe an error by a code and a text in the caller's
 * buffer.  A pointer to the record is the last parameter of a function.
 * python/errors.c makes the Python exceptions. */
enum {
    DLS_OK = 0,
    DLS_EBUFFER = -1,  /* BufferError: the data cannot be exported so */
    DLS_EVALUE = -2,   /* ValueError: a bad option value */
    DLS_ETYPE = -3,    /* TypeError: a value of the wrong type */
    DLS_ENOMEM = -4,   /* MemoryError */
    DLS_ECOPY = -5,    /* CopyRequiredError: copy=False, but one is needed */
    DLS_ERUNTIME = -6, /* RuntimeError: a device reports an error of the program */
    DLS_EOPTION = -7,  /* BufferError: the text names an option of upgrade that helps */
    /* BufferErrors; the caller that needs the driver adds the option that helps. */
    DLS_ENODRIVER = -8, /* there is no driver, or it has no device */
    DLS_ECAPTURE = -9   /* a graph capture is running */
};

typedef struct {
    int code; /* one of DLS_E*, or DLS_OK when nothing was reported */
    char text[300];
} dls_error;

/* Fill *err (NULL allowed) and return `code`, so that callers write
 * `return dls_fail(...)`. */
#if defined(__GNUC__) || defined(__clang__)
__attribute__((format(printf, 3, 4)))
#endif
int dls_fail(dls_error *err, int code, const char *format, ...);

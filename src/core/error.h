/* Error records: how core and gpu say what went wrong, by a code and a text in the
 * caller's buffer.  A pointer to the record is the last parameter of a function.
 * python/errors.c makes the Python exceptions.  No Python, any thread. */
#pragma once

#include "core/base.h"

enum {
    DLS_OK = 0,
    DLS_EBUFFER = -1, /* BufferError: the data cannot be exported so */
    DLS_EVALUE = -2,  /* ValueError: a bad option value */
    DLS_ETYPE = -3,   /* TypeError: a value of the wrong type */
    DLS_ENOMEM = -4,  /* MemoryError */
    DLS_ECOPY = -5,   /* CopyRequiredError: copy=False, but one is needed */
    DLS_ERUNTIME = -6 /* RuntimeError: a device reports an error of the program */
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
DLS_COLD int dls_fail(dls_error *err, int code, const char *format, ...);

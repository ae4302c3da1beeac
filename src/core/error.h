/* How core and device say what went wrong: a code and a text in the caller's
 * buffer.  Python exceptions are made from it in python/raise only. */
#ifndef DLS_CORE_ERROR_H
#define DLS_CORE_ERROR_H

#include "core/base.h"

enum {
    DLS_OK = 0,
    DLS_EBUFFER = -1, /* BufferError: the data cannot be exported so */
    DLS_EVALUE = -2,  /* ValueError: a bad option value */
    DLS_ETYPE = -3,   /* TypeError: a value of the wrong type */
    DLS_ENOMEM = -4,  /* MemoryError */
    DLS_ECOPY = -5,   /* CopyRequiredError: copy=False, but one is needed */
    DLS_ERUNTIME = -6 /* RuntimeError: a device reports that the program went wrong */
};

typedef struct {
    int code; /* one of DLS_E*, or DLS_OK when nothing was reported */
    char text[300];
} dls_error;

/* Fill *err (NULL allowed) and return code, so that `return dls_fail(...)` works. */
#if defined(__GNUC__) || defined(__clang__)
__attribute__((format(printf, 3, 4)))
#endif
DLS_COLD int dls_fail(dls_error *err, int code, const char *format, ...);

#endif

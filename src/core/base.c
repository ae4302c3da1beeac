/* Fills error records.  Called by core and gpu, on any thread.  Tests: every test of an
 * error text, such as tests/core/test_bad_input.py. */
#include "core/base.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

int
dls_fail(dls_error *err, int code, const char *format, ...)
{
    assert(code < DLS_OK);
    if (err != NULL) {
        va_list args;
        va_start(args, format);
        vsnprintf(err->text, sizeof err->text, format, args);
        va_end(args);
        err->code = code;
    }
    return code;
}

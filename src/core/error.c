#include "core/error.h"

#include <stdarg.h>
#include <stdio.h>

int
dls_fail(dls_error *err, int code, const char *format, ...)
{
    if (err != NULL) {
        va_list args;
        va_start(args, format);
        vsnprintf(err->text, sizeof err->text, format, args);
        va_end(args);
        err->code = code;
    }
    return code;
}

/* Reads the buffer protocol (PEP 3118).
 * Called through the table in protocols.c, with the GIL; the view stays held as
 * long as the memory is used.
 * Tests: tests/core/test_ways_in.py, test_bad_input.py. */
#include "protocols/reading.h"

#include <string.h>

#include "core/dtype.h"

/* Is this one element of plain bytes, or of numbers that only lack a DLPack code?
 * These are long double, NumPy's void ("3x"), unions of ctypes ("B" of any size). */
static bool
can_be_reinterpreted(const char *format)
{
    if (format[0] != '\0' && strchr("@=^<>!", format[0]) != NULL) {
        format++;
    }
    const char *letter = format;
    while (letter[0] >= '0' && letter[0] <= '9') {
        letter++;
    }
    if (letter != format) {
        return strcmp(letter, "x") == 0;
    }
    if (letter[0] == 'Z') {
        letter++;
    }
    return letter[0] != '\0' && letter[1] == '\0'
           && strchr("?cbBhHiIlLqQnNefdgFDGx", letter[0]) != NULL;
}

static int
read_format(dls_reading *reading, const dls_buffer *view)
{
    bool swapped;
    dl_dtype dtype;
    const char *format = view->format != NULL ? view->format : "B";
    if (dls_reading_check_itemsize(reading, view->itemsize) < 0) {
        return -1;
    }
    if (dls_dtype_from_format(format, view->itemsize, &dtype, &swapped)) {
        int parts = dtype.code == dl_kDLComplex ? 2 : 1;
        int code = dls_reading_set_dtype(reading, dtype, view->itemsize);
        return code == 0 && swapped ? dls_reading_swap(reading, view->itemsize / parts)
                                    : code;
    }
    if (strchr(format, '{') != NULL) {
        return dls_reading_fail_structured(reading);
    }
    if (!can_be_reinterpreted(format)) {
        return dls_reading_fail(
            reading, "format '%.80s' is no number, DLPack has no dtype for it\n  %s",
            format,
            strpbrk(format, "&OPzZ") != NULL
                ? "pass what its pointers point at"
                : "view it as numbers first, e.g. memoryview(x).cast('B')");
    }
    char kind = strchr(format, 'Z') != NULL   ? 'c'
                : strchr(format, 'g') != NULL ? 'f'
                                              : 'V';
    return dls_reading_set_unnamed(reading, kind, view->itemsize);
}

static int
read_dims(dls_reading *reading, const dls_buffer *view)
{
    dl_tensor *tensor = &reading->acquired->tensor;
    if (dls_reading_set_ndim(reading, view->ndim) < 0) {
        return -1;
    }
    if (view->shape == NULL && view->ndim > 1) {
        return dls_reading_fail(reading,
                                "its shape is NULL although it has %d dimensions\n"
                                "  the exporter has to be corrected",
                                view->ndim);
    }
    for (int i = 0; i < view->ndim; i++) {
        if (view->suboffsets != NULL && view->suboffsets[i] >= 0) {
            return dls_reading_fail(
                reading,
                "it is an array of pointers (suboffsets), which DLPack cannot say\n"
                "  make a contiguous copy first, e.g. v = memoryview(x); "
                "numpy.array(v.tolist(), v.format)");
        }
        tensor->shape[i] = view->shape != NULL ? view->shape[i]
                                               : view->len / view->itemsize;
    }
    dls_reading_copy_strides(reading, view->strides);
    return 0;
}

int
dls_buffer_read(dls_reading *reading)
{
    const dls_buffer *view = dls_reading_hold_buffer(reading, reading->obj,
                                                     DLS_BUF_FULL_RO);
    if (view == NULL || read_format(reading, view) < 0
        || read_dims(reading, view) < 0) {
        return -1;
    }
    reading->acquired->tensor.data = view->buf;
    return dls_reading_finish(reading);
}

/* Strided copies: the source is a block of exactly the bytes that the layout spans, and
 * the result is compared with a loop that knows nothing of axes, planes or blocks. */
#include "input.h"

#include "core/alloc.h"
#include "core/copy.h"
#include "core/base.h"
#include "core/tensor.h"

#define DIMS 12
#define MOST 8192 /* elements: two sides of a block and more, one longer than a tile \
                   */
#define SPAN 65536

typedef struct {
    int64_t shape[DIMS], strides[DIMS];
    int32_t ndim;
    int64_t count, itemsize, low, high;
    bool no_strides;
} layout;

/* A lawful layout, or false.  Its strides may overlap, be 0, and be negative. */
static bool
take_layout(input *in, layout *made)
{
    dls_error err;
    *made = (layout){.count = 1, .ndim = (int32_t)take_below(in, DIMS + 1)};
    made->itemsize = 1 + take_below(in, 40);
    uint8_t style = take_byte(in);
    made->no_strides = (style & 7) == 7;
    for (int32_t i = 0; i < made->ndim; i++) {
        uint8_t wish = take_byte(in);
        int64_t extent = wish >= 0xe8   ? wish + 32
                         : wish >= 0xc0 ? wish % 40 + 1
                                        : wish % 9 + 1;
        made->shape[i] = made->count * extent <= MOST ? extent : 1;
        made->count *= made->shape[i];
    }
    dls_layout_row_major(made->ndim, made->shape, made->strides);
    for (int32_t i = 0; i < made->ndim && !made->no_strides; i++) {
        uint8_t wish = take_byte(in);
        if (wish & 1) { /* else as row-major has it, perhaps reversed or wider */
            made->strides[i] = take_below(in, 1000) - 300;
        }
        else if (wish & 2) {
            made->strides[i] *= (wish >> 2) % 7 - 3;
        }
    }
    int64_t count;
    return dls_layout_count(made->ndim, made->shape, &count, &err) == DLS_OK
           && dls_layout_span(made->ndim, made->shape,
                              made->no_strides ? NULL : made->strides, count,
                              made->itemsize, &made->low, &made->high, &err)
                  == DLS_OK
           && made->high - made->low <= SPAN;
}

/* Element by element in row-major order. */
static void
copy_naively(char *to, const char *zero, const layout *l)
{
    int64_t index[DIMS] = {0};
    for (int64_t n = 0; n < l->count; n++) {
        const char *from = zero;
        for (int32_t i = 0; i < l->ndim; i++) {
            from += index[i] * l->strides[i] * l->itemsize;
        }
        memcpy(to + n * l->itemsize, from, (size_t)l->itemsize);
        for (int32_t i = l->ndim - 1; i >= 0 && ++index[i] == l->shape[i]; i--) {
            index[i] = 0;
        }
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {data, size};
    layout l;
    if (!take_layout(&in, &l)) {
        return 0;
    }
    size_t span = (size_t)(l.high - l.low), bytes = (size_t)(l.count * l.itemsize);
    char *source = malloc(span), *copied = malloc(bytes), *wanted = malloc(bytes);
    INSIST(source != NULL && copied != NULL && wanted != NULL);
    for (size_t i = 0; i < span; i++) {
        source[i] = (char)(i * 167 + (i >> 8));
    }
    memset(copied, 0x55, bytes);
    dl_tensor tensor = {
        .data = source, .byte_offset = (uint64_t)-l.low, .ndim = l.ndim};
    tensor.shape = l.shape;
    tensor.strides = l.no_strides ? NULL : l.strides;
    dls_alloc_fail(size > 0 && data[size - 1] == 0xa5 ? 1 : -1);
    int code = dls_host_copy(copied, &tensor, l.itemsize);
    dls_alloc_fail(-1);
    if (code == DLS_OK) {
        copy_naively(wanted, source - l.low, &l);
        INSIST(memcmp(copied, wanted, bytes) == 0);
    }
    else {
        INSIST(code == DLS_ENOMEM && copied[0] == 0x55 && copied[bytes - 1] == 0x55);
    }
    free(source);
    free(copied);
    free(wanted);
    return 0;
}

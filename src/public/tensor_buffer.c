/* A Tensor as a buffer: first the refusals, then the view.  Its shape and strides are a
 * block in `internal`, freed at the release.  Tests: tests/core/test_ways_out.py. */
#include "public/tensor_type.h"

#include "core/alloc.h"
#include "core/dtype.h"
#include "core/tensor.h"
#include "exchange/objects.h"
#include "python/errors.h"

#define C_CONTIGUOUS (0x020 | DLS_BUF_STRIDES)
#define F_CONTIGUOUS (0x040 | DLS_BUF_STRIDES)
#define ANY_CONTIGUOUS (0x080 | DLS_BUF_STRIDES)
#define ASKS(flags, what) (((flags) & (what)) == (what))

/* Column-major contiguous?  The tensor has elements. */
static bool
is_f_contiguous(const dl_tensor *t)
{
    int64_t product = 1;
    for (int32_t i = 0; i < t->ndim; i++) {
        if (t->shape[i] > 1 && t->strides[i] != product) {
            return false;
        }
        product *= t->shape[i];
    }
    return true;
}

/* A buffer cannot say every extent or every length if addresses have 32 bits. The scan
 * has accepted the tensor: nothing overflows 64 bits. */
static bool
fits_a_buffer(const dls_tensor *self)
{
#if INTPTR_MAX < INT64_MAX
    int64_t count = dls_tensor_count(self), itemsize = dls_tensor_itemsize(self);
    bool fits = count <= INTPTR_MAX / itemsize;
    for (int32_t i = 0; i < self->tensor.ndim; i++) {
        fits = fits && self->tensor.shape[i] <= INTPTR_MAX;
    }
    return fits;
#else
    (void)self;
    return true;
#endif
}

/* Why this request is refused, NULL when it is not. */
static const char *
refusal(const dls_tensor *self, int flags, const char *format)
{
    const dl_tensor *t = &self->tensor;
    bool c = dls_layout_is_contiguous(t->ndim, t->shape, t->strides);
    if (!dls_device_is_host(t->device.device_type)) {
        return "its memory is not on the host\n"
               "  pass dlshim.from_dlpack(x, device=\"cpu\")";
    }
    if (format == NULL) {
        return "its dtype has no format in the buffer protocol\n"
               "  name one of the same width, dlshim.from_dlpack(x, reinterpret=...)";
    }
    if (!fits_a_buffer(self)) {
        return "it is larger than a buffer can be in a process of 32 bits\n"
               "  pass a part";
    }
    if (ASKS(flags, DLS_BUF_WRITABLE) && (self->flags & DL_FLAG_READ_ONLY)) {
        return "it is read-only and a writable buffer was asked for";
    }
    bool needs_c = ASKS(flags, C_CONTIGUOUS) || !ASKS(flags, DLS_BUF_STRIDES);
    bool f = dls_tensor_count(self) == 0 || is_f_contiguous(t);
    if ((needs_c && !c) || (ASKS(flags, F_CONTIGUOUS) && !f)
        || (ASKS(flags, ANY_CONTIGUOUS) && !c && !f)) {
        return "it is not contiguous in the way that was asked for\n"
               "  pass dlshim.from_dlpack(x, order=\"C\"), or x.tobytes()";
    }
    if (!ASKS(flags, DLS_BUF_ND) || !ASKS(flags, DLS_BUF_FORMAT)) {
        return "a buffer without shape and format was asked for, which would lose the "
               "dtype\n"
               "  pass memoryview(x) for the raw bytes";
    }
    return NULL;
}

int
dls_tensor_getbuffer(PyObject *self, dls_buffer *view, int flags)
{
    dls_tensor *data = dls_tensor_data(self);
    const dl_tensor *t = &data->tensor;
    const char *format = t->dtype.lanes == 1 ? dls_dtype_format(t->dtype) : NULL;
    const char *why = refusal(data, flags, format);
    view->obj = NULL;
    if (why == NULL && t->ndim > DLS_NDIM_INTERFACE) {
        why = "buffers have at most 64 dimensions";
    }
    if (why != NULL) {
        return dls_refuse(data->state, DLS_EBUFFER, self, "%s", why);
    }
    size_t n = (size_t)t->ndim;
    /* Without dimensions, consumers expect NULL as shape and strides. */
    Py_ssize_t *dims = n > 0 ? dls_alloc(2 * n * sizeof *dims) : NULL;
    if (n > 0 && dims == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    Py_ssize_t itemsize = (Py_ssize_t)dls_tensor_itemsize(data);
    for (size_t i = 0; i < n; i++) {
        dims[i] = (Py_ssize_t)t->shape[i];
        int64_t stride;
        /* Only strides that do not count can overflow here: of extents below 2, of
         * empty tensors. */
        bool fits = dls_mul(t->strides[i], itemsize, &stride)
                    && (Py_ssize_t)stride == stride;
        dims[n + i] = fits ? (Py_ssize_t)stride : 0;
    }
    view->buf = dls_tensor_address(data);
    view->len = (Py_ssize_t)dls_tensor_count(data) * itemsize;
    view->itemsize = itemsize;
    view->readonly = (data->flags & DL_FLAG_READ_ONLY) != 0;
    view->ndim = (int)t->ndim;
    view->format = (char *)(uintptr_t)format;
    view->shape = dims;
    view->strides = n > 0 && ASKS(flags, DLS_BUF_STRIDES) ? dims + n : NULL;
    view->suboffsets = NULL;
    view->internal = dims;
    view->obj = Py_NewRef(self);
    return 0;
}

void
dls_tensor_releasebuffer(PyObject *DLS_UNUSED(self), dls_buffer *view)
{
    dls_free(view->internal);
}

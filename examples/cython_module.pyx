# cython: language_level=3
"""Cython: functions that take any array and return memory of C to any library.

    cython -3 cython_module.pyx
    INCLUDES=$(python -c "import sysconfig; print('-I' + sysconfig.get_path('include'))")
    cc -O2 -shared -fPIC $INCLUDES -I$(python -m dlshim --include) cython_module.c \
        -o cython_module.so
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint64_t
from libc.stdlib cimport calloc, free


cdef extern from "dlshim.h":
    ctypedef struct dlshim_dtype:
        uint8_t code, bits
        uint16_t lanes
    ctypedef struct dlshim_array:
        void *data
        int32_t device_type, device_id, ndim
        dlshim_dtype dtype
        const int64_t *shape
        const int64_t *strides
        uint64_t byte_offset
    ctypedef struct dlshim_stream:
        int32_t kind
        uint64_t handle
    ctypedef struct dlshim_request:
        const char *name
        const dlshim_dtype *dtypes
        size_t dtype_count
        uint64_t ranks
        int32_t device_type, device_id
        dlshim_stream stream
        int64_t alignment
        int32_t contiguous, writable, copy
    ctypedef struct dlshim_view:
        dlshim_array array
        uint64_t flags
    ctypedef struct dlshim_table:
        pass
    const dlshim_table *dlshim_load() except NULL
    int dlshim_borrow(object, const dlshim_request *, dlshim_view *) except -1
    void dlshim_borrow_end(dlshim_view *)
    object dlshim_export_array(
        const dlshim_array *, uint64_t flags, void *context, void (*deleter)(void *) noexcept nogil,
        const dlshim_stream *)

# DLSHIM_REQUEST_INIT is an initialiser of C, so C declares the default request.
cdef extern from *:
    """
    #include <dlshim.h>
    static const dlshim_request default_request = DLSHIM_REQUEST_INIT;
    """
    const dlshim_request default_request

dlshim_load()


def scale(x, double by):
    """Multiply the elements in place."""
    cdef dlshim_dtype float64
    cdef dlshim_request want = default_request
    cdef dlshim_view view
    cdef int64_t i, n = 1
    float64.code, float64.bits, float64.lanes = 2, 64, 1
    want.name = b"scale(): x"
    want.dtypes = &float64
    want.dtype_count = 1
    want.contiguous = want.writable = 1
    want.alignment = sizeof(double)
    dlshim_borrow(x, &want, &view)
    try:
        for i in range(view.array.ndim):
            n *= view.array.shape[i]
        data = <double *>(<char *>view.array.data + view.array.byte_offset)
        # The GIL is kept: without it another thread could resize x, or give it other memory.
        for i in range(n):
            data[i] *= by
    finally:
        dlshim_borrow_end(&view)


def ramp(int64_t n):
    """Return 0, 1, 2 ... as a dlshim.Tensor, which every library takes."""
    cdef dlshim_array array
    cdef int64_t i
    cdef double *data
    if n < 0:
        raise ValueError("n is negative")
    data = <double *>calloc(<size_t>n + 1, sizeof(double))  # it looks at the product
    if data == NULL:
        raise MemoryError
    for i in range(n):
        data[i] = i
    array.data = data
    array.device_type, array.device_id, array.ndim = 1, 0, 1
    array.dtype.code, array.dtype.bits, array.dtype.lanes = 2, 64, 1
    array.shape, array.strides, array.byte_offset = &n, NULL, 0
    try:
        return dlshim_export_array(&array, 0, data, free, NULL)
    except:
        free(data)  # a failure takes nothing
        raise

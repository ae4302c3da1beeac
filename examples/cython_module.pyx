# cython: language_level=3
"""Cython: functions that take any array and return memory of C to any library.

    cython -3 cython_module.pyx
    FLAGS=$(python -c "import sys, sysconfig as s; print('-I' + s.get_path('include') \
        + ' -undefined dynamic_lookup' * (sys.platform == 'darwin'))")
    cc -O2 -shared -fPIC $FLAGS -I$(python -m dlshim --include) cython_module.c \
        -o cython_module.so
"""

from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free

from dlshim cimport *

dlshim_load()


def scale(x, double by):
    """Multiply the elements in place."""
    cdef dlshim_dtype float64
    cdef dlshim_request want = dlshim_request_init
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

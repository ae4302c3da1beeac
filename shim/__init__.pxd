# cython: language_level=3
"""dlshim.h for Cython: ``from dlshim cimport *``.  The C compiler needs ``dlshim.get_include()``.

The header says who owns what.  Functions that return an int raise; all but ``dlshim_release`` and
``dlshim_borrow_end`` need the GIL.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

cdef extern from "dlshim.h":
    ctypedef struct dlshim_dtype:
        uint8_t code, bits
        uint16_t lanes
    ctypedef struct dlshim_array:
        void *data
        int32_t device_type, device_id
        int32_t ndim
        dlshim_dtype dtype
        const int64_t *shape
        const int64_t *strides
        uint64_t byte_offset
    ctypedef struct dlshim_stream:
        int32_t kind
        uint64_t handle
    ctypedef struct dlshim_request:
        size_t size
        const char *name
        const dlshim_dtype *dtypes
        size_t dtype_count
        uint64_t ranks
        int32_t device_type
        int32_t device_id
        dlshim_stream stream
        int64_t alignment
        int32_t contiguous
        int32_t writable
        int32_t copy
        int32_t detach
    ctypedef struct DLManagedTensor "struct DLManagedTensor":
        pass
    ctypedef struct DLManagedTensorVersioned "struct DLManagedTensorVersioned":
        pass
    ctypedef struct dlshim_view:
        dlshim_array array
        uint64_t flags
        DLManagedTensorVersioned *owner
        uint64_t room[3]
    ctypedef struct dlshim_table:
        uint32_t abi, size
    enum:
        DLSHIM_ABI
        DLSHIM_READ_ONLY
        DLSHIM_STREAM_DEFAULT
        DLSHIM_STREAM
        DLSHIM_STREAM_READY
        DLSHIM_STREAM_WAIT
        DLSHIM_ANY_DEVICE
        DLSHIM_ROW_MAJOR
        DLSHIM_ROW_OR_COLUMN_MAJOR
        DLSHIM_COPY_IF_NEEDED
        DLSHIM_COPY_NEVER
        DLSHIM_COPY_ALWAYS
    const char *DLSHIM_VERSION
    uint64_t DLSHIM_RANK(int n) nogil
    uint64_t DLSHIM_RANKS(int low, int high) nogil

    const char *dlshim_format(dlshim_dtype) noexcept nogil
    const dlshim_table *dlshim_load() except NULL
    int dlshim_import(object, const dlshim_request *, DLManagedTensorVersioned **) except -1
    dlshim_array dlshim_look(const DLManagedTensorVersioned *, uint64_t *flags) noexcept nogil
    void dlshim_release(DLManagedTensorVersioned *) noexcept nogil
    int dlshim_borrow(object, const dlshim_request *, dlshim_view *) except -1
    void dlshim_borrow_end(dlshim_view *) noexcept nogil
    object dlshim_export(DLManagedTensorVersioned *, const dlshim_stream *)
    object dlshim_export_legacy(DLManagedTensor *, const dlshim_stream *)
    object dlshim_export_array(const dlshim_array *, uint64_t flags, void *context,
                               void (*deleter)(void *) noexcept nogil, const dlshim_stream *)

# DLSHIM_REQUEST_INIT is an initialiser of C: ``cdef dlshim_request want = dlshim_request_init``.
cdef extern from *:
    """
    #include <dlshim.h>
    #if defined(__GNUC__)
    __attribute__((unused)) /* in a module that has no request */
    #endif
    static const dlshim_request dlshim_request_init = DLSHIM_REQUEST_INIT;
    """
    const dlshim_request dlshim_request_init

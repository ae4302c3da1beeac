/* The DLPack ABI, declared by us: structs and constants only.
 *
 * Layouts are those of DLPack 0.2 (legacy) and 1.0 (versioned); no published
 * field has ever moved.  tests/project/test_abi.py compiles this file beside
 * the real dlpack.h of 0.6, 1.0 and 1.3 and compares every size, offset and
 * constant.  Names differ from the real header so that both fit one file.
 */
#pragma once

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

/* Newest level whose rules dlshim itself keeps (non-NULL strides: 1.2). */
#define DL_MAJOR 1
#define DL_MINOR 3

/* X(name in the real header, value) */
#define DL_DEVICE_LIST(X) \
    X(kDLCPU, 1)          \
    X(kDLCUDA, 2)         \
    X(kDLCUDAHost, 3)     \
    X(kDLOpenCL, 4)       \
    X(kDLVulkan, 7)       \
    X(kDLMetal, 8)        \
    X(kDLVPI, 9)          \
    X(kDLROCM, 10)        \
    X(kDLROCMHost, 11)    \
    X(kDLExtDev, 12)      \
    X(kDLCUDAManaged, 13) \
    X(kDLOneAPI, 14)      \
    X(kDLWebGPU, 15)      \
    X(kDLHexagon, 16)     \
    X(kDLMAIA, 17)        \
    X(kDLTrn, 18)

/* On DLPack's main branch, not in a release: passed through, tested by value. */
#define DL_DEVICE_LIST_UNRELEASED(X) \
    X(kDLTPU, 19)                    \
    X(kDLTPUHost, 20)                \
    X(kDLAscend, 21)

#define DL_DTYPE_LIST(X)        \
    X(kDLInt, 0)                \
    X(kDLUInt, 1)               \
    X(kDLFloat, 2)              \
    X(kDLOpaqueHandle, 3)       \
    X(kDLBfloat, 4)             \
    X(kDLComplex, 5)            \
    X(kDLBool, 6)               \
    X(kDLFloat8_e3m4, 7)        \
    X(kDLFloat8_e4m3, 8)        \
    X(kDLFloat8_e4m3b11fnuz, 9) \
    X(kDLFloat8_e4m3fn, 10)     \
    X(kDLFloat8_e4m3fnuz, 11)   \
    X(kDLFloat8_e5m2, 12)       \
    X(kDLFloat8_e5m2fnuz, 13)   \
    X(kDLFloat8_e8m0fnu, 14)    \
    X(kDLFloat6_e2m3fn, 15)     \
    X(kDLFloat6_e3m2fn, 16)     \
    X(kDLFloat4_e2m1fn, 17)

#define DL_DTYPE_LIST_UNRELEASED(X) X(kDLBcomplex, 18)

#define DL_ENUMERATOR(name, value) dl_##name = value,
enum dl_device_type {
    DL_DEVICE_LIST(DL_ENUMERATOR) DL_DEVICE_LIST_UNRELEASED(DL_ENUMERATOR)
};
enum dl_dtype_code {
    DL_DTYPE_LIST(DL_ENUMERATOR) DL_DTYPE_LIST_UNRELEASED(DL_ENUMERATOR)
};

/* X(name in the real header behind DLPACK_FLAG_BITMASK_, bit) */
#define DL_FLAG_LIST(X) \
    X(READ_ONLY, 0)     \
    X(IS_COPIED, 1)     \
    X(IS_SUBBYTE_TYPE_PADDED, 2)

#define DL_FLAG_BIT(name, bit) dl_bit_##name = bit,
enum dl_flag_bit { DL_FLAG_LIST(DL_FLAG_BIT) };
#define DL_FLAG_READ_ONLY ((uint64_t)1 << dl_bit_READ_ONLY)
#define DL_FLAG_IS_COPIED ((uint64_t)1 << dl_bit_IS_COPIED)
#define DL_FLAG_SUBBYTE_PADDED ((uint64_t)1 << dl_bit_IS_SUBBYTE_TYPE_PADDED)
#define DL_FLAG_AND_THIS(name, bit) | (uint64_t)1 << bit
#define DL_FLAGS_KNOWN (UINT64_C(0) DL_FLAG_LIST(DL_FLAG_AND_THIS))

/* Capsule names are part of the protocol and must be static strings. */
#define DL_NAME_LEGACY "dltensor"
#define DL_NAME_LEGACY_USED "used_dltensor"
#define DL_NAME_VERSIONED "dltensor_versioned"
#define DL_NAME_VERSIONED_USED "used_dltensor_versioned"
#define DL_NAME_EXCHANGE_API "dlpack_exchange_api"

typedef struct {
    uint32_t major;
    uint32_t minor;
} dl_version;

typedef struct {
    int32_t device_type; /* an enum of 4 bytes in the real header */
    int32_t device_id;
} dl_device;

typedef struct {
    uint8_t code;
    uint8_t bits;
    uint16_t lanes;
} dl_dtype;

typedef struct {
    void *data; /* address, or a handle on devices without addresses */
    dl_device device;
    int32_t ndim;
    dl_dtype dtype;
    int64_t *shape;
    int64_t *strides; /* in elements; NULL meant row-major before 1.2 */
    uint64_t byte_offset;
} dl_tensor;

typedef struct dl_managed_tensor {
    dl_tensor dl_tensor;
    void *manager_ctx;
    void (*deleter)(struct dl_managed_tensor *self); /* frees self too; may be NULL */
} dl_managed_tensor;

/* All up to and including `flags` is promised stable across majors. */
typedef struct dl_managed_tensor_versioned {
    dl_version version;
    void *manager_ctx;
    void (*deleter)(struct dl_managed_tensor_versioned *self);
    uint64_t flags;
    dl_tensor dl_tensor;
} dl_managed_tensor_versioned;

typedef struct dl_exchange_header {
    dl_version version;
    struct dl_exchange_header *prev_api;
} dl_exchange_header;

/* DLPack's C exchange API (the C table), of DLPack 1.2/1.3.  None of these functions
 * synchronises. */
typedef struct {
    dl_exchange_header header;
    int (*managed_tensor_allocator)(dl_tensor *prototype,
                                    dl_managed_tensor_versioned **out, void *error_ctx,
                                    void (*set_error)(void *error_ctx, const char *kind,
                                                      const char *message));
    int (*managed_tensor_from_py_object_no_sync)(void *py_object,
                                                 dl_managed_tensor_versioned **out);
    int (*managed_tensor_to_py_object_no_sync)(dl_managed_tensor_versioned *tensor,
                                               void **out_py_object);
    int (*dltensor_from_py_object_no_sync)(void *py_object, dl_tensor *out);
    int (*current_work_stream)(int32_t device_type, int32_t device_id,
                               void **out_current_stream);
} dl_exchange_api;

static_assert(sizeof(dl_version) == 8, "DLPackVersion");
static_assert(sizeof(dl_device) == 8, "DLDevice");
static_assert(sizeof(dl_dtype) == 4, "DLDataType");
#if UINTPTR_MAX == UINT64_MAX
static_assert(sizeof(dl_tensor) == 48, "DLTensor");
static_assert(offsetof(dl_tensor, device) == 8, "DLTensor.device");
static_assert(offsetof(dl_tensor, ndim) == 16, "DLTensor.ndim");
static_assert(offsetof(dl_tensor, dtype) == 20, "DLTensor.dtype");
static_assert(offsetof(dl_tensor, shape) == 24, "DLTensor.shape");
static_assert(offsetof(dl_tensor, strides) == 32, "DLTensor.strides");
static_assert(offsetof(dl_tensor, byte_offset) == 40, "DLTensor.byte_offset");
static_assert(sizeof(dl_managed_tensor) == 64, "DLManagedTensor");
static_assert(offsetof(dl_managed_tensor, manager_ctx) == 48, "manager_ctx");
static_assert(offsetof(dl_managed_tensor, deleter) == 56, "deleter");
static_assert(sizeof(dl_managed_tensor_versioned) == 80, "versioned");
static_assert(offsetof(dl_managed_tensor_versioned, manager_ctx) == 8, "manager_ctx");
static_assert(offsetof(dl_managed_tensor_versioned, deleter) == 16, "deleter");
static_assert(offsetof(dl_managed_tensor_versioned, flags) == 24, "flags");
static_assert(offsetof(dl_managed_tensor_versioned, dl_tensor) == 32, "dl_tensor");
static_assert(sizeof(dl_exchange_api) == 56, "DLPackExchangeAPI");
#endif

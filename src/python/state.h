/* Module state: everything that belongs to one interpreter. */
#ifndef DLS_PYTHON_STATE_H
#define DLS_PYTHON_STATE_H

#include "python/py.h"

/* Interned names that the C code looks up or compares.  X(member, text) */
#define DLS_NAME_LIST(X)                                        \
    X(dlpack, "__dlpack__")                                     \
    X(dlpack_device, "__dlpack_device__")                       \
    X(exchange_api, "__dlpack_c_exchange_api__")                \
    X(exchange_api_old, "__c_dlpack_exchange_api__")            \
    X(cuda_array_interface, "__cuda_array_interface__")         \
    X(sycl_usm_array_interface, "__sycl_usm_array_interface__") \
    X(array_struct, "__array_struct__")                         \
    X(array_interface, "__array_interface__")                   \
    X(mro, "__mro__")                                           \
    X(dict, "__dict__")                                         \
    X(stream, "stream")                                         \
    X(max_version, "max_version")                               \
    X(dl_device, "dl_device")                                   \
    X(copy, "copy")                                             \
    X(producer_stream, "producer_stream")                       \
    X(unknown_stream, "unknown_stream")                         \
    X(device, "device")                                         \
    X(readonly, "readonly")                                     \
    X(legacy_readonly, "legacy_readonly")                       \
    X(order, "order")                                           \
    X(align, "align")                                           \
    X(reinterpret, "reinterpret")                               \
    X(assume_device, "assume_device")                           \
    X(on_release, "on_release")                                 \
    X(detach, "detach")                                         \
    X(shape, "shape")                                           \
    X(strides, "strides")                                       \
    X(data, "data")                                             \
    X(typestr, "typestr")                                       \
    X(descr, "descr")                                           \
    X(offset, "offset")                                         \
    X(mask, "mask")                                             \
    X(dtype, "dtype")                                           \
    X(name, "name")                                             \
    X(ndim, "ndim")                                             \
    X(value, "value")                                           \
    X(requires_grad, "requires_grad")                           \
    X(is_conj, "is_conj")                                       \
    X(base, "base")                                             \
    X(is_neg, "is_neg")                                         \
    X(is_cpu, "is_cpu")                                         \
    X(get_capsule, "_get_capsule")                              \
    X(cuda_stream, "__cuda_stream__")                           \
    X(torch_cuda_stream, "cuda_stream")                         \
    X(ptr, "ptr")                                               \
    X(handle, "handle")                                         \
    X(wait, "wait")                                             \
    X(synchronize, "synchronize")                               \
    X(submit_barrier, "submit_barrier")

enum {
#define DLS_NAME_COUNT(member, text) DLS_NAME_INDEX_##member,
    DLS_NAME_LIST(DLS_NAME_COUNT)
#undef DLS_NAME_COUNT
        DLS_NAMES
};

struct dls_plan_cache;

/* Where the keywords of __dlpack__ stand in a kwnames tuple: consumers pass the same
 * constant tuple each time.  at[bit] is the position, -1: not passed (bits: DLS_ASK_*).
 */
typedef struct {
    PyObject *kwnames; /* strong, exactly a tuple; NULL: free */
    int8_t at[4];
    uint8_t mask;
    uint8_t count;
} dls_seen_keywords;
#define DLS_SEEN_KEYWORDS 8

typedef struct dls_state {
    /* names.x is the interned str of DLS_NAME_LIST */
    union {
        struct {
#define DLS_NAME_MEMBER(member, text) PyObject *member;
            DLS_NAME_LIST(DLS_NAME_MEMBER)
#undef DLS_NAME_MEMBER
        } names;
        PyObject *all_names[DLS_NAMES];
    };
    PyTypeObject *producer_type;
    PyTypeObject *tensor_type;
    PyTypeObject *dtype_type;
    PyObject *copy_required_error;
    PyObject *unsupported_object_error;
    /* kwnames[mask]: tuple of the keywords of that mask (DLS_ASK_*,
     * exchange/device_question.h) */
    PyObject *kwnames[16];
    PyObject *asked_version; /* (1, 0): what producers are asked for */
    PyObject *host_device;   /* (1, 0) */
    PyObject *seen_host; /* a producer's own constant (1, 0): most give the same one */
    PyObject *minus_one; /* ints of which CPython has one object each */
    PyObject *zero;
    PyObject *one;
    PyObject *seen_version; /* last max_version tuple: consumers pass a constant */
    bool seen_versioned;    /* what it asked for */
    dls_seen_keywords seen_keywords[DLS_SEEN_KEYWORDS];
    unsigned new_keywords; /* how many tuples were not remembered ... */
    unsigned new_versions; /* ... of either kind */
    PyObject *forget;      /* weakref callback of the plan cache */
    PyObject *modules;     /* sys.modules */
    struct dls_plan_cache *plans;
    Py_tss_t *thread_key;  /* each thread's number (python/thread.h) */
    const void *own_table; /* dlshim's exchange table: never a way in (N2) */
    int gil_deleters;      /* deleters want the GIL around them; -1 = not known yet */
    uint32_t
        legacy_hold; /* what follows: DLS_HOLD_* of each legacy tensor on the host */
} dls_state;

/* Fill names, tuples and error classes.  0, or -1 with an exception set (the caller
 * clears the module). */
int dls_state_init(dls_state *state, PyObject *module);
int dls_state_visit(dls_state *state, visitproc visit, void *arg);
void dls_state_clear(dls_state *state);

#endif

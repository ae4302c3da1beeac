/* dlshim.h 0.1.0: any array into C, any memory out of C.
 * SPDX-License-Identifier: Apache-2.0
 *
 * C99 or C++11.  You may copy this file: nothing is linked.  The first call fetches a table from
 * the Python package dlshim; ImportError tells users what to install.
 *
 * An int result is 0, or -1 with a Python exception.  All but dlshim_release and dlshim_borrow_end
 * need the GIL. */
#ifndef DLSHIM_H
#define DLSHIM_H

#include <Python.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define DLSHIM_VERSION "0.1.0"
#define DLSHIM_ABI 1

struct DLManagedTensor;
struct DLManagedTensorVersioned;

#ifdef __cplusplus
extern "C" {
#endif

/* As DLDataType: code 0 int, 1 uint, 2 float, 4 bfloat, 5 complex, 6 bool; lanes mostly 1. */
typedef struct {
    uint8_t code, bits;
    uint16_t lanes;
} dlshim_dtype;

/* As DLTensor, for good: copy it there with memcpy.  strides count elements.  Of memory that dlshim gives
 * they are never NULL where there are dimensions; of memory that you give, NULL is row-major. */
typedef struct {
    void *data;
    int32_t device_type, device_id;
    int32_t ndim;
    dlshim_dtype dtype;
    const int64_t *shape, *strides;
    uint64_t byte_offset;
} dlshim_array;

enum { DLSHIM_READ_ONLY = 1 }; /* flags are DLPACK_FLAG_BITMASK_* */

typedef struct {
    int32_t kind;
    uint64_t handle; /* as __dlpack__ takes it; of CUDA 1, 2, a cudaStream_t, never 0 */
} dlshim_stream;

enum {
    /* In a request: the device's default stream.  Of an export: not known, consumers wait. */
    DLSHIM_STREAM_DEFAULT = 0,
    DLSHIM_STREAM = 1,       /* the stream `handle`: yours; of an export: that of the work */
    DLSHIM_STREAM_READY = 2, /* the data are ready: nobody waits */
    DLSHIM_STREAM_WAIT = 3   /* in a request only: the host waits until they are */
};
enum { DLSHIM_ANY_DEVICE = -1 };
enum { DLSHIM_ROW_MAJOR = 1, DLSHIM_ROW_OR_COLUMN_MAJOR = 2 };
enum { DLSHIM_COPY_IF_NEEDED = 0, DLSHIM_COPY_NEVER = 1, DLSHIM_COPY_ALWAYS = 2 };

/* What you want.  `dlshim_request want = DLSHIM_REQUEST_INIT;` is host memory of any dtype, rank
 * and strides (negative ones too), which you only read.  It is read during the call alone. */
typedef struct {
    size_t size;      /* DLSHIM_REQUEST_INIT writes it; 0 is refused */
    const char *name; /* what errors call the object: "blur(): image"; NULL: its type */
    const dlshim_dtype *dtypes; /* those that you take ... */
    size_t dtype_count;         /* ... and how many; 0: all */
    uint64_t ranks;             /* DLSHIM_RANK(2) | ..., DLSHIM_RANKS(1, 3); 0: all */
    int32_t device_type;        /* 0: host memory, never moved there; else as DLDevice: the
                                 * memory is copied there if it must; or DLSHIM_ANY_DEVICE */
    int32_t device_id;          /* 0 for host memory and DLSHIM_ANY_DEVICE */
    dlshim_stream stream; /* that you will read or write on */
    int64_t alignment;    /* in bytes, a power of two up to 2^30; 0: any */
    int32_t contiguous;   /* DLSHIM_ROW_MAJOR and the like; 0: any strides */
    int32_t writable;     /* 1: you write; the object sees it, so IF_NEEDED means NEVER */
    int32_t copy;         /* DLSHIM_COPY_* */
    int32_t detach;       /* 1: of a tensor, x.detach(); 0: one that requires grad is refused */
} dlshim_request;

#define DLSHIM_REQUEST_INIT \
    {sizeof(dlshim_request), NULL, NULL, 0, 0, 0, 0, {0, 0}, 0, 0, 0, 0, 0}
#define DLSHIM_RANK(n) (UINT64_C(1) << (n))
#define DLSHIM_RANKS(low, high) (((DLSHIM_RANK(high) << 1) - 1) & ~(DLSHIM_RANK(low) - 1))

/* What the elements are called in a Py_buffer (PEP 3118), a literal; NULL: they have no name there,
 * as bfloat16 has none, or one that depends on the machine, as float128. */
static inline const char *
dlshim_format(dlshim_dtype dtype)
{
    switch (dtype.lanes == 1 ? dtype.code << 8 | dtype.bits : -1) {
    case 0x608: return "?";
    case 0x008: return "b";
    case 0x010: return "h";
    case 0x020: return "i";
    case 0x040: return sizeof(long) == 8 ? "l" : "q";
    case 0x108: return "B";
    case 0x110: return "H";
    case 0x120: return "I";
    case 0x140: return sizeof(long) == 8 ? "L" : "Q";
    case 0x210: return "e";
    case 0x220: return "f";
    case 0x240: return "d";
    case 0x540: return "Zf";
    case 0x580: return "Zd";
    default: return NULL;
    }
}

/* Memory that is borrowed.  Without `writable`, READ_ONLY is set: do not write. */
typedef struct {
    dlshim_array array;
    uint64_t flags;
    struct DLManagedTensorVersioned *owner; /* dlshim's; NULL: the object itself lends it */
    uint64_t room[3];                       /* of later releases */
} dlshim_view;

/* Append-only.  A function of this header asks for the release that brought it, and for no newer
 * one. */
typedef struct {
    uint32_t abi, size;
    int (*import_tensor)(PyObject *, const dlshim_request *, struct DLManagedTensorVersioned **);
    int (*borrow)(PyObject *, const dlshim_request *, dlshim_view *);
    void (*release)(struct DLManagedTensorVersioned *);
    PyObject *(*export_tensor)(void *tensor, int versioned, const dlshim_stream *);
    PyObject *(*export_array)(const dlshim_array *, uint64_t flags, void *context,
                              void (*deleter)(void *), const dlshim_stream *);
} dlshim_table;

/* How far the table of a release goes, and its name. */
#define DLSHIM_0_1_0_ offsetof(dlshim_table, export_array) + sizeof(void (*)(void)), "0.1.0"

#ifdef __cplusplus /* with its own cast: projects have C's among the warnings */
#define DLSHIM_SEEN_AS_(type, value) reinterpret_cast<type>(value)
#else
#define DLSHIM_SEEN_AS_(type, value) ((type)(value))
#endif

#if defined(__GNUC__)
#define DLSHIM_LOAD_(at) __atomic_load_n(&(at), __ATOMIC_ACQUIRE)
#define DLSHIM_STORE_(at, value) __atomic_store_n(&(at), (value), __ATOMIC_RELEASE)
#else /* MSVC: an aligned pointer is read whole, and the table never changes */
#define DLSHIM_LOAD_(at) (at)
#define DLSHIM_STORE_(at, value) ((at) = (value))
#endif

/* Is the exception that dlshim is not installed?  A module that dlshim itself lacks is not it. */
static inline int
dlshim_is_missing_(void)
{
    PyObject *type, *error, *traceback, *name;
    int is = 0;
    if (!PyErr_ExceptionMatches(PyExc_ModuleNotFoundError)) {
        return 0;
    }
    PyErr_Fetch(&type, &error, &traceback);
    PyErr_NormalizeException(&type, &error, &traceback);
    name = error ? PyObject_GetAttrString(error, "name") : NULL;
    is = name && PyUnicode_Check(name) && PyUnicode_CompareWithASCIIString(name, "dlshim") == 0;
    Py_XDECREF(name);
    PyErr_Clear();
    PyErr_Restore(type, error, traceback);
    return is;
}

/* ImportError: which release the module needs, and what `import dlshim` gives (NULL: nothing). */
static inline void
dlshim_refuse_(PyObject *package, const char *release)
{
#define DLSHIM_NEEDS_ "this module needs the Python package dlshim, %s or newer"
#define DLSHIM_CURE_ "pip install --upgrade \"dlshim>=%s\""
    PyObject *version, *path; /* asking may run Python, which must not have an exception set */
    PyErr_Clear();
    version = package ? PyObject_GetAttrString(package, "__version__") : NULL;
    PyErr_Clear();
    path = package ? PyObject_GetAttrString(package, "__path__") : NULL;
    PyErr_Clear();
    if (!package) {
        PyErr_Format(PyExc_ImportError, DLSHIM_NEEDS_ "\n  " DLSHIM_CURE_, release, release);
    }
    else if (version && PyUnicode_Check(version)) {
        PyErr_Format(PyExc_ImportError, DLSHIM_NEEDS_ ", and %U is installed, %R\n  " DLSHIM_CURE_,
                     release, version, package, release);
    }
    else { /* a file or a folder of the user's, or the mock of a test */
        PyErr_Format(PyExc_ImportError,
                     DLSHIM_NEEDS_ ", and something else has its name, %R\n"
                     "  remove or rename that, or import dlshim before a test replaces it; if it "
                     "is not installed: " DLSHIM_CURE_, release, path ? path : package, release);
    }
    Py_XDECREF(version);
    Py_XDECREF(path);
#undef DLSHIM_NEEDS_
#undef DLSHIM_CURE_
}

static inline const dlshim_table *
dlshim_fetch_(const dlshim_table *volatile *known, size_t size, const char *release)
{
    static const char name[] = "dlshim._c_api_v1";
    const dlshim_table *table = NULL;
    PyObject *package = PyImport_ImportModule("dlshim");
    PyObject *capsule = package ? PyObject_GetAttrString(package, "_c_api_v1") : NULL;
    if (capsule && PyCapsule_IsValid(capsule, name)) {
        table = DLSHIM_SEEN_AS_(const dlshim_table *, PyCapsule_GetPointer(capsule, name));
    }
    Py_XDECREF(capsule);
    if (table && (table->abi != DLSHIM_ABI || table->size < size)) {
        table = NULL;
    }
    if (table) {
        DLSHIM_STORE_(*known, table);
    }
    else if (!PyErr_Occurred()
             || (package ? PyErr_ExceptionMatches(PyExc_AttributeError) : dlshim_is_missing_())) {
        dlshim_refuse_(package, release);
    }
    Py_XDECREF(package);
    return table;
}

/* The table of that release or a newer one.  NULL with ImportError. */
static inline const dlshim_table *
dlshim_find_(size_t size, const char *release)
{
    static const dlshim_table *volatile known;
    const dlshim_table *table = DLSHIM_LOAD_(known);
    return table && table->size >= size ? table : dlshim_fetch_(&known, size, release);
}

/* NULL with ImportError.  Call it when your module is imported: all functions need the table. */
static inline const dlshim_table *
dlshim_load(void)
{
    return dlshim_find_(DLSHIM_0_1_0_);
}

/* *tensor: the memory, yours to release; NULL on failure.  request NULL: the defaults.  obj:
 * whatever dlshim.upgrade() takes or gives; a capsule is used up, on failure too.  The tensor keeps
 * what the library's own export keeps: of torch the object, whose shape and memory x.resize_(),
 * x.set_(), x.t_() or x.data = ... replace.  Ask for `detach` where you keep the tensor: of such
 * an alias only x.resize_() takes the memory. */
static inline int
dlshim_import(PyObject *obj, const dlshim_request *request,
              struct DLManagedTensorVersioned **tensor)
{
    const dlshim_table *table = dlshim_find_(DLSHIM_0_1_0_);
    *tensor = NULL;
    return table ? table->import_tensor(obj, request, tensor) : -1;
}

/* The layout of a DLManagedTensorVersioned, which is read by memcpy: its own type may be declared by
 * another header. */
typedef struct {
    uint32_t version[2];
    void *context;
    void (*deleter)(struct DLManagedTensorVersioned *);
    uint64_t flags;
    dlshim_array array;
} dlshim_layout_;
#define DLSHIM_READ_(to, tensor, member) \
    memcpy((to), DLSHIM_SEEN_AS_(const char *, tensor) + offsetof(dlshim_layout_, member), \
           sizeof *(to))

/* The memory of a tensor that dlshim_import gave, and its flags (NULL: not asked); shape and
 * strides stay the tensor's. */
static inline dlshim_array
dlshim_look(const struct DLManagedTensorVersioned *tensor, uint64_t *flags)
{
    dlshim_array array;
    DLSHIM_READ_(&array, tensor, array);
    if (flags) {
        DLSHIM_READ_(flags, tensor, flags);
    }
    return array;
}

/* Give back a tensor that is yours, on any thread; NULL is allowed.  A deleter that is written in
 * Python may lose an exception that is pending, and may call your functions: where your object has
 * the tensor, write NULL or the next one there first. */
static inline void
dlshim_release(struct DLManagedTensorVersioned *tensor)
{
    void (*deleter)(struct DLManagedTensorVersioned *) = NULL;
    if (tensor) {
        DLSHIM_READ_(&deleter, tensor, deleter);
    }
    if (deleter) {
        deleter(tensor);
    }
}

/* The memory of obj until dlshim_borrow_end, which after a failure does nothing.  Keep obj
 * meanwhile, and let nobody resize it: where you release the GIL, or there is none, use
 * dlshim_import. */
static inline int
dlshim_borrow(PyObject *obj, const dlshim_request *request, dlshim_view *view)
{
    const dlshim_table *table = dlshim_find_(DLSHIM_0_1_0_);
    view->owner = NULL;
    return table ? table->borrow(obj, request, view) : -1;
}

static inline void
dlshim_borrow_end(dlshim_view *view)
{
    struct DLManagedTensorVersioned *owner = view->owner;
    view->owner = NULL;
    dlshim_release(owner);
}

/* A new dlshim.Tensor, which speaks every protocol and owns what you passed: the deleter is called
 * once, on any thread, with or without the GIL.  NULL with an exception: all stays yours.
 * stream NULL: DLSHIM_STREAM_DEFAULT. */
static inline PyObject *
dlshim_export(struct DLManagedTensorVersioned *tensor, const dlshim_stream *stream)
{
    const dlshim_table *table = dlshim_find_(DLSHIM_0_1_0_);
    return table ? table->export_tensor(tensor, 1, stream) : NULL;
}

static inline PyObject *
dlshim_export_legacy(struct DLManagedTensor *tensor, const dlshim_stream *stream)
{
    const dlshim_table *table = dlshim_find_(DLSHIM_0_1_0_);
    return table ? table->export_tensor(tensor, 0, stream) : NULL;
}

/* Of plain memory.  *array is copied.  deleter NULL: the memory stays for ever. */
static inline PyObject *
dlshim_export_array(const dlshim_array *array, uint64_t flags, void *context,
                    void (*deleter)(void *), const dlshim_stream *stream)
{
    const dlshim_table *table = dlshim_find_(DLSHIM_0_1_0_);
    return table ? table->export_array(array, flags, context, deleter, stream) : NULL;
}

#ifdef __cplusplus
}
#endif
#endif

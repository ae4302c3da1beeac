/* The module's state: everything that belongs to one import of the module.
 *
 * Code that still has an object or a function of ours may call it while the collector
 * takes the module apart, and after that (a foreign deleter that runs Python is
 * enough).  Therefore:
 *
 * - The state is a block of its own, which the module points at.  It is freed only when
 *   no Producer and no Tensor is left (module/module.c), so `state` in an object is
 *   never stale.
 * - Which members may be NULL, and when, stands above the struct.
 * - `plans` is emptied, not freed.  Where `module` says that the state has been
 * emptied, types/plan_cache.c adds no plan: each exchange finds its plan anew. */
#pragma once

#include "abi/dlpack_abi.h"
#include "core/lock.h"
#include "python/memo.h"
#include "python/py.h"

/* The modules of dlshim whose functions the C code calls.  X(DLS_IN_..., name) */
#define DLS_FOR_EACH_PYTHON_MODULE(X) \
    X(ARRAYS, "arrays")               \
    X(COLUMNS, "columns")             \
    X(CURES, "cures")                 \
    X(DECORATOR, "decorator")         \
    X(DTYPES, "dtypes")               \
    X(IMPORTERS, "importers")         \
    X(KERNELS, "kernels")             \
    X(ONEAPI, "oneapi")               \
    X(TRACKING, "tracking")

typedef enum {
#define MODULE(name, _) DLS_IN_##name,
    DLS_FOR_EACH_PYTHON_MODULE(MODULE)
#undef MODULE
        DLS_PYTHON_MODULES,
} dls_python_module;

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
    X(arrow_c_device_array, "__arrow_c_device_array__")         \
    X(arrow_c_array, "__arrow_c_array__")                       \
    X(arrow_c_device_stream, "__arrow_c_device_stream__")       \
    X(arrow_c_stream, "__arrow_c_stream__")                     \
    X(to_numpy, "to_numpy")                                     \
    X(numpy, "numpy")                                           \
    X(unstack, "unstack")                                       \
    X(from_dlpack, "from_dlpack")                               \
    X(columns, "columns")                                       \
    X(column_names, "column_names")                             \
    X(get_element_type, "get_element_type")                     \
    X(mro, "__mro__")                                           \
    X(dict, "__dict__")                                         \
    X(stream, "stream")                                         \
    X(max_version, "max_version")                               \
    X(dtypes, "dtypes")                                         \
    X(ndims, "ndims")                                           \
    X(writable, "writable")                                     \
    X(dl_device, "dl_device")                                   \
    X(copy, "copy")                                             \
    X(producer_stream, "producer_stream")                       \
    X(unknown_stream, "unknown_stream")                         \
    X(device, "device")                                         \
    X(like, "like")                                             \
    X(readonly, "readonly")                                     \
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
    X(type, "type")                                             \
    X(own_name, "__name__")                                     \
    X(own_version, "__version__")                               \
    X(module, "__module__")                                     \
    X(qualname, "__qualname__")                                 \
    X(about, "_about")                                          \
    X(option_helps, "_option_helps")                            \
    X(reason, "reason")                                         \
    X(why, "_why")                                              \
    X(astype, "astype")                                         \
    X(ndim, "ndim")                                             \
    X(id, "id")                                                 \
    X(device_id, "device_id")                                   \
    X(version, "version")                                       \
    X(syclobj, "syclobj")                                       \
    X(value, "value")                                           \
    X(requires_grad, "requires_grad")                           \
    X(stop_gradient, "stop_gradient")                           \
    X(any, "any")                                               \
    X(unmasked, "unmasked")                                     \
    X(data_type, "data_type")                                   \
    X(is_conj, "is_conj")                                       \
    X(base, "base")                                             \
    X(is_neg, "is_neg")                                         \
    X(resolve_conj, "resolve_conj")                             \
    X(resolve_neg, "resolve_neg")                               \
    X(is_cpu, "is_cpu")                                         \
    X(torch_function, "__torch_function__")                     \
    X(enter, "__enter__")                                       \
    X(exit, "__exit__")                                         \
    X(get_capsule, "_get_capsule")                              \
    X(cuda_stream, "__cuda_stream__")                           \
    X(torch_cuda_stream, "cuda_stream")                         \
    X(ptr, "ptr")                                               \
    X(native_handle, "native_handle")                           \
    X(sycl_queue, "sycl_queue")                                 \
    X(handle, "handle")                                         \
    X(wait, "wait")                                             \
    X(func, "__func__")                                         \
    X(self, "__self__")

enum {
#define DLS_NAME_COUNT(member, text) DLS_NAME_INDEX_##member,
    DLS_NAME_LIST(DLS_NAME_COUNT) DLS_NAMES
};

struct dls_plan;
struct dls_plan_caches;

/* A home: what compiled kernels make of what the objects of a type give them
 * (ctable/homes.h).  Never changed, and freed with its state. */
typedef struct dls_home {
    struct dls_home *next;
    PyTypeObject *producer_type; /* strong: the class of its Producers */
    const void *table;           /* the C table of that class, which is never freed */
    /* current_work_stream of the library's own C table; NULL: there is none that the
     * home's table could ask. */
    int (*work_stream)(int32_t device_type, int32_t device_id, void **out);
} dls_home;

/* One block for each module object, allocated by dls_state_new.  Its parts:
 *
 *   identity   never NULL and never changed, from the end of dls_state_new (names,
 *              constants, errors) or of module_exec (types, own_table,
 *              device_asker) until dls_state_free.
 *   memo       any object in it may be NULL at any time (python/memo.h).
 *   learned    numbers that are found out once.
 *   module     `plans` and `tensor_plan` are not NULL after module_exec, until
 *              dls_state_free; dls_state_empty empties `plans`.  `module` is NULL from
 *              dls_state_empty on: no plan is added then.  The members of
 *              `in_python`, and `dtypes`, are NULL until they are needed, and from
 *              dls_state_empty on until they are needed again.
 *
 * The block outlives its module while a Producer or a Tensor is left: methods of such
 * objects find the identity whole, and the rest empty.  In a module whose exec failed,
 * every member may be NULL; only dls_state_visit, _empty and _free see it. */
typedef struct dls_state {
    /* --- identity --- */
    /* names.x is the interned str of DLS_NAME_LIST */
    union {
        struct {
#define DLS_NAME_MEMBER(member, text) PyObject *member;
            DLS_NAME_LIST(DLS_NAME_MEMBER)
        } names;
        PyObject *all_names[DLS_NAMES];
    };
    PyTypeObject *producer_type;
    PyTypeObject *method_type; /* of the methods that dlshim.producer puts on classes */
    PyTypeObject *tensor_type;
    PyTypeObject *kernel_type; /* of what dlshim.kernel makes */
    PyTypeObject *device_type;
    PyObject *copy_required_error;
    PyObject *unsupported_object_error;
    PyObject *readonly_warning;
    /* kwnames[mask]: tuple of the keywords of that mask (DLS_ASK_*).  kwnames[0] alone
     * is always NULL. */
    PyObject *kwnames[DLS_KW_MASKS];
    PyObject *asked_version; /* (1, 0): the max_version that producers are asked for */
    PyObject *host_device;   /* (1, 0) */
    PyObject *minus_one;     /* ints of which CPython has one object each */
    PyObject *zero;
    PyObject *one;
    PyObject *modules;    /* sys.modules */
    PyObject *type_names; /* a dict, from static types to their names (python/errors) */
    /* Of shim/habits.py, for types/library: the function `of`, and tuples. */
    PyObject *habits_of, *who, *periods, *sycl_copies;
    const void *own_table; /* dlshim's C table: never a way in (N2) */
    /* Asks our __dlpack_device__ of an object for dlshim (exchange/decorated_class). */
    PyObject *device_asker;
    /* For dls_plan_home: finds the home of a type (ctable/homes). */
    PyTypeObject *(*find_home)(struct dls_state *state, struct dls_plan *plan,
                               PyTypeObject *type);

    dls_memo memo;

    /* --- learned --- */
    /* Deleters want the GIL around them; -1 = not known yet.  Written last. */
    DLS_ATOMIC(int) gil_deleters;
    /* DLS_HOLD_* of each legacy tensor on the host, as it follows from gil_deleters. */
    DLS_ATOMIC(uint32_t) legacy_hold;
    uint32_t import_number;            /* in the flags of each hold (core/hold.h) */
    DLS_ATOMIC(bool) tracks;           /* dlshim.track() is on (export/export) */
    DLS_ATOMIC(uint32_t) legacy_flags; /* both */

    /* --- module --- */
    struct dls_plan_caches *plans;
    struct dls_plan *tensor_plan; /* of Tensors and raw capsules; a count */
    DLS_ATOMIC(dls_home *) homes; /* those that were met; only added to */
    /* The next three are read by dls_state_borrow, and only written where empty. */
    PyObject *module;                        /* for the plan cache's callbacks */
    PyObject *in_python[DLS_PYTHON_MODULES]; /* the modules of shim/ ... */
    PyObject *dtypes;       /* ... and the dict of dtypes in one of them */
    struct dls_state *next; /* in the list of states whose module has gone */
    int64_t interpreter;    /* whose objects these are; -1: it has ended */
} dls_state;

/* The state of a module object; NULL before module_exec. */
static inline dls_state *
dls_state_of(PyObject *module)
{
    return *(dls_state **)PyModule_GetState(module);
}

/* The object of a member that dls_state_empty may clear: borrowed, NULL if nothing is
 * there.  dls_let_go gives it back (python/py.h). */
static inline PyObject *
dls_state_borrow(PyObject **member)
{
    DLS_LOCK_STATE();
    PyObject *there = *member;
#ifdef DLS_FREE_THREADED
    Py_XINCREF(there);
#endif
    DLS_UNLOCK();
    return there;
}

/* The state of the last import, if no subinterpreter has imported this module; else
 * NULL: use dls_module_here. */
DLS_EXTERN DLS_ATOMIC(dls_state *) dls_state_known;
/* At the end of an import: find the module in its interpreter from now on.  alone: no
 * subinterpreter has imported it.  0, or -1 with an exception. */
int dls_module_register(dls_state *state, PyObject *module, bool alone);
/* The module in this interpreter; a new reference, NULL with an exception. */
PyObject *dls_module_here(void);

/* Make a state with names, constants and error classes, which the module points at from
 * now on.  NULL with an exception; the parts made until then are freed with the
 * module. */
dls_state *dls_state_new(PyObject *module);
int dls_state_visit(dls_state *state, visitproc visit, void *arg);
/* Break the cycles that go through the state.  May be called again, and on a state
 * whose making failed. */
void dls_state_empty(dls_state *state);
/* Is a Producer or a Tensor left, or may one be?  If not, the state's own references to
 * their types are the only ones, but for those that the classes of homes have to the
 * type Producer. */
bool dls_state_is_used(const dls_state *state);
/* Of a state whose module has gone, which is not used by that: let go of the classes of
 * homes.  Is the type Producer used even so? */
bool dls_state_let_go_of_homes(dls_state *state);
/* The home whose class of Producers this is; NULL: none, its class is Producer
 * itself. */
dls_home *dls_home_of_class(const dls_state *state, const PyTypeObject *type);
/* Free all but the plans, which must be freed before. */
void dls_state_free(dls_state *state);

/* Make the key of a thread-local value, unless *key is one already.  The process keeps
 * it: systems have some 1000 keys, and modules may be imported more often than that.
 * 0, or -1 with MemoryError. */
int dls_key_make(DLS_ATOMIC(Py_tss_t *) * key);

/* A number of the calling thread, never 0 and never used again (the system gives the
 * idents of ended threads to new ones).  0 when out of memory. */
uintptr_t dls_thread_number(void);

/* --- functions of shim/ ---------------------------------------------------- */
/* Modules of shim/ do what is decided once, and the rare work.  `import dlshim` imports
 * those that an exchange which succeeds may need; the others are imported when they are
 * first needed (shim/locks.py).  That fails while the interpreter ends, and inside of
 * the import itself, where a signal handler or a finalizer has come in between: the
 * ImportError says nothing of the object.  The GIL is held, and no exception may be
 * pending. */

/* Call the function of that name in one of the modules with `self` and the arguments of
 * a METH_FASTCALL method.  NULL with an exception. */
PyObject *dls_in_python(dls_state *state, dls_python_module module, const char *name,
                        PyObject *self, PyObject *const *args, Py_ssize_t n,
                        PyObject *kwnames);

/* As dls_in_python, with arguments as Py_BuildValue makes them: a tuple. */
PyObject *dls_in_python_with(dls_state *state, dls_python_module module,
                             const char *name, const char *format, ...);

/* A member of a record of arguments. */
typedef struct {
    const char *name;
    PyObject *value; /* stolen; NULL with an exception */
} dls_member;

/* As dls_in_python_with, with keyword arguments, by name: for functions that need to
 * know much. */
PyObject *dls_in_python_record(dls_state *state, dls_python_module module,
                               const char *name, const dls_member *record, size_t n);

/* Use this object for the module, if none is used yet: its name may be that of another
 * import of dlshim. */
void dls_in_python_give(dls_state *state, dls_python_module module, PyObject *object);

/* The dlshim.dtype, one object for each; NULL with an exception. */
PyObject *dls_dtype_object(dls_state *state, dl_dtype dtype);

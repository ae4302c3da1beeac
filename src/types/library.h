/* The knowledge of the libraries that objects come from (libraries.def), the way to
 * their own functions, and the cures that messages name.  No library is ever imported.
 * The GIL is held. */
#pragma once

#include <stdbool.h>

#include "abi/dlpack_abi.h"
#include "core/tensor.h"
#include "python/py.h"
#include "python/state.h"

/* Traits.  X(NAME, bit, what it means) */
#define DLS_TRAIT_LIST(X)                                                              \
    X(OWNS, 0, "the struct alone keeps the memory alive (T10)")                        \
    X(DOES_NOT_OWN, 1, "the capsule does not keep the memory alive (T3, T10)")         \
    X(IMMUTABLE, 2, "data never change, but legacy capsules cannot say so (T8)")       \
    X(LEGACY_TRUTHFUL, 3, "its legacy answer is as truthful and cheaper (N3)")         \
    X(OLDER_AFTER_REFUSAL, 4, "older protocols describe what __dlpack__ refuses (N2)") \
    X(LAZY_BITS, 5,                                                                    \
      "requires_grad, conjugate and negative bits are checked here (T12)")             \
    X(BASE_TELLS, 6, "host memory where the last .base is None: not asked (N5)")       \
    X(CPU_ONLY, 7, "objects cannot be elsewhere: the device is not asked (N5)")        \
    X(SCALAR_IS_1D, 8, "exports scalars with shape (1,)")                              \
    X(LEARN_ANY_REFUSAL, 9, "keyword refusals of any class are learned (N1)")          \
    X(NO_MINUS_ONE, 10, "takes stream -1 for a handle, and waits for None (S3)")       \
    X(IGNORES_STREAM, 11, "takes the stream and orders nothing")                       \
    X(WAITS, 12, "waits for the device itself before it returns")                      \
    X(REFUSES_TWO, 13, "refuses stream 2, the per-thread default stream")              \
    X(NO_WORK_STREAM, 14, "its table has no current stream to tell")                   \
    X(COPIES_UNFLAGGED, 15, "obeys copy=True, whatever its flags say (T8)")            \
    X(INTERFACE_WAITS, 16, "waits itself before it shows its array interface")         \
    X(WRITABLE, 17, "its memory is writable, whatever its array interface says")       \
    X(ZERO_UNSAID, 18, "its current stream is 0 also where nobody has set one")        \
    X(IS_CPU_TELLS, 19, "host memory where .is_cpu is true: not asked (N5)")           \
    X(ABORTS, 20, "ends the process when asked for elements that are no numbers")      \
    X(STOP_GRADIENT, 21,                                                               \
      "its table does not check .stop_gradient: checked here (T12)")                   \
    X(MASKED, 22, "its mask may hide elements: checked here (T12)")                    \
    X(BOOL_AS_UINT8, 23, "exports booleans as uint8: .data_type() tells")              \
    X(NONE_IS_UNSAID, 24,                                                              \
      "no stream in its CUDA array interface says that none was chosen (S11)")         \
    X(LABEL_CHECKED, 25, "its device may be wrong: the driver is asked (S26)")         \
    X(WRAPS_READ_ONLY, 26,                                                             \
      "a read-only wrapper whose hook refuses questions: asked past the hook (T12)")   \
    X(REFUSES_MINUS_ONE, 27, "refuses stream -1: gets None (N6)")                      \
    X(VALUES, 28, "its values are NumPy's or PyArrow's, and are read as such (C12)")   \
    X(BUFFER_FIRST, 29, "its buffer is cheaper than __dlpack__, and tried first (N2)") \
    X(STATES_READ_ONLY, 30, "its __dlpack__ states READ_ONLY, and so its buffer (T8)")

enum {
#define DLS_TRAIT_BIT(name, bit, text) DLS_LIB_##name = 1 << (bit),
    DLS_TRAIT_LIST(DLS_TRAIT_BIT)
};
/* Libraries whose C table exports tensors that require grad. */
#define DLS_LIB_AUTOGRAD (DLS_LIB_LAZY_BITS | DLS_LIB_STOP_GRADIENT)
/* The object is asked before its producer is (dls_refuse_object). */
#define DLS_LIB_ASKED_FIRST (DLS_LIB_ABORTS | DLS_LIB_MASKED)

typedef struct {
    uint32_t traits;
    const char *name, *module, *type;
} dls_library;

/* The row of a class, by module and qualname over its MRO; NULL when none fits. mro is
 * the class's __mro__ tuple; *at becomes the position of the class that fitted.  A
 * class that cannot be read does not match.  NULL with an exception that is fatal. */
const dls_library *dls_library_match(PyObject *mro, Py_ssize_t *at);

/* Does a row HOLDS_ARRAY name one of the classes?  A fatal exception may be left. */
bool dls_library_holds_array(PyObject *mro);

/* Are the chunks of this class's Arrow stream in memory (IN_MEMORY)?  A fatal exception
 * may be left. */
bool dls_library_has_chunks(dls_state *state, PyObject *class);

/* The row's traits, with the traits that depend on the imported release.  A fatal
 * exception may be left: then they are not whole. */
uint32_t dls_library_traits(dls_state *state, const dls_library *row);

/* Call the first capsule function of a row, or (row NULL) the generic capsule methods
 * that the type has.  1 = *result is its result (new reference), 0 = nothing of the
 * kind here, -1 = exception set. */
int dls_library_capsule(dls_state *state, const dls_library *row, PyObject *obj,
                        PyObject **result);

/* Does such a function exist for this object?  1, 0, or -1 with an exception. */
int dls_library_has_capsule(dls_state *state, const dls_library *row, PyObject *obj);

/* Has the object one of the attributes that are capsule functions on types of unknown
 * libraries?  Results as above. */
int dls_library_has_method(dls_state *state, PyObject *obj);

/* Has the row (NULL: none) a place where its library says that stream? */
bool dls_library_has_stream(const dls_library *row, int32_t device_type);

/* On which stream the row's library works now, over this device: 1 = *result is a
 * stream object or handle (new reference), 0 = the row has no such place or the library
 * says nothing, -1 = exception set. */
int dls_library_stream(dls_state *state, const dls_library *row, PyObject *obj,
                       dl_device device, PyObject **result);

/* Make a device current for the row's library too, where that goes by a number of its
 * own (DEVICE_GUARD).  1 = it was not; *guard (new reference) must be given to
 * dls_library_leave.  0 = nothing was changed; -1 = exception set. */
int dls_library_enter_device(dls_state *state, const dls_library *row, PyObject *obj,
                             int32_t device_id, PyObject **guard);
/* The function that makes a guard under which methods of the row's library answer for a
 * subclass themselves (PLAIN_CALLS): a new reference.  1, 0 = there is none, -1 =
 * exception. */
int dls_library_plain_calls(dls_state *state, const dls_library *row,
                            PyObject **result);

/* Find the C table that exports as read-only (READ_ONLY_TABLE): *result becomes a new
 * reference to its capsule.  1, 0 = there is none, -1 = exception. */
int dls_library_read_only_table(dls_state *state, const dls_library *row,
                                PyObject **result);

/* Make a guard, and enter it.  NULL = exception set. */
PyObject *dls_library_enter(dls_state *state, PyObject *make);
/* guard: stolen.  Keeps a pending exception. */
void dls_library_leave(dls_state *state, PyObject *guard);

/* Is there a known way for the host to wait for the work of the row's library (NULL:
 * none) on devices of this type (DEVICE_WAIT)? */
bool dls_library_can_wait(const dls_library *row, int32_t device_type);

/* Wait.  1 = done, 0 = there is no such way here, -1 = exception set. */
int dls_library_wait(dls_state *state, const dls_library *row, PyObject *obj,
                     dl_device device);

/* Does code that writes to no memory ask (NEVER_WRITES)?  It is the Python code that
 * has called us. */
bool dls_library_never_writes(void);
/* Does code ask that sees READ_ONLY but does not heed it (HEEDS_NOT)?  Returns its
 * module, or NULL. */
const char *dls_library_heeds_not(void);

/* A row LAYOUT. */
typedef struct {
    const char *package;
    bool keywords; /* also if it passes some */
    dls_layout layout;
} dls_layout_row;

/* The row of the code that asks; keywords: it passes some.  NULL: there is none. */
const dls_layout_row *dls_library_layout(bool keywords);
/* The layout from which the imported release computes right values (LAYOUT_BEFORE). */
dls_layout dls_library_layout_read(dls_state *state, const dls_layout_row *row);

/* Does code ask that takes a scalar for an empty array (LOSES_SCALARS)?  Its package,
 * or NULL. */
const char *dls_library_loses_scalars(void);
/* The same for code that waits for no stream of a CUDA array interface (DROPS_STREAM).
 */
bool dls_library_drops_stream(void);

/* Is the library imported by which oneAPI memory is copied (SYCL_COPIES)?  No exception
 * is left. */
bool dls_library_copies_sycl(dls_state *state);

/* Do the integers of this extension type of Arrow count periods of time (PERIODS)?  The
 * name has `length` bytes, and needs no end.  Needs no GIL. */
bool dls_library_counts_periods(const char *extension, size_t length);

/* Is a library imported whose deleters run Python code without taking the GIL (T10)?
 * Looked up until that library has been seen once. */
bool dls_library_gil_deleters(dls_state *state);

/* --- cures ---------------------------------------------------------------- */
/* Cures for an object that cannot be exported: texts for messages, found by the
 * attributes of the object and its type (shim/cures.py).  Called where an error is
 * raised; code of the object runs, and its exceptions are cleared. */

/* How an array is made of the object: "pass x.to_dense() instead"; a new str, or NULL:
 * no way is known.  No exception may be pending. */
PyObject *dls_cure_find(dls_state *state, PyObject *obj);

/* The same for an object whose export has no memory: how the arrays that it wraps are
 * reached, NULL where it is not known to wrap any. */
PyObject *dls_cure_find_wrapped(dls_state *state, PyObject *obj);

/* How the object is written where an array of NumPy is needed: "x" if it is one (or has
 * .astype), else "numpy.asarray(x)".  A pending exception stays. */
const char *dls_cure_array(const dls_state *state, PyObject *obj);

/* Replace the pending exception by BufferError "'pkg.Type' object: it cannot be
 * exported ...", as dls_refuse_from_pending does.  on_host: with the cure; off the host
 * the refusal may be about the device or the stream.  The RecursionError of a
 * __dlpack__ that exports its own object through dlshim is explained.  Always -1. */
int dls_refuse_export(dls_state *state, PyObject *obj, bool on_host);

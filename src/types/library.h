/* What is known of libraries (shim/habits.py): of the classes of their objects, of code
 * that asks, and how they are asked; and the cures that messages name.  No library is
 * ever imported.  The GIL is held. */
#pragma once

#include <stdbool.h>

#include "abi/dlpack_abi.h"
#include "core/tensor.h"
#include "python/py.h"
#include "python/state.h"

/* The words of TRAITS in shim/habits.py, in their order; what each means is said there.
 */
#define DLS_BIT(bit) (UINT64_C(1) << (bit))
#define DLS_LIB_OWNS DLS_BIT(0)
#define DLS_LIB_DOES_NOT_OWN DLS_BIT(1)
#define DLS_LIB_IMMUTABLE DLS_BIT(2)
#define DLS_LIB_LEGACY_TRUTHFUL DLS_BIT(3)
#define DLS_LIB_OLDER_AFTER_REFUSAL DLS_BIT(4)
#define DLS_LIB_LAZY_BITS DLS_BIT(5)
#define DLS_LIB_BASE_TELLS DLS_BIT(6)
#define DLS_LIB_CPU_ONLY DLS_BIT(7)
#define DLS_LIB_SCALAR_IS_1D DLS_BIT(8)
#define DLS_LIB_LEARN_ANY_REFUSAL DLS_BIT(9)
#define DLS_LIB_NO_MINUS_ONE DLS_BIT(10)
#define DLS_LIB_IGNORES_STREAM DLS_BIT(11)
#define DLS_LIB_WAITS DLS_BIT(12)
#define DLS_LIB_REFUSES_TWO DLS_BIT(13)
#define DLS_LIB_NO_WORK_STREAM DLS_BIT(14)
#define DLS_LIB_COPIES_UNFLAGGED DLS_BIT(15)
#define DLS_LIB_INTERFACE_WAITS DLS_BIT(16)
#define DLS_LIB_WRITABLE DLS_BIT(17)
#define DLS_LIB_ZERO_UNSAID DLS_BIT(18)
#define DLS_LIB_IS_CPU_TELLS DLS_BIT(19)
#define DLS_LIB_ABORTS DLS_BIT(20)
#define DLS_LIB_STOP_GRADIENT DLS_BIT(21)
#define DLS_LIB_MASKED DLS_BIT(22)
#define DLS_LIB_BOOL_AS_UINT8 DLS_BIT(23)
#define DLS_LIB_NONE_IS_UNSAID DLS_BIT(24)
#define DLS_LIB_LABEL_CHECKED DLS_BIT(25)
#define DLS_LIB_WRAPS_READ_ONLY DLS_BIT(26)
#define DLS_LIB_REFUSES_MINUS_ONE DLS_BIT(27)
#define DLS_LIB_VALUES DLS_BIT(28)
#define DLS_LIB_BUFFER_FIRST DLS_BIT(29)
#define DLS_LIB_STATES_READ_ONLY DLS_BIT(30)
#define DLS_LIB_HOLDS_ARRAY DLS_BIT(31)
#define DLS_LIB_IN_MEMORY DLS_BIT(32)
#define DLS_LIB_MADE_ANEW DLS_BIT(33)
/* Libraries whose C table exports tensors that require grad. */
#define DLS_LIB_AUTOGRAD (DLS_LIB_LAZY_BITS | DLS_LIB_STOP_GRADIENT)
/* The object is asked before its producer is (dls_refuse_object). */
#define DLS_LIB_ASKED_FIRST (DLS_LIB_ABORTS | DLS_LIB_MASKED)

/* The words of ASKERS, in their order. */
#define DLS_ASKER_NEVER_WRITES 1
#define DLS_ASKER_HEEDS_NOT 2
#define DLS_ASKER_DROPS_STREAM 4
#define DLS_ASKER_LOSES_SCALARS 8
#define DLS_ASKER_WANTS_ELEMENTS 16

/* The words of CALLS, in their order: where they stand in the tuple that a plan keeps.
 * Its first member is the name of the row, or None. */
enum {
    DLS_CALL_NAME,
    DLS_CALL_METHODS,
    DLS_CALL_CAPSULE,
    DLS_CALL_CUDA_STREAM,
    DLS_CALL_ONEAPI_STREAM,
    DLS_CALL_DEVICE_GUARD,
    DLS_CALL_PLAIN_CALLS,
    DLS_CALL_READ_ONLY_TABLE,
    DLS_CALL_METAL_WAIT,
};

/* Take from shim/habits.py what is read here, at the import of the module.  0, or -1
 * with an exception. */
int dls_library_init(dls_state *state);

/* What is known of a class. */
typedef struct {
    uint64_t traits;  /* DLS_LIB_*; those of the release that is imported as well */
    Py_ssize_t at;    /* the position of the row's class in the MRO; -1: no row */
    PyObject *habits; /* strong: the tuple that the functions below take */
} dls_known;

/* Look a class up.  mro: its __mro__ tuple.  own: the position of the class there that
 * has
 * __dlpack__, or -1: a subclass that has one of its own exports its own way, and
 * nothing is known of it.  streams: it gives a stream of Arrow, of which more may be
 * known.  A class that cannot be read has no row.  0, or -1 with an exception: nothing
 * was learned, and the exchange must end. */
int dls_library_find(dls_state *state, PyTypeObject *type, PyObject *mro,
                     Py_ssize_t own, bool streams, dls_known *known);

/* The name of the row, borrowed; NULL: there is none. */
PyObject *dls_library_name(PyObject *habits);

/* The functions below take the tuple of a plan; NULL: nothing is known. */

/* Call the first capsule method that the object has, or the row's capsule function;
 * where there is no row, a method that the type has.  1 = *result is its result (new
 * reference), 0 = nothing of the kind here, -1 = exception set. */
int dls_library_capsule(PyObject *habits, PyObject *obj, PyObject **result);

/* Does such a function exist for this object?  1, 0, or -1 with an exception. */
int dls_library_has_capsule(PyObject *habits, PyObject *obj);

/* Has the object itself one of these methods?  Results as above. */
int dls_library_has_method(PyObject *habits, PyObject *obj);

/* Is there a place where the library says that stream? */
bool dls_library_has_stream(PyObject *habits, int32_t device_type);

/* On which stream the library works now, over this device: 1 = *result is a stream
 * object or handle (new reference), 0 = there is no such place or the library says
 * nothing, -1 = exception set. */
int dls_library_stream(PyObject *habits, PyObject *obj, dl_device device,
                       PyObject **result);

/* Make a device current for the library too, where that goes by a current device of its
 * own, which need not be the driver's (S15).  1 = it was not; *guard (new reference)
 * must be given to dls_library_leave.  0 = nothing was changed; -1 = exception set. */
int dls_library_enter_device(dls_state *state, PyObject *habits, PyObject *obj,
                             int32_t device_id, PyObject **guard);
/* What makes a context manager in which a method that is called on a subclass answers
 * at once, and not through the hook that the library gives to every subclass: a new
 * reference.  1, 0 = there is none, -1 = exception. */
int dls_library_plain_calls(PyObject *habits, PyObject **result);

/* Find the C table that exports as read-only, without the copy that a writable export
 * of a lazy copy makes: *result becomes a new reference to its capsule.  1, 0 = there
 * is none, -1 = exception. */
int dls_library_read_only_table(PyObject *habits, PyObject **result);

/* Make a guard, and enter it.  NULL = exception set. */
PyObject *dls_library_enter(dls_state *state, PyObject *make);
/* guard: stolen.  Keeps a pending exception. */
void dls_library_leave(dls_state *state, PyObject *guard);

/* Is there a known way for the host to wait for the work of the library on devices of
 * this type?  Its __dlpack__ does not wait (S8). */
bool dls_library_can_wait(PyObject *habits, int32_t device_type);

/* Wait.  1 = done, 0 = there is no such way here, -1 = exception set. */
int dls_library_wait(PyObject *habits, PyObject *obj, dl_device device);

/* --- who asks --------------------------------------------------------------- */
/* The Python code that has called us is known by its module (WHO in shim/habits.py).
 * These run in the middle of exchanges: no code of ours runs in Python. */

/* Is this known of its module (one DLS_ASKER_*)?  The module's name, which the state
 * keeps; NULL: it is not. */
const char *dls_library_asked_by(const dls_state *state, int word);
/* As dls_library_asked_by, of the package that its module lies in, whose name is
 * returned. */
const char *dls_library_asked_within(const dls_state *state, int word);

/* Is a layout known that its package takes, and refuses or misreads all others (N9)?
 * keywords: it passes some.  right: the layout from which the imported release computes
 * right values, if it takes more than that.  *package becomes the name. */
bool dls_library_layout(dls_state *state, bool keywords, bool right, dls_layout *layout,
                        const char **package);

/* --- more ------------------------------------------------------------------- */

/* Is the library imported by which oneAPI memory is copied (SYCL_COPIES)?  No exception
 * is left. */
bool dls_library_copies_sycl(dls_state *state);

/* Do the integers of this extension type of Arrow count periods of time (PERIODS)?  The
 * name has `length` bytes, and needs no end. */
bool dls_library_counts_periods(const dls_state *state, const char *extension,
                                size_t length);

/* Is a library imported whose deleters run Python code without taking the GIL (T10)?
 * Looked up until that library has been seen once. */
bool dls_library_gil_deleters(dls_state *state);

/* --- cures ---------------------------------------------------------------- */
/* Cures for an object that cannot be exported: texts for messages, found by the
 * attributes of the object and its type (shim/cures.py).  Called where an error is
 * raised; code of the object runs, and its exceptions are cleared. */

/* How an array is made of the object, as the end of a text: "\n  pass x.to_dense()
 * instead", or ", because ...\n  ..."; a new str, or NULL: no way is known.  No
 * exception may be pending. */
PyObject *dls_cure_find(dls_state *state, PyObject *obj);

/* As dls_cure_find, for an object whose export has no memory: how the arrays that it
 * wraps are reached, NULL where it is not known to wrap any. */
PyObject *dls_cure_find_wrapped(dls_state *state, PyObject *obj);

/* How the object is written where an array of NumPy is needed: "x" if it is one (or has
 * .astype), else "numpy.asarray(x)".  NULL where NumPy cannot read the memory, and
 * would make an array of the object itself: it is not a protocol of the host that shows
 * the memory, and the object has no __array__.  A pending exception stays. */
const char *dls_cure_array(const dls_state *state, PyObject *obj, bool on_host);

/* Replace the pending exception by BufferError "'pkg.Type' object: it cannot be
 * exported ...", as dls_refuse_from_pending does.  on_host: with the cure; off the host
 * the refusal may be about the device or the stream.  The RecursionError of a
 * __dlpack__ that exports its own object through dlshim is explained.  Always -1. */
int dls_refuse_export(dls_state *state, PyObject *obj, bool on_host);

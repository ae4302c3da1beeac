/* Looks classes and asking code up in the table of shim/habits.py, and asks libraries
 * by the functions that stand there: for capsules, current streams and devices; finds
 * the cures for objects that cannot be exported, by shim/cures.py.  Foreign code runs,
 * but not where it is asked who asks.  Tests: tests/core/test_habits.py,
 * tests/core/test_ways_in.py, tests/core/test_imports.py, tests/device/test_matrix.py,
 * tests/core/test_cures.py. */
#include "types/library.h"

#include <stdlib.h>
#include <string.h>

#include "core/hold.h"
#include "python/errors.h"
#include "python/state.h"

int
dls_library_init(dls_state *state)
{
    PyObject *habits = PyImport_ImportModule("dlshim.habits");
    const struct {
        const char *name;
        PyObject **member;
    } taken[] = {{"of", &state->habits_of},
                 {"WHO", &state->who},
                 {"PERIODS", &state->periods},
                 {"SYCL_COPIES", &state->sycl_copies}};
    for (size_t i = 0; habits != NULL && i < sizeof taken / sizeof *taken; i++) {
        *taken[i].member = PyObject_GetAttrString(habits, taken[i].name);
        if (*taken[i].member == NULL) {
            Py_CLEAR(habits);
        }
    }
    Py_XDECREF(habits);
    return habits != NULL ? 0 : -1;
}

/* --- releases --------------------------------------------------------------------- */

/* Is a module older than major.minor?  1 = yes, 0 = no, or it does not say, -1 = it is
 * not imported, -2 = exception: its __getattr__ has failed. */
static int
module_is_older(dls_state *state, const char *name, long major, long minor)
{
    PyObject *module = dls_dict_borrow_text(state->modules, name), *version = NULL;
    if (module == NULL) {
        return -1;
    }
    int older = dls_get_optional(module, state->names.own_version, &version) < 0 ? -2
                                                                                 : 0;
    const char *text = version != NULL && PyUnicode_Check(version)
                           ? PyUnicode_AsUTF8AndSize(version, NULL)
                           : NULL;
    if (text != NULL) {
        char *end;
        long long have = strtoll(text, &end, 10);
        long long next = *end == '.' ? strtoll(end + 1, NULL, 10) : 0;
        older = have < major || (have == major && next < minor);
    }
    Py_XDECREF(version);
    dls_let_go(module);
    return PyErr_Occurred() == NULL ? older : -2;
}

/* Add the traits that the imported release has.  0, or -1 with an exception. */
static int
add_releases(dls_state *state, PyObject *releases, uint64_t *traits)
{
    for (Py_ssize_t i = 0; i < PyTuple_Size(releases); i++) {
        const char *module;
        int major, minor;
        unsigned long long before, since;
        if (!PyArg_ParseTuple(PyTuple_GetItem(releases, i), "siiKK", &module, &major,
                              &minor, &before, &since)) {
            return -1;
        }
        int older = module_is_older(state, module, major, minor);
        if (older == -2) {
            return -1;
        }
        *traits |= older > 0 ? before : 0;
        *traits |= older == 0 ? since : 0;
    }
    return 0;
}

/* An exception where none can be raised; an interrupt comes again. */
static void
forget_error(void)
{
    if (PyErr_Occurred() != NULL && PyErr_ExceptionMatches(PyExc_KeyboardInterrupt)) {
        PyErr_SetInterrupt();
    }
    PyErr_Clear();
}

/* Is it known to be older?  No exception is left. */
static bool
is_surely_older(dls_state *state, const char *module, long major, long minor)
{
    int older = module_is_older(state, module, major, minor);
    forget_error();
    return older > 0;
}

bool
dls_library_gil_deleters(dls_state *state)
{
    if (state->gil_deleters < 0) {
        /* array_dlpack_deleter touches the array without PyGILState_Ensure up to 1.23.
         * It is asked here because deleters read no table: all that they need is in
         * legacy_hold. */
        int older = module_is_older(state, "numpy", 1, 24);
        if (older < 0) {
            forget_error();
            return false; /* it may still be imported: nothing is kept */
        }
        state->legacy_hold = older == 1 ? DLS_HOLD_WANTS_GIL : 0;
        state->legacy_flags = state->import_number | state->legacy_hold;
        state->gil_deleters = older;
    }
    return state->gil_deleters == 1;
}

/* --- classes ---------------------------------------------------------------------- */

/* The attribute of a class, if it is a str; else "".  No subclass of str, whose code
 * would run in the look-up.  NULL with an exception that is fatal. */
static PyObject *
text_attribute(PyObject *class, PyObject *attribute)
{
    PyObject *value = PyObject_GetAttr(class, attribute);
    PyObject *text = value != NULL && PyUnicode_Check(value)
                         ? PyUnicode_FromObject(value)
                         : NULL;
    Py_XDECREF(value);
    if (text == NULL && (PyErr_Occurred() == NULL || dls_error_forget() == 0)) {
        text = PyUnicode_FromString("");
    }
    return text;
}

/* (module, qualified name) of each class of the MRO; NULL with an exception. */
static PyObject *
names_of(const dls_state *state, PyObject *mro)
{
    Py_ssize_t n = PyTuple_Size(mro);
    PyObject *names = PyTuple_New(n);
    for (Py_ssize_t i = 0; names != NULL && i < n; i++) {
        PyObject *class = PyTuple_GetItem(mro, i);
        PyObject *module = text_attribute(class, state->names.module);
        PyObject *name = module != NULL ? text_attribute(class, state->names.qualname)
                                        : NULL;
        PyObject *both = name != NULL ? PyTuple_Pack(2, module, name) : NULL;
        Py_XDECREF(module);
        Py_XDECREF(name);
        if (both == NULL || PyTuple_SetItem(names, i, both) < 0) {
            Py_CLEAR(names);
        }
    }
    return names;
}

/* Read the answer of `of`.  0, or -1 with an exception. */
static int
read_answer(dls_state *state, PyObject *answer, dls_known *known)
{
    unsigned long long traits;
    PyObject *habits, *releases;
    if (!PyArg_ParseTuple(answer, "KnO!O!", &traits, &known->at, &PyTuple_Type, &habits,
                          &PyTuple_Type, &releases)) {
        return -1;
    }
    known->traits = traits;
    if (add_releases(state, releases, &known->traits) < 0) {
        return -1;
    }
    known->habits = Py_NewRef(habits);
    return 0;
}

int
dls_library_find(dls_state *state, PyTypeObject *type, PyObject *mro, Py_ssize_t own,
                 bool streams, dls_known *known)
{
    PyObject *names = names_of(state, mro);
    PyObject *at = names != NULL ? PyLong_FromSsize_t(own) : NULL;
    PyObject *args[] = {(PyObject *)type, names, at, streams ? Py_True : Py_False};
    PyObject *answer = at != NULL ? dls_compat.PyObject_Vectorcall(state->habits_of,
                                                                   args, 4, NULL)
                                  : NULL;
    int code = answer != NULL ? read_answer(state, answer, known) : -1;
    Py_XDECREF(names);
    Py_XDECREF(at);
    Py_XDECREF(answer);
    return code;
}

/* --- how a library is asked ------------------------------------------------------- */

/* A member of the tuple, borrowed; NULL: nothing is known. */
static PyObject *
find_call(PyObject *habits, int call)
{
    PyObject *found = habits != NULL ? PyTuple_GetItem(habits, call) : Py_None;
    return found != Py_None ? found : NULL;
}

PyObject *
dls_library_name(PyObject *habits)
{
    return find_call(habits, DLS_CALL_NAME);
}

/* Call the function with the array, and the number of a device (NULL: none).  1 =
 * *result (new reference), 0 = there is no function, or the library is not imported or
 * lacks it, -1 = exception set. */
static int
ask(PyObject *habits, int call, PyObject *array, const int32_t *device_id,
    PyObject **result)
{
    PyObject *function = find_call(habits, call);
    if (function == NULL) {
        return 0;
    }
    if (!PyCallable_Check(function)) { /* the stream itself */
        *result = Py_NewRef(function);
        return 1;
    }
    PyObject *number = device_id != NULL ? PyLong_FromLong(*device_id) : NULL;
    if (device_id != NULL && number == NULL) {
        return -1;
    }
    PyObject *args[] = {array, number};
    *result = dls_compat.PyObject_Vectorcall(function, args, 1 + (number != NULL),
                                             NULL);
    Py_XDECREF(number);
    if (*result != NULL) {
        return 1;
    }
    if (!PyErr_ExceptionMatches(PyExc_AttributeError)) {
        return -1;
    }
    PyErr_Clear();
    return 0;
}

/* --- capsules --------------------------------------------------------------------- */

/* Has the type this attribute?  One that only the object has may be anything: a Mock
 * has every one, a DataFrame its columns.  1, 0 or -1. */
static int
type_has(PyObject *obj, PyObject *name)
{
    PyObject *value = NULL;
    int got = dls_get_optional((PyObject *)Py_TYPE(obj), name, &value);
    Py_XDECREF(value);
    return got;
}

/* The first of the methods that the object has.  1 = *method (new reference), 0, or -1
 * with an exception. */
static int
find_method(PyObject *habits, PyObject *obj, PyObject **method)
{
    int got = 0;
    PyObject *methods = find_call(habits, DLS_CALL_METHODS);
    bool by_type = dls_library_name(habits) == NULL;
    Py_ssize_t n = methods != NULL ? PyTuple_Size(methods) : 0;
    for (Py_ssize_t i = 0; got == 0 && i < n; i++) {
        PyObject *name = PyTuple_GetItem(methods, i);
        got = by_type ? type_has(obj, name) : 1;
        got = got > 0 ? dls_get_optional(obj, name, method) : got;
        got = got < 0 ? dls_error_forget_warning() : got;
    }
    return got;
}

int
dls_library_has_method(PyObject *habits, PyObject *obj)
{
    int got = 0;
    PyObject *methods = find_call(habits, DLS_CALL_METHODS);
    Py_ssize_t n = methods != NULL ? PyTuple_Size(methods) : 0;
    for (Py_ssize_t i = 0; got == 0 && i < n; i++) {
        PyObject *method = NULL;
        got = dls_get_optional(obj, PyTuple_GetItem(methods, i), &method);
        Py_XDECREF(method);
    }
    return got;
}

/* The function that makes a capsule when it is called without arguments.  Result as of
 * find_method. */
static int
find_capsule_function(PyObject *habits, PyObject *obj, PyObject **function)
{
    int got = find_method(habits, obj, function);
    return got == 0 ? ask(habits, DLS_CALL_CAPSULE, obj, NULL, function) : got;
}

/* Call the function that was found (stolen): 1 = *result, -1 = exception set. */
static int
call_found(PyObject *function, PyObject **result)
{
    *result = PyObject_CallFunctionObjArgs(function, NULL);
    Py_DECREF(function);
    return *result != NULL ? 1 : -1;
}

int
dls_library_has_capsule(PyObject *habits, PyObject *obj)
{
    PyObject *function = NULL;
    int got = find_capsule_function(habits, obj, &function);
    Py_XDECREF(function);
    return got;
}

int
dls_library_capsule(PyObject *habits, PyObject *obj, PyObject **result)
{
    PyObject *function = NULL;
    int got = find_capsule_function(habits, obj, &function);
    return got > 0 ? call_found(function, result) : got;
}

/* --- streams and devices ---------------------------------------------------------- */

/* HIP builds go by CUDA's names. */
static int
stream_call(int32_t device_type)
{
    return device_type == dl_kDLOneAPI ? DLS_CALL_ONEAPI_STREAM : DLS_CALL_CUDA_STREAM;
}

bool
dls_library_has_stream(PyObject *habits, int32_t device_type)
{
    return find_call(habits, stream_call(device_type)) != NULL;
}

int
dls_library_stream(PyObject *habits, PyObject *obj, dl_device device, PyObject **result)
{
    return ask(habits, stream_call(device.device_type), obj, &device.device_id, result);
}

/* Enter a guard (stolen), and return it; NULL = exception set. */
static PyObject *
enter(dls_state *state, PyObject *guard)
{
    PyObject *args[2] = {NULL, guard};
    PyObject *result = dls_compat.PyObject_VectorcallMethod(
        state->names.enter, &args[1], 1 | DLS_VECTORCALL_OFFSET, NULL);
    if (result == NULL) {
        Py_CLEAR(guard);
    }
    Py_XDECREF(result);
    return guard;
}

int
dls_library_enter_device(dls_state *state, PyObject *habits, PyObject *obj,
                         int32_t device_id, PyObject **guard)
{
    *guard = NULL;
    int got = ask(habits, DLS_CALL_DEVICE_GUARD, obj, &device_id, guard);
    if (got > 0 && *guard == Py_None) { /* it is current */
        Py_CLEAR(*guard);
        return 0;
    }
    if (got > 0) {
        *guard = enter(state, *guard);
    }
    return got > 0 && *guard == NULL ? -1 : got;
}

int
dls_library_plain_calls(PyObject *habits, PyObject **result)
{
    return ask(habits, DLS_CALL_PLAIN_CALLS, Py_None, NULL, result);
}

int
dls_library_read_only_table(PyObject *habits, PyObject **result)
{
    return ask(habits, DLS_CALL_READ_ONLY_TABLE, Py_None, NULL, result);
}

PyObject *
dls_library_enter(dls_state *state, PyObject *make)
{
    PyObject *guard = PyObject_CallFunctionObjArgs(make, NULL);
    return guard != NULL ? enter(state, guard) : NULL;
}

void
dls_library_leave(dls_state *state, PyObject *guard)
{
    PyObject *error = dls_error_take();
    PyObject *args[5] = {NULL, guard, Py_None, Py_None, Py_None};
    Py_XDECREF(dls_compat.PyObject_VectorcallMethod(state->names.exit, &args[1],
                                                    4 | DLS_VECTORCALL_OFFSET, NULL));
    PyErr_Clear();
    Py_DECREF(guard);
    if (error != NULL) {
        dls_error_restore(error);
    }
}

bool
dls_library_can_wait(PyObject *habits, int32_t device_type)
{
    return device_type == dl_kDLMetal && find_call(habits, DLS_CALL_METAL_WAIT) != NULL;
}

int
dls_library_wait(PyObject *habits, PyObject *obj, dl_device device)
{
    PyObject *function = NULL, *result = NULL;
    int got = dls_library_can_wait(habits, device.device_type)
                  ? ask(habits, DLS_CALL_METAL_WAIT, obj, NULL, &function)
                  : 0;
    got = got > 0 ? call_found(function, &result) : got;
    Py_XDECREF(result);
    return got;
}

/* --- who asks --------------------------------------------------------------------- */
/* The rows are walked, and not looked up by a hash: nothing is allocated, so that these
 * questions have no errors, and no code runs, whatever a module says is its name. */

/* The name of the module of the code that asks, to be given to dls_let_go; NULL: no
 * Python code runs, or its name is no str. */
static PyObject *
asking_module(void)
{
    PyObject *globals = PyEval_GetGlobals(); /* borrowed; NULL: no Python code runs */
    PyObject *name = globals != NULL ? dls_dict_borrow_text(globals, "__name__") : NULL;
    if (name == NULL || PyUnicode_Check(name)) {
        return name;
    }
    dls_let_go(name);
    return NULL;
}

/* A row of WHO. */
typedef struct {
    int words; /* DLS_ASKER_* */
    int layout, layout_with_keywords;
    int major, minor, layout_before; /* that release */
    const char *name;                /* which the state keeps */
} asker;

static bool
read_row(PyObject *row, asker *found)
{
    PyObject *key;
    return PyArg_ParseTuple(row, "Oiiiiiis", &key, &found->words, &found->layout,
                            &found->layout_with_keywords, &found->major, &found->minor,
                            &found->layout_before, &found->name);
}

static bool
starts_with(PyObject *text, PyObject *start)
{
    return PyUnicode_Tailmatch(text, start, 0, PyUnicode_GetLength(start), -1) > 0;
}

/* Find the row of the code that asks: of its module, or of the package that it lies
 * in, which has a dot after it. */
static bool
find_asker(const dls_state *state, bool package, asker *found)
{
    PyObject *rows = PyTuple_GetItem(state->who, package), *row = NULL;
    PyObject *module = asking_module();
    Py_ssize_t n = module != NULL ? PyTuple_Size(rows) : 0;
    for (Py_ssize_t i = 0; i < n && row == NULL; i++) {
        PyObject *each = PyTuple_GetItem(rows, i), *key = PyTuple_GetItem(each, 0);
        bool fits = package ? starts_with(module, key)
                            : PyUnicode_Compare(module, key) == 0;
        row = fits ? each : NULL;
    }
    dls_let_go(module);
    return row != NULL && read_row(row, found);
}

const char *
dls_library_asked_by(const dls_state *state, int word)
{
    asker found;
    return find_asker(state, false, &found) && (found.words & word) ? found.name : NULL;
}

const char *
dls_library_asked_within(const dls_state *state, int word)
{
    asker found;
    return find_asker(state, true, &found) && (found.words & word) ? found.name : NULL;
}

bool
dls_library_layout(dls_state *state, bool keywords, bool right, dls_layout *layout,
                   const char **package)
{
    asker found;
    if (!find_asker(state, true, &found)) {
        return false;
    }
    int taken = keywords ? found.layout_with_keywords : found.layout;
    if (taken == DLS_LAYOUT_ANY) {
        return false;
    }
    bool older = right && found.layout_before != DLS_LAYOUT_ANY
                 && is_surely_older(state, found.name, found.major, found.minor);
    *layout = (dls_layout)(older ? found.layout_before : taken);
    *package = found.name;
    return true;
}

/* --- more ------------------------------------------------------------------------- */

bool
dls_library_copies_sycl(dls_state *state)
{
    PyObject *found = NULL, *name = PyTuple_GetItem(state->sycl_copies, 0);
    PyObject *module = dls_dict_borrow(state->modules, name);
    if (module != NULL) {
        found = PyObject_GetAttr(module, PyTuple_GetItem(state->sycl_copies, 1));
    }
    dls_let_go(module);
    Py_XDECREF(found);
    PyErr_Clear(); /* an error of its __getattr__ says no */
    return found != NULL;
}

bool
dls_library_counts_periods(const dls_state *state, const char *extension, size_t length)
{
    bool found = false;
    for (Py_ssize_t i = 0; i < PyTuple_Size(state->periods); i++) {
        PyObject *known = PyTuple_GetItem(state->periods, i);
        found |= (size_t)PyBytes_Size(known) == length
                 && memcmp(PyBytes_AsString(known), extension, length) == 0;
    }
    return found;
}

/* --- cures ---------------------------------------------------------------- */

static PyObject *
find_cure(dls_state *state, PyObject *obj, bool wrapper)
{
    PyObject *text = dls_in_python_with(state, DLS_IN_CURES, "cure", "(ONi)", obj,
                                        dls_type_name(state, obj), wrapper);
    if (text != NULL && !PyUnicode_Check(text)) {
        Py_CLEAR(text);
    }
    forget_error(); /* the refusal has its own */
    return text;
}

PyObject *
dls_cure_find(dls_state *state, PyObject *obj)
{
    return find_cure(state, obj, false);
}

PyObject *
dls_cure_find_wrapped(dls_state *state, PyObject *obj)
{
    return find_cure(state, obj, true);
}

const char *
dls_cure_array(const dls_state *state, PyObject *obj, bool on_host)
{
    PyObject *type = (PyObject *)Py_TYPE(obj);
    if (PyObject_HasAttr(type, state->names.astype)) {
        return "x";
    }
    return on_host || PyObject_HasAttrString(type, "__array__") ? "numpy.asarray(x)"
                                                                : NULL;
}

/* Has the object's own __dlpack__ asked for this exchange? */
static bool
exports_itself(dls_state *state, PyObject *obj)
{
    PyObject *answer = dls_in_python_with(state, DLS_IN_CURES, "exports_itself", "(O)",
                                          obj);
    Py_XDECREF(answer);
    forget_error();
    return answer == Py_True;
}

int
dls_refuse_export(dls_state *state, PyObject *obj, bool on_host)
{
    bool recursion = PyErr_ExceptionMatches(PyExc_RecursionError);
    if (dls_error_is_fatal() && !recursion) {
        return -1;
    }
    PyObject *error = dls_error_take();
    if (recursion && exports_itself(state, obj)) {
        dls_refuse(state, DLS_EBUFFER, obj,
                   "its __dlpack__ asks dlshim to export the object itself, which asks "
                   "__dlpack__ again, without end\n"
                   "  give dlshim the array that the object holds");
        return dls_refuse_with_cause(error);
    }
    if (dls_error_names(state, error, obj)) {
        dls_error_restore(error); /* it names its own cure */
        return -1;
    }
    PyObject *cure = on_host ? dls_cure_find(state, obj) : NULL;
    dls_error_restore(error);
    dls_refuse_from_pending(state, obj, "it cannot be exported%V", cure, "");
    Py_XDECREF(cure);
    return -1;
}
